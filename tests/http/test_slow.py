"""Clients that are slow on purpose: a byte now and then, at each place where a server waits. Each is
cut at its limit, by a timer that later bytes do not feed; others are served meanwhile."""
import socket
import time
import unittest

import wire
from wire import get, head

PROGRAM = "tests/http/http-test-server"
CHUNKED = head(b"POST /read/10 HTTP/1.1", b"Transfer-Encoding: chunked")

# What is sent at once, then over and over.
PLACES = {
    "request line": (b"GET /", b"x"),
    "a header's name": (b"GET / HTTP/1.1\r\nHost: a\r\nX", b"x"),
    "a header's value": (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"x"),
    "header lines": (b"GET / HTTP/1.1\r\nHost: a\r\n", b"A: b\r\n"),
    "empty lines before the request": (b"\r\n", b""),
    "a body of known length": (head(b"POST /read/10 HTTP/1.1", b"Content-Length: 100000"), b"x"),
    "chunks of a byte": (CHUNKED, b"1\r\nx\r\n"),
    "a chunk's data": (CHUNKED + b"fff\r\n", b"x"),
    "a chunk's size": (CHUNKED, b"0"),
    "a chunk's extension": (CHUNKED + b"5;", b"x"),
    "a trailer's value": (CHUNKED + b"0\r\nX: ", b"x"),
    "trailer lines": (CHUNKED + b"0\r\n", b"A: b\r\n"),
    "the end of the last chunk": (CHUNKED + b"0\r\n", b""),
}


class SlowSenders(unittest.TestCase):
    def test_each_place_has_a_limit_that_later_bytes_do_not_extend(self):
        with wire.Server(PROGRAM, "--header-timeout", "1s", "--body-timeout", "1s",
                         "--idle-timeout", "1h") as server:
            clients, served = {}, 0
            for place, (start, again) in PLACES.items():
                c = socket.create_connection(("127.0.0.1", server.port))
                c.sendall(start)
                c.setblocking(False)
                clients[place] = (c, again, [])
            end = time.monotonic() + wire.DEADLINE
            while clients and time.monotonic() < end:
                time.sleep(0.05)
                for place, (c, again, got) in list(clients.items()):
                    self.step(c, again, got)
                    if got and got[-1] is None:
                        self.assertRegex(b"".join(got[:-1]), rb"\AHTTP/1.1 (400|408|413|431) .*",
                                         place)
                        c.close()
                        del clients[place]
                if self.is_served(server):
                    served += 1
            self.assertGreater(served, 0)
            self.assertEqual(list(clients), [], "not cut")

    def is_served(self, server):
        """Whether another client is; one that a busy machine holds for a second is cut, too."""
        with server.connect() as other:
            status = other.get("/bytes/1").status
            self.assertIn(status, (200, 408))
            return status == 200

    @staticmethod
    def step(c, again, got):
        """Sends once more; adds what came to `got`, and None at the end."""
        try:
            c.send(again)
        except OSError:
            pass  # the end is seen by receiving
        try:
            more = c.recv(4096)
            got.append(more or None)
        except BlockingIOError:
            pass
        except ConnectionResetError:
            got.append(None)


class SlowReaders(unittest.TestCase):
    def test_one_that_takes_a_byte_now_and_then_is_cut(self):
        for path in ("/stream/50000000", "/bytes/50000000"):
            with wire.Server(PROGRAM, "--write-timeout", "500ms") as server:
                with server.connect(receive_buffer=4096) as c:
                    self.assertEqual(c.get("/bytes/1").status, 200)
                    with_it = len(server.fds())
                    c.send(get(path))
                    c.socket.settimeout(0.01)
                    wire.wait_until(lambda: self.took_a_byte(c) and len(server.fds()) < with_it,
                                    "the connection is closed")
                with server.connect() as other:
                    self.assertEqual(other.get("/bytes/1").status, 200)

    @staticmethod
    def took_a_byte(c):
        try:
            c.socket.recv(1)
        except OSError:
            pass
        return True


if __name__ == "__main__":
    unittest.main()
