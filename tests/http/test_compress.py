"""Compressed responses over the wire: who gets them, and that they decode to what was sent."""
import gzip
import json
import unittest
import zlib

import wire
from wire import get, head

PROGRAM = "tests/http/http-content-server"
GZIP = b"Accept-Encoding: gzip"
ROW = b'{"id":12345,"name":"Ada","state":"open"},'


def filled(size):
    return (ROW * (size // len(ROW) + 1))[:size]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = wire.Server(PROGRAM)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.c = self.server.connect()
        self.addCleanup(self.c.close)

    def stats(self):
        return json.loads(self.c.get("/stats").body)


class Whole(Case):
    def test_bodies_of_every_size_decode_to_what_was_sent(self):
        """Up to 16 KB on the loop, above on a worker."""
        before = self.stats()["whole"]
        sizes = (1024, 5000, 16384, 16385, 100_000, 3_000_000)
        for size in sizes:
            packed = self.c.get(f"/z/json/{size}", GZIP)
            self.assertEqual((packed.get("Content-Encoding"), packed.get("Vary")), ("gzip", "Accept-Encoding"))
            self.assertEqual(gzip.decompress(packed.body), filled(size))
            self.assertLess(len(packed.body), size / 5)
        self.assertEqual(self.stats()["whole"] - before, len(sizes))

    def test_the_client_decides(self):
        for accepted, coded in ((None, False), (b"", False), (b"gzip", True), (b"br", False), (b"br, gzip", True),
                                (b"gzip;q=0", False), (b"*", True), (b"*;q=0", False), (b"identity;q=1, gzip;q=0.5", False),
                                (b"identity;q=0.5, gzip;q=0.7", True), (b"deflate, gzip;q=1.0, *;q=0.5", True),
                                (b"gzip;q=2", False), (b"x-gzip", True), (b"GZip", True)):
            fields = [] if accepted is None else [b"Accept-Encoding: " + accepted]
            for path, body in (("/z/json/2000", filled(2000)), ("/z/json/20000", filled(20000))):
                with self.subTest(accepted=accepted, path=path):
                    response = self.c.get(path, *fields)
                    self.assertEqual(response.get("Content-Encoding"), "gzip" if coded else None)
                    self.assertEqual(response.get("Vary"), "Accept-Encoding")
                    self.assertEqual(gzip.decompress(response.body) if coded else response.body, body)

    def test_what_would_not_gain_is_sent_as_it_is(self):
        for path, vary in (("/z/json/1023", None), ("/z/png/50000", None), ("/z/fixed", None), ("/z/json/0", None),
                           ("/z/noise/5000", "Accept-Encoding"), ("/z/noise/50000", "Accept-Encoding")):
            with self.subTest(path=path):
                packed, plain = self.c.get(path, GZIP), self.c.get(path)
                self.assertIsNone(packed.get("Content-Encoding"))
                self.assertEqual((packed.body, packed.get("ETag")), (plain.body, plain.get("ETag")))
                self.assertEqual(packed.get("Vary"), vary)
        self.assertEqual(self.c.get("/z/coded", GZIP).get("Content-Encoding"), "zstd")

    def test_vary_is_added_to_what_is_there(self):
        for fields in ([], [GZIP]):
            self.assertEqual(self.c.get("/z/vary", *fields).all("Vary"), ["Origin", "Accept-Encoding"])

    def test_the_tag_becomes_weak_and_still_matches(self):
        plain, packed = self.c.get("/z/json/30000"), self.c.get("/z/json/30000", GZIP)
        self.assertEqual(packed.get("ETag"), "W/" + plain.get("ETag"))
        before = self.stats()["whole"]
        for tag in (plain.get("ETag"), packed.get("ETag")):
            for fields, expected in (([], plain), ([GZIP], packed)):
                response = self.c.get("/z/json/30000", b"If-None-Match: " + tag.encode(), *fields)
                self.assertEqual((response.status, response.body), (304, b""))
                self.assertEqual((response.get("ETag"), response.get("Vary")),
                                 (expected.get("ETag"), "Accept-Encoding"))
                self.assertIsNone(response.get("Content-Encoding"))
        self.assertEqual(self.stats()["whole"], before)  # no work for what is not sent

    def test_head_has_the_fields_and_does_no_work(self):
        before = self.stats()["whole"]
        response = self.c.request(head(b"HEAD /z/json/30000 HTTP/1.1", GZIP), head=True)
        self.assertEqual((response.status, response.get("Content-Encoding"), response.get("Content-Length")),
                         (200, "gzip", None))
        self.assertEqual(self.stats()["whole"], before)  # and the connection goes on
        packed = self.c.get("/z/json/30000", GZIP)
        self.assertEqual((response.get("ETag"), response.get("Vary")), (packed.get("ETag"), packed.get("Vary")))

    def test_pipelined_responses_stay_in_order(self):
        sizes = [100_000, 2000, 50_000, 10, 300_000, 5000]
        self.c.send(b"".join(get(f"/z/json/{size}", GZIP) for size in sizes))
        for size in sizes:
            body = self.c.read_response().body
            self.assertEqual(gzip.decompress(body) if size >= 1024 else body, filled(size))

    def test_clients_that_leave_harm_nobody(self):
        with wire.Server(PROGRAM) as server:  # of its own: it may still pack for them when this ends
            for _ in range(30):
                with server.connect() as c:
                    c.send(get("/z/json/3000000", GZIP))
                    c.reset()
            with server.connect() as c:
                self.assertEqual(gzip.decompress(c.get("/z/json/50000", GZIP).body), filled(50000))


class Streams(Case):
    def test_each_piece_can_be_decoded_when_it_comes(self):
        self.c.send(get("/z/stream/3?pause=yes", GZIP))
        decoder, text = zlib.decompressobj(31), b""
        self.c.got.clear()
        while b"\r\n\r\n" not in self.c.got:
            self.c._more()
        fields, _, rest = bytes(self.c.got).partition(b"\r\n\r\n")
        self.assertIn(b"\r\nContent-Encoding: gzip", fields)
        while text != b"line 0\n":
            while b"\r\n" not in rest:
                rest += self.c.socket.recv(1000)
            size, _, rest = rest.partition(b"\r\n")
            while len(rest) < int(size, 16) + 2:
                rest += self.c.socket.recv(1000)
            text += decoder.decompress(rest[:int(size, 16)])
            rest = rest[int(size, 16) + 2:]
        self.c.close()  # the handler sleeps; the server's stop wakes it

    def test_streams_decode_to_what_was_written(self):
        lines = b"".join(b"line %d\n" % i for i in range(2000))
        for path, body in (("/z/stream/2000", lines), ("/z/stream/0", b""), ("/z/big/1000000", None)):
            packed = self.c.get(path, GZIP)
            self.assertEqual((packed.get("Content-Encoding"), packed.get("Vary"), packed.get("Transfer-Encoding")),
                             ("gzip", "Accept-Encoding", "chunked"))
            plain = self.c.get(path)
            self.assertIsNone(plain.get("Content-Encoding"))
            self.assertEqual(gzip.decompress(packed.body), plain.body)
            if body is not None:
                self.assertEqual(plain.body, body)

    def test_a_stream_to_http_1_0_ends_with_the_connection(self):
        reply = self.server.exchange(b"GET /z/stream/50 HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n")
        fields, _, body = reply.partition(b"\r\n\r\n")
        self.assertIn(b"Content-Encoding: gzip", fields)
        self.assertEqual(gzip.decompress(body), b"".join(b"line %d\n" % i for i in range(50)))

    def test_events_and_heads_are_not_compressed(self):
        self.assertEqual(self.c.get("/z/events", GZIP).body, b"data: 1\n\n")
        headed = self.c.request(head(b"HEAD /z/stream/5 HTTP/1.1", GZIP), head=True)
        self.assertEqual(headed.get("Content-Encoding"), "gzip")
        self.assertEqual(self.c.get("/z/stream/1").body, b"line 0\n")

    def test_the_tag_of_a_stream_becomes_weak(self):
        packed = self.c.get("/z/tagstream", GZIP)
        self.assertEqual((packed.get("ETag"), gzip.decompress(packed.body)), ('W/"streamed"', b"a piece of it\n" * 10))
        self.assertEqual(self.c.get("/z/tagstream", GZIP, b'If-None-Match: W/"streamed"').status, 304)
        self.assertEqual(self.c.get("/z/tagstream", GZIP, b'If-Match: "other"').status, 412)

    def test_clients_that_leave_end_their_stream(self):
        for _ in range(20):
            with self.server.connect(receive_buffer=4096) as c:
                c.send(get("/z/big/50000000", GZIP))
                c.socket.recv(100)
                c.reset()
        self.assertEqual(self.c.get("/z/stream/1").body, b"line 0\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
