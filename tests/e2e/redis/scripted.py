"""Orders of events that a real Redis gives only by chance, and servers that misbehave."""
import unittest

import common
import wire
from common import Scripted, bulk, invalidate, stats


class Cache(unittest.TestCase):
    def read(self, connection, key=b"k"):
        connection.send(wire.get("/get/" + key.decode()))

    def test_an_invalidation_that_overtakes_the_old_reply(self):
        """A GET in flight, the invalidation, then the old value: answered, not kept."""
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            self.read(c)
            peer, words = redis.next()
            peer.sendall(bulk(b"warm"))  # now the connection is ready and tracks
            self.assertEqual(c.read_response().body, b"warm")
            self.read(c, b"other")
            peer, words = redis.next()
            self.assertEqual(words, [b"GET", b"other"])
            peer.sendall(invalidate(b"other") + bulk(b"old"))
            self.assertEqual(c.read_response().body, b"old")
            self.assertEqual(stats(c)["late"], 1)
            self.read(c, b"other")  # asks again instead of serving "old" for ever
            peer, words = redis.next()
            self.assertEqual(words, [b"GET", b"other"])
            peer.sendall(bulk(b"new"))
            self.assertEqual(c.read_response().body, b"new")
            self.read(c, b"other")
            self.assertEqual(c.read_response().body, b"new")
            self.assertTrue(redis.commands.empty())

    def warm(self, redis, connection):
        """Now there is a connection, and it tracks."""
        self.read(connection, b"warm")
        peer, _ = redis.next()
        peer.sendall(bulk(b"x"))
        connection.read_response()

    def test_an_invalidation_right_behind_the_reply(self):
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            self.warm(redis, c)
            self.read(c)
            peer, _ = redis.next()
            peer.sendall(bulk(b"old") + invalidate(b"k"))
            self.assertEqual(c.read_response().body, b"old")
            wire.wait_until(lambda: stats(c)["invalidations"] == 1, "it is dropped")
            self.read(c)
            peer, words = redis.next()
            peer.sendall(bulk(b"new"))
            self.assertEqual(c.read_response().body, b"new")

    def test_a_flush_of_redis_overtakes_the_reply(self):
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            self.warm(redis, c)
            self.read(c)
            peer, _ = redis.next()
            peer.sendall(b">2\r\n+invalidate\r\n_\r\n" + bulk(b"old"))
            self.assertEqual(c.read_response().body, b"old")
            self.assertEqual(stats(c)["values"], 0)
            self.read(c, b"warm")  # gone, too
            self.assertEqual(redis.next()[1], [b"GET", b"warm"])
            peer.sendall(b"_\r\n")
            self.assertEqual(c.read_response().status, 404)

    def test_an_own_write_while_a_read_is_in_flight(self):
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as reader, server.connect() as writer:
            self.warm(redis, reader)
            self.read(reader)
            peer, _ = redis.next()
            writer.send(b"PUT /set/k HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nnew")
            self.assertEqual(redis.next()[1], [b"SET", b"k", b"new"])
            peer.sendall(bulk(b"old"))  # executed before the write
            self.assertEqual(reader.read_response().body, b"old")
            peer.sendall(b"+OK\r\n")
            self.assertEqual(writer.read_response().body, b"ok")
            self.read(writer)
            self.assertEqual(redis.next()[1], [b"GET", b"k"])  # not "old" from memory
            peer.sendall(bulk(b"new"))
            self.assertEqual(writer.read_response().body, b"new")

    def test_the_connection_is_lost_under_a_read(self):
        """The read is sent again; what the new connection answers was not tracked from the start."""
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000",
                            "--redis-timeout", "20000") as server, server.connect() as c:
            self.warm(redis, c)
            self.read(c)
            peer, _ = redis.next()
            peer.sendall(b"$100\r\nhalf of it")
            peer.shutdown(2)
            peer, words = redis.next()
            self.assertEqual(words, [b"GET", b"k"])
            peer.sendall(bulk(b"whole"))
            self.assertEqual(c.read_response().body, b"whole")
            self.assertEqual(stats(c)["values"], 0)

    def test_a_lost_connection_empties_the_cache(self):
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            self.read(c, b"warm")
            peer, _ = redis.next()
            peer.sendall(bulk(b"x"))
            c.read_response()
            self.read(c)
            peer, _ = redis.next()
            peer.sendall(bulk(b"v"))
            c.read_response()
            self.assertEqual(stats(c)["values"], 1)
            peer.shutdown(2)
            wire.wait_until(lambda: stats(c)["losses"] == 1, "the loss is noticed")
            self.assertEqual(stats(c)["values"], 0)
            self.read(c)
            peer, words = redis.next()
            self.assertEqual(words, [b"GET", b"k"])
            peer.sendall(bulk(b"v2"))
            self.assertEqual(c.read_response().body, b"v2")

    def test_a_server_that_refuses_to_track(self):
        with Scripted(tracking=b"-NOPERM no client command for you\r\n") as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            for value in (b"1", b"2", b"3"):
                self.read(c)
                peer, _ = redis.next()
                peer.sendall(bulk(value))
                self.assertEqual(c.read_response().body, value)
            self.assertEqual(stats(c)["hits"], 0)

    def test_without_resp3_there_is_no_cache(self):
        with Scripted(hello=False) as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            for value in (b"1", b"2", b"3"):
                self.read(c)
                peer, _ = redis.next()
                peer.sendall(bulk(value))
                self.assertEqual(c.read_response().body, value)
            self.assertNotIn([b"CLIENT", b"TRACKING", b"ON"], redis.greetings)


