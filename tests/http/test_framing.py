"""Where a request begins and ends, cut anywhere: cases in which servers saw another request."""
import unittest

import wire
from wire import HOST, chunked, get, head, post

ECHO = None


def setUpModule():
    global ECHO
    ECHO = wire.Server("examples/echo")
    unittest.addModuleCleanup(ECHO.stop)


def one_byte_at_a_time(data):
    return [data[i:i + 1] for i in range(len(data))]


class Refused(unittest.TestCase):
    """Every one of these is answered 4xx or 5xx once, and the connection closes."""

    def refused(self, data, status, cuts=()):
        for pieces in [(data,), *cuts]:
            with self.subTest(data=data[:200], pieces=len(pieces)), ECHO.connect() as c:
                try:
                    c.send(*pieces)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # refused before its last byte
                response = c.read_response()
                self.assertEqual(response.status, status)
                self.assertEqual(response.get("Connection"), "close")
                self.assertIsNotNone(response.get("Date"))
                self.assertTrue(c.closed())

    def test_a_bare_cr_in_a_header_is_refused_at_every_split_point(self):
        data = b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"
        self.refused(data, 400, wire.split_everywhere(data))

    def test_other_line_ends_and_bytes_are_refused(self):
        for data in [b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n",
                     b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"GET /\\ HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 32]:
            self.refused(data, 400)

    def test_lengths_that_can_be_read_two_ways_are_refused(self):
        for value in [b"18446744073709551615", b"9223372036854775808", b"+5", b"-5", b"5,6",
                      b"5, 5", b"0x5", b"5 5", b"", b"1e3"]:
            self.refused(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + value +
                         b"\r\n\r\nhello", 400)
        for fields in [b"Content-Length: 5\r\nContent-Length: 6\r\n",
                       b"Content-Length: 5\r\nContent-Length: 5\r\n",
                       b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                       b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                       b"Transfer-Encoding: chunked, gzip\r\n",
                       b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                       b"Transfer-Encoding: \"chunked\"\r\n"]:
            self.refused(b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n0\r\n\r\n", 400)
        self.refused(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)

    def test_no_handler_runs_for_what_is_refused(self):
        fields = [b"Content-Length: 18446744073709551615", b"Content-Length: +5",
                  b"Content-Length: 5,6", b"Content-Length: 5\r\nContent-Length: 6",
                  b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"X: a\rY: b", b"X : y"]
        with wire.Server("tests/http/http-test-server") as server:
            for field in fields:
                data = head(b"POST /read/10 HTTP/1.1", field) + b"hello"
                for pieces in [(data,), *wire.split_everywhere(data)]:
                    with self.subTest(field=field), server.connect() as c:
                        try:
                            c.send(*pieces)
                        except (BrokenPipeError, ConnectionResetError):
                            pass  # refused before its last byte
                        self.assertEqual(c.read_response().status, 400)
            with server.connect() as c:
                self.assertEqual(c.get("/requests").body, b"0")
                self.assertEqual(c.request(post("/read/10", b"hello")).status, 200)
                self.assertEqual(c.get("/requests").body, b"1")

    def test_what_is_not_implemented_is_501_or_505(self):
        self.refused(head(b"POST / HTTP/1.1", b"Transfer-Encoding: gzip, chunked"), 501)
        self.refused(head(b"GET / HTTP/2.0"), 505)
        self.refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505)

    def test_hosts(self):
        self.refused(b"GET / HTTP/1.1\r\n\r\n", 400)
        self.refused(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400)
        self.refused(b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400)

    def test_bad_chunks_are_refused_by_whoever_reads_the_body(self):
        for body in [b"5\nhello\r\n0\r\n\r\n", b"x\r\n", b"5\r\nhelloX\r\n0\r\n\r\n",
                     b"FFFFFFFFFFFFFFFF\r\n", b"10000000000000005\r\nhello\r\n0\r\n\r\n",
                     b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"0\r\nX : y\r\n\r\n", b"-1\r\n\r\n"]:
            self.refused(head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + body, 400)

    def test_a_tiny_body_with_a_huge_extension_is_refused_after_a_small_cap(self):
        with ECHO.connect() as c:
            c.send(head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + b"2;")
            sent = 0
            try:
                while sent < 32 << 20:
                    c.socket.sendall(b"x" * 65536)
                    sent += 65536
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertEqual(c.read_response().status // 100, 4)

    def test_trailers_without_end_are_refused(self):
        data = head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + b"0\r\n" + b"X: y\r\n" * 2000
        with ECHO.connect() as c:
            c.send(data)
            self.assertEqual(c.read_response().status // 100, 4)


class Accepted(unittest.TestCase):
    def test_a_chunked_body_is_the_same_byte_by_byte_and_at_every_split_point(self):
        data = head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + \
            b"5\r\nhello\r\n00007;name=\"v;\"\r\n, world\r\n0\r\nX-Sum: 1\r\n\r\n"
        with ECHO.connect() as c:
            for pieces in [(data,), one_byte_at_a_time(data), *wire.split_everywhere(data)]:
                c.send(*pieces)
                response = c.read_response()
                self.assertEqual((response.status, response.body), (200, b"hello, world"))

    def test_a_body_of_known_length_is_the_same_at_every_split_point(self):
        data = post("/", b"hello, world")
        with ECHO.connect() as c:
            for pieces in [one_byte_at_a_time(data), *wire.split_everywhere(data)]:
                c.send(*pieces)
                self.assertEqual(c.read_response().body, b"hello, world")

    def test_as_many_replies_as_requests_at_every_split_point(self):
        """The second request holds a request-like line inside a header."""
        first = get("/one")
        second = get("/echo", b"X-A: GET /phantom HTTP/1.1", b"X-B: y")
        third = post("/three", b"GET /phantom HTTP/1.1\r\n\r\n")
        data = first + second + third
        for pieces in [(data,), one_byte_at_a_time(data), *wire.split_everywhere(data)]:
            with ECHO.connect() as c:
                c.send(*pieces)
                c.half_close()
                self.assertEqual(c.read_response().body, b"OK")
                self.assertIn(b"X-A: GET /phantom HTTP/1.1\n", c.read_response().body)
                self.assertEqual(c.read_response().body, b"GET /phantom HTTP/1.1\r\n\r\n")
                self.assertTrue(c.closed())

    def test_bytes_after_a_body_are_the_next_request(self):
        data = post("/", b"abc") + head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + \
            chunked(b"x" * 300, b"y") + get("/")
        with ECHO.connect() as c:
            c.send(data)
            self.assertEqual([c.read_response().body for _ in range(3)],
                             [b"abc", b"x" * 300 + b"y", b"OK"])

    def test_large_bodies_arrive_whole(self):
        body = bytes(range(256)) * 4000
        with wire.Server("examples/echo", "--body-max", "2M") as echo, echo.connect() as c:
            self.assertEqual(c.request(post("/", body)).body, body)
            pieces = [body[i:i + 30000] for i in range(0, len(body), 30000)]
            data = head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + chunked(*pieces)
            self.assertEqual(c.request(data).body, body)

    def test_a_few_empty_lines_between_requests_are_passed_over(self):
        with ECHO.connect() as c:
            c.send(b"\r\n\r\n" + get("/") + b"\r\n" + get("/"))
            self.assertEqual([c.read_response().status for _ in range(2)], [200, 200])

    def test_an_empty_chunked_body_is_none(self):
        with ECHO.connect() as c:
            data = head(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked") + b"0\r\n\r\n"
            self.assertEqual(c.request(data).body, b"OK")
            self.assertEqual(c.request(post("/", b"")).body, b"OK")

    def test_fields_and_cookies_are_as_sent(self):
        with ECHO.connect() as c:
            response = c.get("/echo", b"x-Case: \t a b \t", b"X-Empty:")
            self.assertEqual(response.body, b"Host: test\nx-Case: a b\nX-Empty: \n")
            response = c.get("/cookie", b"Cookie: a=1; bad; b=\"two\"", b"Cookie: c=3")
            self.assertEqual(response.body, b"a=1\nb=two\nc=3\n")


if __name__ == "__main__":
    unittest.main()
