"""Limits of size and time, and that the client gets to read the refusal."""
import contextlib
import time
import unittest

import wire
from wire import chunked, get, head, post

PROGRAM = "tests/http/http-test-server"


class Sizes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = wire.Server(PROGRAM, "--body-max", "100k")
        cls.addClassCleanup(cls.server.stop)

    def refused(self, data, status):
        with self.server.connect() as c:
            c.send(data)
            response = c.read_response()
            self.assertEqual((response.status, response.get("Connection")), (status, "close"))
            self.assertTrue(c.closed())

    def test_a_long_target_is_414(self):
        self.refused(get("/" + "a" * 20000), 414)
        self.refused(b"GET /" + b"a" * 20000, 414)  # no end in sight

    def test_too_many_or_too_large_headers_are_431(self):
        self.refused(get("/", *[b"X: y"] * 200), 431)
        self.refused(get("/", b"X: " + b"y" * 20000), 431)
        self.refused(get("/")[:-2] + b"X: " + b"y" * 20000, 431)

    def test_a_head_just_below_the_limit_is_served(self):
        with self.server.connect() as c:
            self.assertEqual(c.get("/bytes/1", b"X: " + b"y" * 16000).status, 200)
            self.assertEqual(c.get("/bytes/1?" + "q" * 8000).status, 200)
            self.assertEqual(c.get("/bytes/1", *[b"X: y"] * 98).status, 200)

    def test_a_body_above_the_limit_is_413(self):
        with self.server.connect() as c:
            self.assertEqual(c.request(post("/read/1000", b"x" * 100 * 1024)).status, 200)
            self.assertEqual(c.request(post("/read/1000", b"x" * (100 * 1024 + 1))).status, 413)
        with self.server.connect() as c:
            c.send(head(b"POST /read/1000 HTTP/1.1", b"Transfer-Encoding: chunked") +
                   chunked(*[b"x" * 1024] * 101))
            self.assertEqual(c.read_response().status, 413)

    def test_a_client_that_uploads_on_still_reads_the_413(self):
        """The reply must not be lost to a reset caused by closing with unread input."""
        for _ in range(20):
            self.upload_on()

    @wire.again_on_a_busy_machine  # the server reads on for some seconds only
    def upload_on(self):
        with self.server.connect() as c:
            c.send(head(b"POST /read/1000 HTTP/1.1", b"Content-Length: 8000000"))
            for _ in range(122):
                c.socket.sendall(b"x" * 65536)
            response = c.read_response()
            self.assertEqual((response.status, response.get("Connection")), (413, "close"))

    def test_an_upload_without_end_after_a_413_is_cut(self):
        with self.server.connect() as c:
            c.send(head(b"POST /read/1000 HTTP/1.1", b"Content-Length: 900000000000"))
            sent = 0
            with self.assertRaises((BrokenPipeError, ConnectionResetError)):
                while sent < 4 << 30:
                    c.socket.sendall(b"x" * (1 << 20))
                    sent += 1 << 20
            self.assertLess(sent, 256 << 20)