class Connections(unittest.TestCase):
    def test_replies_that_break_the_protocol_end_the_connection(self):
        for wrong in (b"?what\r\n", b"$5\r\nabc\r\nxx", b":1\r\n", b"$99999999999\r\n"):
            with self.subTest(wrong=wrong), Scripted() as redis, \
                    wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-timeout", "20000") as server, \
                    server.connect() as c:
                c.send(wire.get("/get/k"))
                peer, _ = redis.next()
                peer.sendall(wrong)
                if wrong != b":1\r\n":  # a well-formed answer of the wrong kind breaks nothing
                    peer, words = redis.next()  # the read is sent once more, on a new connection
                    self.assertEqual(words, [b"GET", b"k"])
                    peer.sendall(wrong)
                self.assertEqual(c.read_response().status, 502)
                c.send(wire.get("/get/k"))
                peer, _ = redis.next()
                peer.sendall(bulk(b"fine"))
                self.assertEqual(c.read_response().body, b"fine")

    def test_a_read_is_sent_again_and_a_write_is_not(self):
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-timeout", "20000") as server, \
                server.connect() as reader, server.connect() as writer:
            reader.send(wire.get("/get/k"))
            peer, _ = redis.next()
            writer.send(wire.post("/incr/n", b""))
            _, words = redis.next()
            self.assertEqual(words[0], b"INCRBY")
            peer.shutdown(2)
            self.assertEqual(writer.read_response().body, b"DZ_E_CLOSED")
            peer, words = redis.next()
            self.assertEqual(words, [b"GET", b"k"])
            peer.sendall(bulk(b"v"))
            self.assertEqual(reader.read_response().body, b"v")
            self.assertEqual(stats(reader)["retries"], 1)
            self.assertTrue(redis.commands.empty())

    @wire.again_on_a_busy_machine
    def test_a_late_answer_is_not_taken_for_the_next(self):
        with Scripted() as redis, \
                wire.Server(common.PROGRAM, "--redis", redis.url, "--redis-timeout", "2000") as server, \
                server.connect() as c:
            c.send(wire.get("/get/slow"))
            peer, _ = redis.next()
            self.assertEqual(c.read_response().status, 504)
            c.send(wire.get("/get/next"))
            same, words = redis.next()
            self.assertIs(same, peer)
            self.assertEqual(words, [b"GET", b"next"])
            peer.sendall(bulk(b"slow's") + bulk(b"next's"))
            self.assertEqual(c.read_response().body, b"next's")


unittest.main()
