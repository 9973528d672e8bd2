"""Connections that carry many requests: order, persistence, pipelining."""
import unittest

import wire
from wire import get, head, post

SERVER = ECHO = None
PROGRAM = "tests/http/http-test-server"


def setUpModule():
    global SERVER, ECHO
    SERVER, ECHO = wire.Server(PROGRAM), wire.Server("examples/echo")
    unittest.addModuleCleanup(SERVER.stop)
    unittest.addModuleCleanup(ECHO.stop)


class Order(unittest.TestCase):
    def in_order(self, server, slow, slow_body):
        with server.connect() as c:
            c.send(get(slow) + get("/bytes/1") + get(slow) + get("/bytes/2"))
            bodies = [c.read_response().body for _ in range(4)]
            self.assertEqual(bodies, [slow_body, b"x", slow_body, b"xx"])
            self.assertEqual(c.get("/bytes/3").body, b"xxx")

    def test_a_parked_handler_is_not_overtaken(self):
        self.in_order(SERVER, "/sleep/50", b"slept")

    def test_a_computing_handler_is_not_overtaken(self):
        """Rescued the first times, then learned and run on a worker: in order all the same."""
        for _ in range(6):
            self.in_order(SERVER, "/compute/40", b"computed")

    def test_a_handler_that_waits_for_a_pools_task_is_not_overtaken(self):
        self.in_order(SERVER, "/task/50", b"tasked")
        with SERVER.connect() as c:  # as the case has it
            c.send(get("/task/200") + get("/bytes/4"))
            self.assertEqual([c.read_response().body for _ in range(2)], [b"tasked", b"xxxx"])

    def test_without_rescue_too(self):
        with wire.Server(PROGRAM, "--rescue-after", "0") as server:
            self.in_order(server, "/compute/40", b"computed")

    def test_others_are_served_meanwhile(self):
        with SERVER.connect() as slow, SERVER.connect() as other:
            slow.send(get("/sleep/2000"))
            slow.wait_read()
            self.assertEqual(other.get("/bytes/1").body, b"x")
            slow.reset()


def socket_memory():
    """Bytes that the kernel keeps at most between two programs that do not read."""
    most = 0
    for name in ("tcp_rmem", "tcp_wmem"):
        with open(f"/proc/sys/net/ipv4/{name}", encoding="ascii") as file:
            most += int(file.read().split()[2])
    return most


class Pipelining(unittest.TestCase):
    def test_a_thousand_pipelined_requests_get_a_thousand_replies_in_order(self):
        data = b"".join(post(f"/{i}", b"%d" % i) for i in range(1000))
        with ECHO.connect() as c:
            c.send(data)
            self.assertEqual([int(c.read_response().body) for _ in range(1000)],
                             list(range(1000)))

    def test_replies_without_end_do_not_pile_up_for_a_client_that_only_sends(self):
        with SERVER.connect(receive_buffer=4096) as c:
            before = SERVER.rss_kb()
            data = get("/bytes/20000")
            c.send(data * 5)
            c.socket.settimeout(1)  # then the server takes no more: if it is only slow, nothing is shown
            piece, sent = data * 2000, 0
            most = 4 * socket_memory()
            try:
                while sent < most:
                    sent += c.socket.send(piece)
            except TimeoutError:
                pass
            self.assertLess(sent, most)  # the server stopped reading
            if wire.MEMORY_IS_EXACT:
                self.assertLess(SERVER.rss_kb() - before, 16 * 1024)
            c.socket.settimeout(wire.DEADLINE)
            for _ in range(5):
                self.assertEqual(len(c.read_response().body), 20000)
            c.reset()