class Times(unittest.TestCase):
    """Short limits, and only lower bounds asserted. Where a limit may pass before the client has said
    what it is to say, it is tried again."""

    @wire.again_on_a_busy_machine
    def test_half_a_head_is_408_at_the_limit_though_bytes_dribble(self):
        with wire.Server(PROGRAM, "--header-timeout", "1s") as server:
            begin = time.monotonic()  # the limit runs from the connection's start
            with server.connect() as c:
                c.send(b"GET / HTTP/1.1\r\n")
                response, _ = self.dribble(c)
                self.assertGreaterEqual(time.monotonic() - begin, 1)
                self.assertEqual((response.status, response.get("Connection")), (408, "close"))
                self.assertTrue(c.closed())

    @wire.again_on_a_busy_machine
    def test_each_request_has_a_header_timer_of_its_own(self):
        """Ten requests whose heads together take longer than the limit, each less."""
        with wire.Server(PROGRAM, "--header-timeout", "3s", "--idle-timeout", "1h") as server, \
                server.connect() as c:
            begin = time.monotonic()
            while time.monotonic() - begin < 4:
                c.send(b"GET /bytes/1 HTTP/1.1\r\n", b"Host: a\r\n\r\n")
                self.assertEqual(c.read_response().status, 200)
            c.send(b"GET /bytes/1 HTTP/1.1\r\n")  # and this one is cut
            self.assertEqual(c.read_response().status, 408)

    @wire.again_on_a_busy_machine
    def test_a_slow_request_after_others_is_cut_too(self):
        with wire.Server(PROGRAM, "--header-timeout", "1s", "--idle-timeout", "1h") as server, \
                server.connect() as c:
            self.assertEqual(c.get("/bytes/1").status, 200)
            c.send(b"GET / HT")
            self.assertEqual(c.read_response().status, 408)
            self.assertTrue(c.closed())

    def test_the_idle_timer_runs_between_requests_only(self):
        with wire.Server(PROGRAM, "--idle-timeout", "400ms") as server, server.connect() as c:
            begin = time.monotonic()
            self.assertEqual(c.get("/sleep/900").body, b"slept")
            self.assertTrue(c.closed())  # without a 408: nothing was asked
            self.assertGreaterEqual(time.monotonic() - begin, 0.9 + 0.4)

    def test_a_connection_that_sends_nothing_is_closed(self):
        with wire.Server(PROGRAM, "--header-timeout", "200ms") as server, server.connect() as c:
            self.assertTrue(c.closed())

    def test_a_body_that_stalls_is_408(self):
        with wire.Server(PROGRAM, "--body-timeout", "200ms") as server:
            for start in (head(b"POST /read/10 HTTP/1.1", b"Content-Length: 10") + b"hello",
                          head(b"POST /read/10 HTTP/1.1", b"Transfer-Encoding: chunked") +
                          b"a\r\nhello"):
                with server.connect() as c:
                    response = c.request(start)
                    self.assertEqual((response.status, response.get("Connection")),
                                     (408, "close"))

    def dribble(self, c):
        """Sends a byte each 20 ms until there is an answer; returns it and the bytes sent."""
        c.socket.settimeout(0.02)
        begin, sent = time.monotonic(), 0
        while not c.got:
            try:
                more = c.socket.recv(4096)
                self.assertTrue(more, "closed without an answer")
                c.got += more
            except TimeoutError:
                with contextlib.suppress(OSError):  # what it has answered is read all the same
                    c.socket.sendall(b"x")
                sent += 1
            self.assertLess(time.monotonic() - begin, wire.DEADLINE)
        c.socket.settimeout(wire.DEADLINE)
        return c.read_response(), sent

    def test_bytes_of_an_extension_do_not_feed_the_body_timer(self):
        with wire.Server(PROGRAM, "--body-timeout", "300ms") as server, server.connect() as c:
            c.send(head(b"POST /read/10 HTTP/1.1", b"Transfer-Encoding: chunked") + b"5;")
            response, sent = self.dribble(c)
            self.assertEqual(response.status, 408)
            self.assertLess(sent, 4000)  # not the cap on extensions

    def test_a_body_that_dribbles_is_408(self):
        with wire.Server(PROGRAM, "--body-timeout", "300ms") as server, server.connect() as c:
            c.send(head(b"POST /read/100000 HTTP/1.1", b"Content-Length: 100000"))
            response, sent = self.dribble(c)
            self.assertEqual(response.status, 408)
            self.assertLess(sent, 100000)


class LargeHeads(unittest.TestCase):
    def test_a_part_of_a_large_head_can_be_the_body(self):
        """The next request takes its buffer over while the reply may still be waiting."""
        with wire.Server(PROGRAM, "--head-max", "128k") as server, server.connect() as c:
            c.send(b"".join(get("/borrow", b"X-Large: " + letter * 40000) for letter in (b"a", b"b")))
            for letter in (b"a", b"b"):
                self.assertEqual(c.read_response().body, letter * 40000)


if __name__ == "__main__":
    unittest.main()
