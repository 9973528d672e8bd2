"""examples/redis-json with its embedded server."""
import json
import os
import unittest

import common
import wire


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


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

    def test_etag(self):
        with wire.Server("examples/redis-json", "--etag", "--cache-control", "max-age=5",
                         "--redis-cache", "1000000") as server, server.connect() as c:
            first = c.get("/data")
            tag = first.get("ETag")
            self.assertRegex(tag, r'^"[0-9a-f]{16}"$')
            self.assertEqual(first.get("Cache-Control"), "max-age=5")
            for theirs, status in ((tag, 304), (f'"other", {tag}', 304), ("*", 304), ('"other"', 200)):
                answer = c.get("/data", f"If-None-Match: {theirs}".encode())
                self.assertEqual(answer.status, status, theirs)
                self.assertEqual(answer.get("ETag"), tag)
                self.assertEqual(answer.body == b"", status == 304)

    def test_leaves_nothing_behind(self):
        with wire.Server("examples/redis-json") as server:
            keeper, = children(server.pid)
            redis, = children(keeper)
        for pid in (keeper, redis):
            self.assertFalse(os.path.exists(f"/proc/{pid}"))

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
        wire.wait_until(lambda: not os.path.exists(f"/proc/{keeper}") and not os.path.exists(folder),
                        "keeper, server and folder are gone")


unittest.main()
