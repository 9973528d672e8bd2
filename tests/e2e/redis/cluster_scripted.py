"""Redis Cluster's redirections in orders that real nodes give only by chance, from nodes that do
exactly what they are told."""
import socket
import unittest

import common
import wire
from common import bulk, invalidate, stats


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot(key):
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1:end]
    return crc16(key) % 16384


class Node(common.Speaker):
    """A node on a port of its own. CLUSTER SLOTS is answered from `cluster` unless `silent`; other
    commands by `answer(words)`, or when that is None by the test from `commands`."""

    def __init__(self, cluster):
        self.cluster, self.answer, self.silent, self.map = cluster, None, False, None
        self.asked_maps, self.seen = 0, []
        self.port, = common.free_ports(1)  # nobody else's once it listens no more
        super().__init__(socket.create_server(("127.0.0.1", self.port)))

    def _command(self, connection, words):
        if words[0] == b"HELLO":
            connection.sendall(b"%1\r\n+proto\r\n:3\r\n")
        elif words[0] in (b"CLIENT", b"PING"):
            connection.sendall(b"+OK\r\n")
        elif words[0] == b"CLUSTER":
            self.asked_maps += 1
            if not self.silent:
                connection.sendall(self.map or self.cluster.map())
        else:
            self.seen.append(words)
            if self.answer is None:
                self.commands.put((connection, words))
            else:
                connection.sendall(self.answer(words))

    def hang_up(self):
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                pass

    def close(self):
        self.stop_listening()  # first, or who was hung up on would be back at once
        self.hang_up()
        super().close()


