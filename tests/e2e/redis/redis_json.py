"""examples/redis-json with its embedded server."""
import json
import os
import re
import sys
import unittest
import urllib.request

import common
import wire

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import prometheus  # noqa: E402
from processes import alive, children  # noqa: E402


@unittest.skipUnless(common.HAVE_REDIS, "redis-server is not installed")
class RedisJson(unittest.TestCase):
    def test_serves_the_document(self):
        for options in ((), ("--redis-cache", "1000000"), ("--no-share",)):
            with self.subTest(options=options), wire.Server("examples/redis-json", *options) as server, \
                    server.connect() as c:
                for _ in range(3):
                    answer = c.get("/data")
                    self.assertEqual(answer.status, 200)
                    self.assertEqual(answer.get("Content-Type"), "application/json")
                    self.assertEqual(len(answer.body), 102400)
                    json.loads(answer.body)
                answer = c.request(wire.head(b"HEAD /data HTTP/1.1"), head=True)
                self.assertEqual((answer.status, answer.get("Content-Length")), (200, "102400"))

    def said_port(self, server, pattern):
        return int(wire.wait_until(lambda: re.search(pattern, server.output()), pattern)[1])

    def hashes(self, server):
        """How many values were hashed so far."""
        port = self.said_port(server, r"metrics on http://[^\"]*:(\d+)/metrics")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=wire.DEADLINE) as answer:
            family = prometheus.parse(answer.read())["donmaz_redis_hashes_total"]
        return sum(family.samples.values())

    def test_etag(self):
        for cache in ((), ("--redis-cache", "1000000"), ("--redis-cache", "0")):
            with self.subTest(cache=cache), \
                    wire.Server("examples/redis-json", "--etag", "--cache-control", "max-age=5",
                                "--admin", "0", *cache) as server:
                server.port = self.said_port(server, r"listening on http://[^\"]*:(\d+)\"")
                with server.connect() as c:
                    self.check_etag(server, c, cached=cache[1:] != ("0",))

    def check_etag(self, server, c, cached):
        first = c.get("/data")
        tag = first.get("ETag")
        self.assertRegex(tag, r'^"[0-9a-f]{16}"$')
        self.assertEqual(first.get("Cache-Control"), "max-age=5")

        def is_kept():
            before = self.hashes(server)
            c.get("/data")
            return self.hashes(server) == before

        if cached:
            wire.wait_until(is_kept, "the document is in the cache")
        before = self.hashes(server)
        conditions = ((tag, 304), (f'"other", {tag}', 304), ("*", 304), (f"W/{tag}", 304),
                      ('"other"', 200), (tag[:-2] + '"', 200))
        for theirs, status in conditions:
            answer = c.get("/data", f"If-None-Match: {theirs}".encode())
            self.assertEqual(answer.status, status, theirs)
            self.assertEqual(answer.get("ETag"), tag)
            self.assertEqual(answer.get("Cache-Control"), "max-age=5")
            self.assertEqual(answer.body == b"", status == 304)
        # One version of the document is hashed once; without a cache each reply of Redis is.
        self.assertEqual(self.hashes(server) - before, 0 if cached else len(conditions))

    def test_leaves_nothing_behind(self):
        with wire.Server("examples/redis-json") as server:
            keeper, = children(server.pid)
            redis, = children(keeper)
        for pid in (keeper, redis):
            self.assertFalse(alive(pid))

    def test_leaves_nothing_behind_when_killed(self):
        server = wire.Server("examples/redis-json")
        keeper, = children(server.pid)
        redis, = children(keeper)
        with open(f"/proc/{redis}/cmdline", "rb") as file:
            path = next(word for word in file.read().split(b"\0") if b"unixsocket:" in word or b"/sock" in word)
        folder = os.readlink(f"/proc/{redis}/cwd")
        self.assertTrue(path)
        server.process.kill()
        server.process.wait()
        server.log.close()
        wire.wait_until(lambda: not alive(keeper) and not os.path.exists(folder),
                        "keeper, server and folder are gone")


unittest.main()