class Persistence(unittest.TestCase):
    def test_close_is_honoured_and_said(self):
        with ECHO.connect() as c:
            response = c.get("/", b"Connection: close")
            self.assertEqual(response.get("Connection"), "close")
            self.assertTrue(c.closed())

    def test_nothing_is_answered_after_a_close(self):
        with ECHO.connect() as c:
            c.send(get("/", b"Connection: close") + get("/"))
            self.assertEqual(c.read_response().status, 200)
            self.assertTrue(c.closed())

    def test_http_1_0_closes_unless_asked_to_go_on(self):
        with ECHO.connect() as c:
            response = c.request(b"GET / HTTP/1.0\r\n\r\n")
            self.assertEqual((response.status, response.body), (200, b"OK"))
            self.assertTrue(c.closed())
        with ECHO.connect() as c:
            for _ in range(3):
                response = c.request(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                self.assertEqual(response.body, b"OK")
                self.assertEqual(response.get("Connection"), "keep-alive")

    def test_http_1_0_gets_streams_without_chunks(self):
        with SERVER.connect() as c:
            response = c.request(b"GET /stream/50000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            self.assertIsNone(response.get("Transfer-Encoding"))
            self.assertEqual(len(response.body), 50000)

    def test_streams_go_out_in_chunks_and_the_connection_goes_on(self):
        with SERVER.connect() as c:
            for size in (0, 1, 16384, 1000000):
                response = c.get(f"/stream/{size}")
                self.assertEqual(response.get("Transfer-Encoding"), "chunked")
                self.assertEqual(response.body, b"x" * size)

    def test_an_unread_body_does_not_become_the_next_request(self):
        with SERVER.connect() as c:
            c.send(post("/unread", get("/status/500")) + get("/bytes/1"))
            self.assertEqual(c.read_response().body, b"unread")
            self.assertEqual(c.read_response().body, b"x")

    def test_an_unread_chunked_body_ends_the_connection_or_is_skipped(self):
        with SERVER.connect() as c:
            c.send(head(b"POST /unread HTTP/1.1", b"Transfer-Encoding: chunked") +
                   wire.chunked(get("/status/500")) + get("/bytes/1"))
            response = c.read_response()
            self.assertEqual(response.body, b"unread")
            if response.get("Connection") == "close":
                self.assertTrue(c.closed())
            else:
                self.assertEqual(c.read_response().body, b"x")


class Bodies(unittest.TestCase):
    def test_bodies_are_read_in_pieces(self):
        body = bytes(i % 251 for i in range(100000))
        want = f"{len(body)} bytes, sum {sum(body)}".encode()
        with SERVER.connect() as c:
            for size in (1, 1000, 4096):
                self.assertEqual(c.request(post(f"/read/{size}", body)).body, want)
                pieces = [body[i:i + 777] for i in range(0, len(body), 777)]
                self.assertEqual(c.request(head(f"POST /read/{size} HTTP/1.1".encode(),
                                                b"Transfer-Encoding: chunked") +
                                           wire.chunked(*pieces)).body, want)


class Expect(unittest.TestCase):
    def test_continue_is_sent_before_a_body_that_is_wanted(self):
        with ECHO.connect() as c:
            response = c.request(head(b"POST / HTTP/1.1", b"Content-Length: 5",
                                      b"Expect: 100-continue"))
            self.assertEqual(response.status, 100)
            c.send(b"hello")
            self.assertEqual(c.read_response().body, b"hello")
            self.assertEqual(c.get("/").body, b"OK")

    def test_a_body_that_came_along_needs_no_continue(self):
        with ECHO.connect() as c:
            c.send(post("/", b"hello", b"Expect: 100-continue"))
            self.assertEqual(c.read_response().body, b"hello")

    def test_a_body_that_is_too_large_is_refused_instead(self):
        with ECHO.connect() as c:
            response = c.request(head(b"POST / HTTP/1.1", b"Content-Length: 99999999",
                                      b"Expect: 100-continue"))
            self.assertEqual(response.status, 413)
            self.assertEqual(response.get("Connection"), "close")
            c.half_close()
            self.assertTrue(c.closed())

    def test_a_body_that_nobody_reads_is_not_asked_for(self):
        with SERVER.connect() as c:
            response = c.request(head(b"POST /unread HTTP/1.1", b"Content-Length: 5",
                                      b"Expect: 100-continue"))
            self.assertEqual((response.status, response.body), (200, b"unread"))
            self.assertEqual(response.get("Connection"), "close")

    def test_other_expectations_are_417(self):
        with ECHO.connect() as c:
            self.assertEqual(c.get("/", b"Expect: tea").status, 417)


if __name__ == "__main__":
    unittest.main()
