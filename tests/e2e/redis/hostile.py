"""A Redis, or what pretends to be one, that answers half, wrongly, or far too much."""
import contextlib
import os
import select
import unittest

import common
import wire
from common import Scripted, bulk, invalidate, stats

os.environ.pop("MALLOC_PERTURB_", None)  # it touches all that is allocated, needed or not


class Case(unittest.TestCase):
    keys = 0

    def serve(self, redis, *options, timeout=20000):
        return wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-timeout", str(timeout),
                           *options)

    def ask(self, c, redis, answer, key=b"k"):
        """A GET that Redis answers with those bytes; the response."""
        c.send(wire.get("/get/" + key.decode()))
        peer, words = self.sent_on(c, redis)
        self.assertEqual(words, [b"GET", key])
        peer.sendall(answer)
        return c.read_response()

    def sent_on(self, c, redis):
        """What Redis was sent; the test fails when the client is answered instead: its time was over
        before."""
        def seen():
            try:
                return redis.commands.get(timeout=0.05)
            except common.queue.Empty:
                self.assertEqual(select.select([c.socket], [], [], 0)[0], [], "answered without asking")
                return None
        return wire.wait_until(seen, "Redis is asked")

    def recovers(self, c, redis):
        """Sooner or later, on a slow machine and after the back-off, a GET is answered as it should."""
        def fine():
            while not redis.commands.empty():  # of attempts that were given up
                redis.next()
            Case.keys += 1  # not one that is in memory
            c.send(wire.get(f"/get/key{Case.keys}"))
            try:
                peer, _ = redis.commands.get(timeout=0.2)
            except common.queue.Empty:
                self.assertIn(c.read_response().status, (502, 503, 504))
                return False
            with contextlib.suppress(OSError):  # it may have been given up meanwhile
                peer.sendall(bulk(b"v"))
            return c.read_response().body == b"v"
        wire.wait_until(fine, "it recovers")


class Half(Case):
    def test_half_an_answer_and_then_silence_is_a_timeout_not_a_hang(self):
        for cache in ((), ("--redis-cache", "1000000")):
            for half in (b"$", b"$100\r\nhalf of it", b"$4\r\nfour", b"+half a line"):
                self.is_a_timeout(half, cache)

    @wire.again_on_a_busy_machine
    def is_a_timeout(self, half, cache):
        with Scripted() as redis, self.serve(redis, *cache, timeout=200) as server, server.connect() as c:
            self.recovers(c, redis)
            losses = stats(c)["losses"]
            self.assertEqual(self.ask(c, redis, half, b"other").status, 504, half)
            # The silent connection is given up; what comes then goes over a new one.
            wire.wait_until(lambda: stats(c)["losses"] > losses, "it is given up")
            self.recovers(c, redis)
            wire.wait_until(lambda: stats(c)["waiting"] == 0, "nobody waits")

    @wire.again_on_a_busy_machine
    def test_the_rest_of_an_answer_that_comes_too_late_is_nobodys(self):
        with Scripted() as redis, self.serve(redis, timeout=300) as server, \
                server.connect() as c, server.connect() as other:
            for _ in range(50):
                self.recovers(c, redis)
                c.send(wire.get("/get/slow"))
                peer, _ = self.sent_on(c, redis)
                peer.sendall(b"$10\r\nslow")
                self.assertEqual(c.read_response().status, 504)
                other.send(wire.get("/get/next"))
                same, words = self.sent_on(other, redis)
                self.assertEqual(words, [b"GET", b"next"])
                with contextlib.suppress(OSError):
                    same.sendall((b" value\r\n" if same is peer else b"") + bulk(b"next's"))
                answer = other.read_response()
                if answer.status == 200:
                    self.assertEqual(answer.body, b"next's")
                # Else the machine was slower than the timeout, or the silent connection was given up.
                if answer.status == 200 and same is peer:
                    return
            self.fail("the machine is too slow for this")

    def test_a_command_that_is_half_answered_when_the_connection_breaks_is_not_half_a_value(self):
        with Scripted() as redis, self.serve(redis) as server, server.connect() as c:
            c.send(wire.get("/get/k"))
            peer, _ = redis.next()
            peer.sendall(b"$10\r\nold v")
            peer.shutdown(2)
            peer, words = redis.next()  # a read is sent once more
            self.assertEqual(words, [b"GET", b"k"])
            peer.sendall(bulk(b"new value"))
            self.assertEqual(c.read_response().body, b"new value")