class Cluster:
    def __init__(self, count, seeds=None):
        self.nodes = [Node(self) for _ in range(count)]
        self.ranges = [(0, 16383, self.nodes[0])]
        self.url = "redis+cluster://" + ",".join(
            f"127.0.0.1:{node.port}" for node in self.nodes[:seeds or count])

    def map(self):
        lines = [b"*%d\r\n" % len(self.ranges)]
        for first, last, node in self.ranges:
            lines.append(b"*3\r\n:%d\r\n:%d\r\n*3\r\n" % (first, last) + bulk(b"127.0.0.1")
                         + b":%d\r\n" % node.port + bulk(b"id%d" % node.port))
        return b"".join(lines)

    def moved(self, key, node, kind=b"MOVED", host=b"127.0.0.1"):
        return b"-%s %d %s:%d\r\n" % (kind, slot(key), host, node.port)

    def ask(self, key, node):
        return self.moved(key, node, b"ASK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.close()


class ClusterTest(unittest.TestCase):
    def serve(self, cluster, *options, timeout=20000):
        return wire.Server(common.PROGRAM, "--redis", cluster.url, "--redis-timeout", str(timeout),
                           *options)


class Redirections(ClusterTest):
    def test_moved_is_followed_and_remembered(self):
        with Cluster(2, seeds=1) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes

            def moves(_):
                cluster.ranges = [(0, 16383, b)]  # for whoever asks for a map from here on
                return cluster.moved(b"k", b)
            a.answer = moves
            b.answer = lambda words: bulk(b"b's")
            for _ in range(5):
                self.assertEqual(c.get("/get/k").body, b"b's")
            self.assertEqual(len(a.seen), 1)

    def test_ask_goes_behind_asking_and_is_not_remembered(self):
        with Cluster(2, seeds=1) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            a.answer = lambda words: cluster.ask(b"k", b)
            b.answer = lambda words: b"+OK\r\n" if words[0] == b"ASKING" else bulk(b"b's")
            for _ in range(3):
                self.assertEqual(c.get("/get/k").body, b"b's")
            self.assertEqual(b.seen, [[b"ASKING"], [b"GET", b"k"]] * 3)
            self.assertEqual(len(a.seen), 3)
            self.assertEqual(c.request(wire.post("/incr/k", b"")).body, b"DZ_E_PROTOCOL")  # a string
            self.assertEqual(b.seen[-2:], [[b"ASKING"], [b"INCRBY", b"k", b"1"]])
            self.assertEqual(stats(c)["redirects"], 4)

    def test_asking_is_repeated_when_the_connection_breaks_behind_it(self):
        with Cluster(2, seeds=1) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            a.answer = lambda words: cluster.ask(b"k", b)
            c.send(wire.get("/get/k"))
            peer, words = b.next()
            self.assertEqual(words, [b"ASKING"])
            peer.sendall(b"+OK\r\n")
            self.assertEqual(b.next()[1], [b"GET", b"k"])
            peer.shutdown(2)
            peer, words = b.next()
            self.assertEqual(words, [b"ASKING"])
            peer.sendall(b"+OK\r\n" + bulk(b"v"))
            self.assertEqual(c.read_response().body, b"v")

    def test_moved_behind_ask(self):
        """The slot was handed over between the two answers."""
        with Cluster(2, seeds=1) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            answers = [cluster.ask(b"k", b), bulk(b"a's")]
            a.answer = lambda words: answers.pop(0)
            b.answer = lambda words: b"+OK\r\n" if words[0] == b"ASKING" else cluster.moved(b"k", a)
            self.assertEqual(c.get("/get/k").body, b"a's")
            self.assertEqual(a.seen, [[b"GET", b"k"]] * 2)  # without ASKING

    def test_nodes_that_send_each_other_everything(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            a.answer = lambda words: cluster.moved(b"k", b)
            b.answer = lambda words: cluster.moved(b"k", a)
            self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            self.assertEqual(len(a.seen) + len(b.seen), 9)  # the command, and sent on eight times
            a.answer = b.answer = lambda words: bulk(b"v")
            self.assertEqual(c.get("/get/k").body, b"v")

    def test_a_node_that_moves_everything_to_itself(self):
        with Cluster(1) as cluster, self.serve(cluster) as server, server.connect() as c:
            node, = cluster.nodes
            node.answer = lambda words: cluster.moved(b"k", node, host=b"")
            self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            self.assertEqual(len(node.seen), 9)

    def test_nonsense_instead_of_a_redirection(self):
        for text in (b"MOVED", b"MOVED 1", b"MOVED x 127.0.0.1:1", b"MOVED 16384 127.0.0.1:1", b"MOVED 1 127.0.0.1",
                     b"MOVED 1 127.0.0.1:99999", b"MOVED 1 127.0.0.1:x", b"ASK 1", b"MOVED 1 :",
                     b"MOVED 1 " + b"h" * 300 + b":1"):
            with self.subTest(text=text), Cluster(1) as cluster, self.serve(cluster) as server, \
                    server.connect() as c:
                cluster.nodes[0].answer = lambda words, text=text: b"-" + text + b"\r\n"
                self.assertIn(c.get("/get/k").body, (b"DZ_E_REPLY", b"DZ_E_UNAVAILABLE"))
                cluster.nodes[0].answer = lambda words: bulk(b"v")
                self.assertEqual(c.get("/get/k").body, b"v")

    def test_tryagain_is_tried_again(self):
        with Cluster(1) as cluster, self.serve(cluster) as server, server.connect() as c:
            answers = [b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"] * 3 + [bulk(b"v")]
            cluster.nodes[0].answer = lambda words: answers.pop(0)
            self.assertEqual(c.get("/get/k").body, b"v")

    @wire.again_on_a_busy_machine
    def test_a_redirection_keeps_the_deadline(self):
        with Cluster(2, seeds=1) as cluster, self.serve(cluster, timeout=2000) as server, \
                server.connect() as c:
            a, b = cluster.nodes
            a.answer = lambda words: cluster.moved(b"k", b)
            self.assertEqual(c.get("/get/k").body, b"DZ_E_TIMEOUT")  # b never answers
            self.assertEqual(b.seen, [[b"GET", b"k"]])
            wire.wait_until(lambda: stats(c)["waiting"] == 0, "nobody waits")

    def test_a_node_of_a_cluster_spoken_to_as_a_single_server(self):
        with Cluster(2) as cluster:
            a, b = cluster.nodes
            a.answer = lambda words: cluster.moved(b"k", b)
            with wire.Server(common.PROGRAM, "--redis", f"redis://127.0.0.1:{a.port}") as server, \
                    server.connect() as c:
                self.assertEqual(c.get("/get/k").body, b"DZ_E_REPLY")
                self.assertIn(b"use redis+cluster://", c.get("/why").body)


class Map(ClusterTest):
    def test_is_asked_for_once_however_many_wait(self):
        with Cluster(1) as cluster:
            node, = cluster.nodes
            node.answer = lambda words: bulk(words[1])
            node.silent = True
            with self.serve(cluster) as server, server.connect() as c:
                clients = [server.connect() for _ in range(20)]
                for n, client in enumerate(clients):
                    client.send(wire.get(f"/get/key{n}"))
                wire.wait_until(lambda: stats(c)["waiting"] >= 20 and node.asked_maps == 1, "all wait")
                self.assertEqual(stats(c)["maps"], 1)
                node.connections[0].sendall(cluster.map())
                for n, client in enumerate(clients):
                    self.assertEqual(client.read_response().body, b"key%d" % n)
                    client.close()
                self.assertEqual((node.asked_maps, stats(c)["maps"]), (1, 1))

    def test_comes_from_another_node_when_one_is_silent_or_talks_nonsense(self):
        nonsense = (None, b"*0\r\n", b"-ERR This instance has cluster support disabled\r\n", b":1\r\n",
                    b"*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n+h\r\n:1\r\n", b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n+h\r\n:1\r\n",
                    b"*1\r\n*2\r\n:0\r\n:1\r\n", b"*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n", b"*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n+h\r\n:70000\r\n")
        for wrong in nonsense:
            with self.subTest(wrong=wrong), Cluster(3) as cluster:
                for bad in cluster.nodes[:2]:
                    bad.silent, bad.map = wrong is None, wrong
                good = cluster.nodes[2]
                cluster.ranges = [(0, 16383, good)]
                good.answer = lambda words: bulk(b"v")
                with self.serve(cluster, timeout=4000) as server, server.connect() as c:
                    wire.wait_until(lambda: c.get("/get/k").body == b"v", "the map is found")

    def test_nobody_knows_it(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, server.connect() as c:
            for node in cluster.nodes:
                node.map = b"-ERR This instance has cluster support disabled\r\n"
            self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            self.assertIn(b"cluster support disabled", c.get("/why").body)

    def test_a_slot_without_a_node(self):
        with Cluster(1) as cluster, self.serve(cluster) as server, server.connect() as c:
            node, = cluster.nodes
            node.answer = lambda words: bulk(b"v")
            cluster.ranges = [(0, slot(b"k") - 1, node), (slot(b"k") + 1, 16383, node)]
            self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            self.assertEqual(c.get("/get/other").body, b"v")

    def test_nodes_that_it_no_longer_names_are_forgotten(self):
        with Cluster(3, seeds=1) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b, d = cluster.nodes
            middle = 8192
            cluster.ranges = [(0, middle, a), (middle + 1, 16383, b)]
            for node in cluster.nodes:
                node.answer = lambda words: bulk(b"v")
            for n in range(30):
                self.assertEqual(c.get(f"/get/{n}").body, b"v")
            self.assertEqual((stats(c)["nodes"], len(b.connections)), (2, 1))
            cluster.ranges = [(0, middle, a), (middle + 1, 16383, d)]
            b.close()
            wire.wait_until(lambda: all(c.get(f"/get/{n}").body == b"v" for n in range(30)),
                            "the new node is found")
            wire.wait_until(lambda: stats(c)["nodes"] == 2, "the old one is forgotten")

    def test_nodes_are_connected_to_when_they_are_needed(self):
        with Cluster(3, seeds=1) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b, d = cluster.nodes
            cluster.ranges = [(0, 5000, a), (5001, 10000, b), (10001, 16383, d)]
            b.answer = lambda words: bulk(b"v")
            key = next(n for n in range(1000) if 5001 <= slot(b"%d" % n) <= 10000)
            self.assertEqual(c.get(f"/get/{key}").body, b"v")
            self.assertEqual((len(b.connections), len(d.connections)), (1, 0))


class Failures(ClusterTest):
    def test_a_read_finds_the_new_node_and_a_write_is_not_repeated(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, \
                server.connect() as reader, server.connect() as writer:
            a, b = cluster.nodes
            b.answer = lambda words: bulk(b"b's")
            reader.send(wire.get("/get/k"))
            a.next()
            writer.send(wire.post("/incr/n", b""))
            a.next()
            cluster.ranges = [(0, 16383, b)]
            a.close()
            self.assertEqual(writer.read_response().body, b"DZ_E_CLOSED")
            # At once when the map has been asked for long enough ago; else the next one finds it.
            self.assertIn(reader.read_response().body, (b"b's", b"DZ_E_UNAVAILABLE"))
            wire.wait_until(lambda: reader.get("/get/k").body == b"b's", "the new node is found")
            self.assertEqual([words for words in b.seen if words[0] == b"INCRBY"], [])

    def test_the_other_nodes_go_on(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            cluster.ranges = [(0, 8191, a), (8192, 16383, b)]
            a.answer = b.answer = lambda words: bulk(b"v")
            on_a = next(n for n in range(1000) if slot(b"%d" % n) <= 8191)
            on_b = next(n for n in range(1000) if slot(b"%d" % n) > 8191)
            self.assertEqual(c.get(f"/get/{on_a}").body, b"v")
            a.close()
            wire.wait_until(lambda: c.get(f"/get/{on_a}").status == 503, "it is gone")
            for _ in range(20):
                self.assertEqual(c.get(f"/get/{on_b}").body, b"v")
                self.assertEqual(c.get(f"/get/{on_a}").status, 503)

    def test_all_nodes_gone(self):
        with Cluster(3) as cluster, self.serve(cluster) as server, server.connect() as c:
            for node in cluster.nodes:
                node.close()
            for _ in range(5):
                self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            self.assertEqual(c.get("/mget/a,b,c").body, b"DZ_E_UNAVAILABLE")
            self.assertEqual(stats(c)["waiting"], 0)


class SeveralKeys(ClusterTest):
    def test_mget_is_split_by_slot_and_put_together_in_order(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            cluster.ranges = [(0, 8191, a), (8192, 16383, b)]

            def answer(words):
                self.assertEqual(len({slot(key) for key in words[1:]}), 1)
                return b"*%d\r\n" % (len(words) - 1) + b"".join(
                    b"_\r\n" if key == b"none" else bulk(key * 500) for key in words[1:])
            a.answer = b.answer = answer
            keys = ["a", "{x}1", "b", "none", "{x}2", "a", "c"] + [str(n) for n in range(40)]
            lines = c.get("/mget/" + ",".join(keys)).body.decode().split("\n")[:-1]
            self.assertEqual(lines, ["-" if key == "none" else key * 500 for key in keys])
            together = [words for words in a.seen + b.seen if b"{x}1" in words]
            self.assertEqual(together, [[b"MGET", b"{x}1", b"{x}2"]])

    def test_del_adds_up_and_parts_may_fail(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            cluster.ranges = [(0, 8191, a), (8192, 16383, b)]
            a.answer = b.answer = lambda words: b":%d\r\n" % (len(words) - 1)
            keys = "/del/" + ",".join(str(n) for n in range(30))
            self.assertEqual(c.request(wire.post(keys, b"")).body, b"30")
            b.answer = lambda words: b"-NOPERM no\r\n"
            self.assertEqual(c.request(wire.post(keys, b"")).body, b"DZ_E_REPLY")
            b.answer = lambda words: b"+what\r\n"
            self.assertEqual(c.request(wire.post(keys, b"")).body, b"DZ_E_PROTOCOL")

    def test_mget_parts_are_redirected_each_on_its_own(self):
        with Cluster(2) as cluster, self.serve(cluster) as server, server.connect() as c:
            a, b = cluster.nodes
            values = lambda words: b"*%d\r\n" % (len(words) - 1) + b"".join(map(bulk, words[1:]))
            a.answer = lambda words: cluster.moved(words[1], b) if slot(words[1]) % 2 else values(words)
            b.answer = values
            keys = [str(n) for n in range(30)]
            self.assertEqual(c.get("/mget/" + ",".join(keys)).body.decode().split(), keys)


class Cache(ClusterTest):
    def test_a_slot_that_moves_takes_its_values_along(self):
        with Cluster(2) as cluster, \
                self.serve(cluster, "--redis-cache", "1000000") as server, server.connect() as c:
            a, b = cluster.nodes
            a.answer = lambda words: bulk(b"old")
            b.answer = lambda words: bulk(b"new")
            wire.wait_until(lambda: c.get("/get/k").body == b"old" and stats(c)["hits"] > 0, "it is cached")
            a.answer = lambda words: cluster.moved(words[1], b)
            cluster.ranges = [(0, 16383, b)]
            self.assertEqual(c.get("/get/k").body, b"old")  # nobody said that it changed
            self.assertEqual(c.get("/get/other").body, b"new")  # now it is known
            self.assertEqual(c.get("/get/k").body, b"new")

    def test_invalidations_come_from_each_node(self):
        with Cluster(2) as cluster, \
                self.serve(cluster, "--redis-cache", "1000000") as server, server.connect() as c:
            a, b = cluster.nodes
            cluster.ranges = [(0, 8191, a), (8192, 16383, b)]
            keys = [next(b"%d" % n for n in range(1000) if (slot(b"%d" % n) > 8191) == above)
                    for above in (False, True)]
            version = b"1"
            a.answer = b.answer = lambda words: bulk(version)
            for key in keys:
                wire.wait_until(lambda: c.get("/get/" + key.decode()) and
                                c.get("/get/" + key.decode()).body == b"1" and stats(c)["hits"] > 0, "cached")
            version = b"2"
            for node, key in zip((a, b), keys):
                node.connections[-1].sendall(invalidate(key))
                wire.wait_until(lambda: c.get("/get/" + key.decode()).body == b"2", "it is seen")


unittest.main()
