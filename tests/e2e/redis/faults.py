"""Redis killed, paused, restarted and filled up under load. Every value carries its key and a
version, and every answer is checked: never another key's, never older than one already confirmed."""
import threading
import unittest

import common
import wire
from common import Real, stats

KEYS = 20
READERS = 6


@unittest.skipUnless(common.HAVE_REDIS, "redis-server is not installed")
class Faults(unittest.TestCase):
    options = ()

    def run_under_load(self, harm, expect_losses=True):
        """Readers and one writer go on while harm(redis) happens; then all must be well again."""
        self.answers, self.bad, self.good = {}, [], 0
        self.confirmed = [0] * KEYS
        self.stop = threading.Event()
        with Real() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-timeout", "300",
                            *self.options) as server:
            self.server = server
            with server.connect() as c:
                for key in range(KEYS):
                    self.write(c, key, 1)
            threads = [threading.Thread(target=self.read, args=(server, n)) for n in range(READERS)]
            threads.append(threading.Thread(target=self.keep_writing, args=(server,)))
            for thread in threads:
                thread.start()
            try:
                self.progress(100)
                harm(redis)
                self.progress(300)
            finally:
                self.stop.set()
                for thread in threads:
                    thread.join()
            with server.connect() as c:
                wire.wait_until(lambda: self.write(c, 0, self.confirmed[0] + 1), "writes work again")
                wire.wait_until(lambda: stats(c)["waiting"] == 0, "nothing is left waiting")
                if expect_losses:
                    self.assertGreater(stats(c)["losses"], 0)
        self.assertEqual(self.bad, [])
        self.assertLessEqual(set(self.answers), {200, 404, 502, 503, 504})

    def progress(self, more):
        """Waits until that many more good answers came."""
        goal = self.good + more
        wire.wait_until(lambda: self.good >= goal or self.bad, f"{more} more good answers")

    def value(self, key, version):
        return (b"%d:%d:" % (key, version)).ljust(20000, b"x")  # more than Redis keeps for a client besides its list

    def write(self, connection, key, version):
        body = self.value(key, version)
        answer = connection.request(b"PUT /set/%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                                    % (key, len(body)) + body)
        if answer.status == 200:
            self.confirmed[key] = version
        return answer.status == 200

    def keep_writing(self, server):
        with server.connect() as c:
            version = 1
            while not self.stop.is_set():
                version += 1
                for key in range(KEYS):
                    self.write(c, key, version)

    def read(self, server, n):
        with server.connect() as c:
            key = n
            while not self.stop.is_set():
                key = (key + 7) % KEYS
                newest = self.confirmed[key]
                answer = c.get(f"/get/{key}")
                self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
                if answer.status != 200:
                    continue
                theirs, version, _ = answer.body.split(b":", 2)
                if int(theirs) != key or answer.body != self.value(key, int(version)):
                    self.bad.append((key, answer.body[:40]))
                elif self.ordered and int(version) < newest:
                    self.bad.append((key, newest, int(version)))
                self.good += 1

    ordered = True

    def test_killed_and_started_again(self):
        def harm(redis):
            redis.kill()
            redis.start()
        self.ordered = False  # the new one is empty: versions are confirmed anew
        self.run_under_load(harm)

    def test_paused(self):
        def harm(redis):
            redis.pause()
            wire.wait_until(lambda: self.answers.get(503, 0) > 20, "the silence is noticed")
            redis.resume()
        self.run_under_load(harm)

    def test_out_of_memory(self):
        def harm(redis):
            redis.command(b"CONFIG", b"SET", b"maxmemory", b"1")
            self.progress(100)  # reads go on
            redis.command(b"CONFIG", b"SET", b"maxmemory", b"0")
        self.run_under_load(harm, expect_losses=False)

    def test_connections_cut(self):
        def harm(redis):
            for _ in range(20):
                redis.command(b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes")
                self.progress(20)
        self.run_under_load(harm)

    def test_slow(self):
        def harm(redis):
            for _ in range(10):
                self.assertEqual(redis.command(b"DEBUG", b"SLEEP", b"0.05"), b"+OK\r\n")
                self.progress(10)
        self.run_under_load(harm, expect_losses=False)

    def test_busy_with_a_script(self):
        def harm(redis):
            script = threading.Thread(target=redis.command, args=(b"EVAL", b"while true do end", b"0"))
            script.start()
            wire.wait_until(lambda: redis.command(b"GET", b"0").startswith(b"-BUSY"), "it is busy")
            wire.wait_until(lambda: self.answers.get(503, 0) > 20, "that is told")
            self.assertEqual(redis.command(b"SCRIPT", b"KILL"), b"+OK\r\n")
            script.join()
        self.run_under_load(harm, expect_losses=False)

    def test_disconnected_because_of_its_output(self):
        def harm(redis):
            with self.server.connect() as c:
                losses = stats(c)["losses"]
                redis.command(b"CONFIG", b"SET", b"client-output-buffer-limit", b"normal 3000 0 0")
                wire.wait_until(lambda: stats(c)["losses"] > losses, "connections are lost")
            wire.wait_until(lambda: self.answers.get(502, 0) + self.answers.get(503, 0) > 0,
                            "answers fail")
            redis.command(b"CONFIG", b"SET", b"client-output-buffer-limit", b"normal 0 0 0")
        self.run_under_load(harm)


class FaultsWithSeveralConnections(Faults):
    options = ("--redis-connections", "3", "--loops", "2")


@unittest.skipUnless(common.HAVE_REDIS, "redis-server is not installed")
class OldServers(unittest.TestCase):
    """A server without HELLO, as before Redis 6: protocol version 2."""

    def test_calls(self):
        with Real("--rename-command", "HELLO", "", "--requirepass", "geheim") as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url.replace("unix://", "unix://:geheim@") + "?db=2",
                            "--redis-cache", "100000") as server, server.connect() as c:
            body = b"PUT /set/k HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nvalue"
            self.assertEqual(c.request(body).status, 200)
            self.assertEqual(c.get("/get/k").body, b"value")
            self.assertEqual(c.get("/mget/k,none,k").body, b"value\n-\nvalue\n")
            self.assertEqual(c.get("/get/none").status, 404)
            self.assertEqual(c.request(wire.post("/incr/n", b"")).body, b"1")
            self.assertEqual(stats(c)["hits"], 0)  # it could not tell of changes


class FaultsWithCache(Faults):
    options = ("--redis-cache", "1000000")


unittest.main()