class Wrong(Case):
    def test_a_value_of_another_type_is_an_error_of_that_request_alone(self):
        wrong = (b":1\r\n", b"+OK\r\n", b"#t\r\n", b",1.5\r\n", b"*1\r\n$1\r\nx\r\n", b"*0\r\n",
                 b"%1\r\n+a\r\n:1\r\n", b"~1\r\n:1\r\n", b"(123\r\n",
                 b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
        for cache in ((), ("--redis-cache", "1000000")):
            with Scripted() as redis, self.serve(redis, *cache) as server, server.connect() as c:
                self.assertEqual(self.ask(c, redis, bulk(b"v"), b"warm").body, b"v")
                for answer in wrong:
                    with self.subTest(answer=answer):
                        # A simple string is a string, too.
                        expected = 200 if answer == b"+OK\r\n" else 502
                        response = self.ask(c, redis, answer)
                        self.assertIn(response.status, (expected, 502))
                self.assertEqual(self.ask(c, redis, bulk(b"v")).body, b"v")
                self.assertEqual(stats(c)["connects"], 1)

    def test_a_number_where_none_is(self):
        for answer in (bulk(b"12"), b"+OK\r\n", b"_\r\n", b"*1\r\n:1\r\n", b",1.5\r\n"):
            with self.subTest(answer=answer), Scripted() as redis, self.serve(redis) as server, \
                    server.connect() as c:
                c.send(wire.post("/incr/n", b""))
                peer, _ = redis.next()
                peer.sendall(answer)
                self.assertEqual(c.read_response().status, 502)

    def test_an_mget_of_another_length(self):
        for answer in (b"*1\r\n" + bulk(b"a"), b"*3\r\n" + 3 * bulk(b"a"), b"*0\r\n", bulk(b"a"), b"_\r\n"):
            with self.subTest(answer=answer), Scripted() as redis, self.serve(redis) as server, \
                    server.connect() as c:
                c.send(wire.get("/mget/a,b"))
                peer, _ = redis.next()
                peer.sendall(answer)
                self.assertEqual(c.read_response().status, 502)

    def test_answers_that_nobody_asked_for(self):
        with Scripted() as redis, self.serve(redis) as server, server.connect() as c:
            c.send(wire.get("/get/k"))
            peer, _ = redis.next()
            peer.sendall(bulk(b"v") + bulk(b"another's"))
            self.assertEqual(c.read_response().body, b"v")
            wire.wait_until(lambda: stats(c)["losses"] == 1, "such a connection is not trusted")
            self.assertEqual(self.ask(c, redis, bulk(b"w")).body, b"w")


class TooMuch(Case):
    def fails_and_goes_on(self, *answers):
        with Scripted() as redis, self.serve(redis) as server, server.connect() as c:
            before = server.rss_kb()
            for answer in answers:
                with self.subTest(answer=answer[:40]):
                    c.send(wire.post("/command/EVAL,x,0", b""))  # no read: it is not sent again
                    peer, words = redis.next()
                    self.assertEqual(words[0], b"EVAL")
                    peer.sendall(answer)
                    self.assertEqual(c.read_response().status, 502)
                    self.assertEqual(self.ask(c, redis, bulk(b"fine")).body, b"fine")
            if wire.MEMORY_IS_EXACT:
                self.assertLess(server.rss_kb(), before + (128 << 10))

    def test_aggregates_a_thousand_deep(self):
        self.fails_and_goes_on(*(1000 * head for head in (
            b"*1\r\n", b"~1\r\n", b"%1\r\n+k\r\n", b"*?\r\n", b"|1\r\n+a\r\n")))

    def test_lengths_that_nobody_can_hold(self):
        self.fails_and_goes_on(*(kind + length + b"\r\n" for kind in (b"$", b"=", b"!", b"*", b"%", b"~")
                                 for length in (b"1073741825", b"9223372036854775807",
                                                b"9223372036854775808", b"99999999999999999999999",
                                                b"-2", b"0x10", b"1e3", b"")))

    def test_more_elements_than_fit(self):
        self.fails_and_goes_on(b"*1048576\r\n" + 1048576 * b":1\r\n")

    def test_a_line_without_an_end(self):
        self.fails_and_goes_on(b"+" + 20000 * b"x")

    @wire.again_on_a_busy_machine
    def test_a_large_length_costs_nothing_before_its_bytes_come(self):
        with Scripted() as redis, self.serve(redis, timeout=500) as server, server.connect() as c:
            self.recovers(c, redis)
            before = server.rss_kb()
            self.assertEqual(self.ask(c, redis, b"$1000000000\r\nnot a gigabyte").status, 504)
            if wire.MEMORY_IS_EXACT:
                self.assertLess(server.rss_kb(), before + (64 << 10))


class Pushes(Case):
    PUSHES = (invalidate(b"unknown"), invalidate(b""), invalidate(b"x" * 70000),
              b">2\r\n+invalidate\r\n*0\r\n", b">2\r\n+invalidate\r\n:1\r\n", b">1\r\n+invalidate\r\n",
              b">2\r\n+invalidate\r\n*2\r\n:1\r\n_\r\n", b">3\r\n+message\r\n+a\r\n+b\r\n",
              b">2\r\n:1\r\n:2\r\n", b">2\r\n*0\r\n*1\r\n_\r\n",
              b">2\r\n+invalidate\r\n*1000\r\n" + 1000 * bulk(b"another"))

    def test_pushes_for_unknown_keys_or_of_unknown_kinds_change_nothing(self):
        with Scripted() as redis, self.serve(redis, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            self.ask(c, redis, bulk(b"v"), b"warm")
            self.ask(c, redis, bulk(b"v"))
            for i, push in enumerate(self.PUSHES):
                # Between answers, before one, and in the middle of a pipeline.
                response = self.ask(c, redis, push + bulk(b"x%d" % i) + push, b"key%d" % i)
                self.assertEqual(response.body, b"x%d" % i)
            c.send(wire.get("/get/k"))
            self.assertEqual(c.read_response().body, b"v")  # still from memory
            self.assertEqual((stats(c)["invalidations"], stats(c)["losses"]), (0, 0))

    def test_nor_do_they_without_a_cache(self):
        with Scripted() as redis, self.serve(redis) as server, server.connect() as c:
            for push in self.PUSHES:
                self.assertEqual(self.ask(c, redis, push + bulk(b"v")).body, b"v")


class Greeting(Case):
    def test_a_refused_login_is_told_and_nothing_is_sent(self):
        refusal = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
        with Scripted(greeting=lambda words: refusal) as redis, self.serve(redis) as server, \
                server.connect() as c:
            for _ in range(3):
                c.send(wire.get("/get/k"))
                self.assertEqual(c.read_response().status, 503)
            self.assertIn(b"WRONGPASS", c.get("/why").body)
            self.assertTrue(redis.commands.empty())

    def test_nonsense_half_a_greeting_or_none(self):
        for greeting in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$5\r\n", b"", b":1\r\n" * 10, b"*1000000000\r\n"):
            with self.subTest(greeting=greeting), \
                    Scripted(greeting=lambda words, text=greeting: text) as redis, \
                    self.serve(redis, timeout=300) as server, server.connect() as c:
                c.send(wire.get("/get/k"))
                self.assertIn(c.read_response().status, (502, 503, 504))
                self.assertTrue(c.get("/why").body)
                redis.greeting = None
                self.recovers(c, redis)


unittest.main()
