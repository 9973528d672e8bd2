"""Clients that read slowly, stop half-way, or vanish; and too many of them."""
import threading
import unittest

import wire
from wire import get, head

PROGRAM = "tests/http/http-test-server"
BIG = 24 << 20


class HalfClose(unittest.TestCase):
    def test_a_client_that_has_said_all_still_gets_its_replies(self):
        with wire.Server(PROGRAM) as server:
            got = server.exchange(get("/bytes/3") + get("/sleep/50") + get("/bytes/4"))
            self.assertEqual(got.count(b"HTTP/1.1 200"), 3)
            self.assertTrue(got.endswith(b"xxxx"))

    def test_an_end_in_the_middle_of_a_request_is_no_request(self):
        with wire.Server(PROGRAM) as server:
            for data in (b"", b"G", get("/bytes/1")[:-2],
                         head(b"POST /read/10 HTTP/1.1", b"Content-Length: 10") + b"hello"):
                got = server.exchange(data)
                self.assertNotIn(b"200", got[:20])
            with server.connect() as c:
                self.assertEqual(c.get("/bytes/1").status, 200)


class SlowReaders(unittest.TestCase):
    def test_a_stream_waits_for_a_slow_reader_in_bounded_memory(self):
        with wire.Server(PROGRAM) as server, server.connect(receive_buffer=4096) as c:
            with server.connect() as other:
                self.assertEqual(other.get("/bytes/1").status, 200)
                before = server.rss_kb()
                c.send(get(f"/stream/{BIG}"))
                c.wait_read()
                for _ in range(50):
                    self.assertEqual(other.get("/bytes/1").status, 200)
                if wire.MEMORY_IS_EXACT:  # threads that start meanwhile cost some; not this much
                    self.assertLess((server.rss_kb() - before) * 1024, BIG // 2)
                self.assertEqual(len(c.read_response().body), BIG)
                self.assertEqual(c.get("/bytes/2").body, b"xx")

    def test_a_reader_that_takes_nothing_is_cut(self):
        with wire.Server(PROGRAM, "--write-timeout", "200ms") as server:
            with server.connect(receive_buffer=4096) as c:
                self.assertEqual(c.get("/bytes/1").status, 200)  # so it is accepted by now
                fds = len(server.fds())
                c.send(get(f"/stream/{BIG}"))
                wire.wait_until(lambda: len(server.fds()) < fds, "the connection is closed")
            with server.connect() as other:
                self.assertEqual(other.get("/bytes/1").status, 200)


class Vanishing(unittest.TestCase):
    def test_clients_that_reset_at_any_point_leave_nothing_behind(self):
        with wire.Server(PROGRAM) as server:
            with server.connect() as c:
                self.assertEqual(c.get("/bytes/1").status, 200)
            at_rest = wire.wait_until(lambda: self.fds_settled(server), "the first is closed")
            requests = [get("/bytes/1")[:20], get("/sleep/30"), get("/compute/5"),
                        get("/stream/50000000"), get("/bytes/5000000"),
                        head(b"POST /read/10 HTTP/1.1", b"Content-Length: 10") + b"hello",
                        head(b"POST /read/10 HTTP/1.1", b"Transfer-Encoding: chunked") + b"5\r\nhe",
                        get("/bytes/1") * 50, get("/sleep/10") * 5]
            for round_ in range(10):
                for data in requests:
                    c = server.connect()
                    c.send(data)
                    if round_ % 3 == 1:
                        c.wait_read()
                    if round_ % 3 == 2:
                        c.close()
                    else:
                        c.reset()
            wire.wait_until(lambda: len(server.fds()) <= at_rest, "every connection is closed")
            with server.connect() as c:
                self.assertEqual(c.get("/bytes/1").status, 200)

    @staticmethod
    def fds_settled(server):
        links = server.fd_links()
        return len(links) if sum(link.startswith("socket:") for link in links) == 1 else None

    def test_a_vanished_client_does_not_disturb_the_others(self):
        with wire.Server(PROGRAM) as server:
            failures = []

            def work():
                try:
                    with server.connect() as c:
                        for i in range(200):
                            if c.get(f"/bytes/{i}").body != b"x" * i:
                                failures.append(i)
                except (AssertionError, OSError) as error:
                    failures.append(error)
            workers = [threading.Thread(target=work) for _ in range(4)]
            for worker in workers:
                worker.start()
            for i in range(200):
                c = server.connect()
                c.send(get("/stream/1000000") if i % 2 else get("/compute/3"))
                c.reset()
            for worker in workers:
                worker.join()
            self.assertEqual(failures, [])


class TooMany(unittest.TestCase):
    LIMIT = 64

    def test_out_of_descriptors_the_server_backs_off_serves_and_recovers(self):
        with wire.Server(PROGRAM, "--header-timeout", "1h", "--idle-timeout", "1h",
                         files=self.LIMIT) as server:
            served = []
            while len(server.fds()) < self.LIMIT:
                c = server.connect()
                served.append(c)
                self.assertEqual(c.get("/bytes/1").status, 200)
                self.assertLess(len(served), self.LIMIT)
            before = self.cost_of_serving(server, served)
            waiting = [server.connect() for _ in range(10)]  # in the backlog: no descriptor left
            for c in waiting:
                c.send(get("/bytes/2"))
            # It does not spin: serving costs about what it cost before they waited, though this takes
            # half a second of the server's own clock.
            self.assertLess(self.cost_of_serving(server, served), before + 0.3)
            for c in served[:20]:
                c.close()
            for c in waiting:
                self.assertEqual(c.read_response().body, b"xx")
            for c in served[20:] + waiting:
                c.close()

    def cost_of_serving(self, server, served):
        """In seconds of CPU time."""
        before = server.cpu_seconds()
        for _ in range(5):
            self.assertEqual(served[0].get("/sleep/100").body, b"slept")
            for c in served[1:]:
                self.assertEqual(c.get("/bytes/1").status, 200)
        return server.cpu_seconds() - before

    def test_above_the_limit_connections_wait_their_turn(self):
        with wire.Server(PROGRAM, "--connections-max", "2") as server:
            first, second, third = (server.connect() for _ in range(3))
            for c in (first, second):
                self.assertEqual(c.get("/bytes/1").status, 200)
            third.send(get("/bytes/3"))
            self.assertEqual(first.get("/bytes/1").status, 200)
            first.close()
            self.assertEqual(third.read_response().body, b"xxx")
            second.close()
            third.close()


class Stopping(unittest.TestCase):
    def test_a_stopping_server_finishes_what_runs(self):
        with wire.Server(PROGRAM) as server:
            with server.connect() as busy, server.connect() as idle:
                self.assertEqual(idle.get("/bytes/1").status, 200)
                busy.send(head(b"POST /read/10 HTTP/1.1", b"Content-Length: 10"), b"hello")
                busy.wait_read()
                server.terminate()
                self.assertTrue(idle.closed())  # so it is stopping
                busy.send(b"world")
                response = busy.read_response()
                self.assertEqual(response.body, b"10 bytes, sum %d" % sum(b"helloworld"))
                self.assertEqual(response.get("Connection"), "close")
                self.assertTrue(busy.closed())


if __name__ == "__main__":
    unittest.main()
