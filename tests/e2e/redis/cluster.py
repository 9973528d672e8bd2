"""A Redis Cluster of real nodes: slots moved and masters killed under load. Values carry their key
and a version; no answer may be another key's or older than what was confirmed."""
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import common
import wire
from common import bulk, free_ports, stats

KEYS = 40
SLOTS = 16384


def read_reply(file):
    line = file.readline()
    if not line:
        raise OSError("closed")
    kind, rest = line[:1], line[1:-2]
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [read_reply(file) for _ in range(int(rest))]
    return int(rest) if kind == b":" else line[:-2]


class Node:
    def __init__(self, folder, port, bus_port, timeout):
        self.timeout = timeout  # ms without an answer after which the others take it for dead
        self.folder, self.port, self.bus_port = folder, port, bus_port
        os.mkdir(folder)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--cluster-enabled", "yes", "--cluster-port",
             str(self.bus_port), "--cluster-node-timeout", str(self.timeout), "--cluster-require-full-coverage", "no",
             "--bind", "127.0.0.1", "--dir", self.folder, "--save", "", "--repl-diskless-sync-delay", "0",
             "--cluster-replica-validity-factor", "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wire.wait_until(lambda: self.command("PING") == b"+PONG", "the node answers")
        self.id = self.command("CLUSTER", "MYID").decode()

    def command(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        try:
            with socket.create_connection(("127.0.0.1", self.port), wire.DEADLINE) as s:
                s.sendall(b"*%d\r\n" % len(words) + b"".join(map(bulk, words)))
                with s.makefile("rb") as file:
                    return read_reply(file)
        except OSError:
            return None

    def must(self, *words):
        answer = self.command(*words)
        if not isinstance(answer, bytes) or answer[:1] not in (b"+",):
            raise AssertionError(f"{words}: {answer}")

    def info(self, what):
        return (self.command("CLUSTER", "INFO") or b"").decode().find(what) >= 0

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Cluster:
    """Three masters, and the first one's replica when that is wanted."""

    def __init__(self, replica=False):
        self.folder = tempfile.TemporaryDirectory()
        self.nodes = []
        try:
            self.make(replica)
        except BaseException:
            self.close()
            raise

    def make(self, replica):
        count = 4 if replica else 3
        ports = free_ports(2 * count)
        for i in range(count):
            self.nodes.append(Node(os.path.join(self.folder.name, str(i)), ports[2 * i], ports[2 * i + 1],
                                   1500 if replica else 15000))
        self.masters = self.nodes[:3]
        for i, node in enumerate(self.nodes):
            node.must("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for i, node in enumerate(self.masters):
            node.must("CLUSTER", "ADDSLOTSRANGE", SLOTS * i // 3, SLOTS * (i + 1) // 3 - 1)
        self.wait_until_whole()
        if replica:
            self.nodes[3].must("CLUSTER", "REPLICATE", self.nodes[0].id)
            wire.wait_until(lambda: b"master_link_status:up" in (self.nodes[3].command("INFO", "replication") or b""),
                            "the replica has everything")
        self.url = f"redis+cluster://127.0.0.1:{ports[0]},127.0.0.1:{ports[2]}"

    def wait_until_whole(self):
        """Nodes that do not know each other are introduced, again when they took too long over it."""
        meet_again = 0

        def is_whole():
            nonlocal meet_again
            strangers = [node for node in self.nodes if not node.info(f"cluster_known_nodes:{len(self.nodes)}")]
            if strangers and time.monotonic() > meet_again:
                meet_again = time.monotonic() + 3
                for node in self.nodes[1:]:
                    node.must("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus_port)
            return not strangers and all(node.info("cluster_state:ok") and node.info(f"cluster_slots_ok:{SLOTS}")
                                         for node in self.nodes)
        wire.wait_until(is_whole, "the cluster is whole")

    def owner(self, slot):
        for first, last, master, *_ in self.masters[0].command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == master[1])
        return None

    def move(self, slot, to):
        """As redis-cli does it: both know of the move, the keys go over, then all are told."""
        source = self.owner(slot)
        if source is to:
            return
        to.must("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.must("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 1):  # one by one: it takes longer
            source.must("MIGRATE", "127.0.0.1", to.port, "", 0, 10000, "KEYS", *keys)
        for node in (to, source, *(m for m in self.masters if m not in (to, source))):
            node.must("CLUSTER", "SETSLOT", slot, "NODE", to.id)

    def close(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.kill()
        self.folder.cleanup()


def keyslot(node, key):
    return node.command("CLUSTER", "KEYSLOT", key)


def value(key, version):
    return (f"{key}:{version}:").encode().ljust(2000, b"x")


class Load:
    """Readers, one writer, and one that reads keys of several slots and of one slot at once."""

    def __init__(self, test, server, readers=4):
        self.test, self.server, self.ordered = test, server, True
        # Some alone in their slots, some together in one.
        self.keys = [f"k{n}" for n in range(KEYS - 10)] + [f"{{tag}}{n}" for n in range(10)]
        self.confirmed = dict.fromkeys(self.keys, 0)
        self.good, self.answers, self.bad = 0, {}, []
        self.good_of = dict.fromkeys(self.keys, 0)
        self.stop = threading.Event()
        with server.connect() as c:
            for key in self.keys:
                wire.wait_until(lambda: self.write(c, key, 1), "all is written")
        work = [(self.read, (n,)) for n in range(readers)]
        work += [(self.keep_writing, ()), (self.read_many, (self.keys[-10:],)), (self.read_many, (self.keys[:12],))]
        self.threads = [threading.Thread(target=fn, args=args, daemon=True) for fn, args in work]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.progress(200)
        return self

    def __exit__(self, kind, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        if kind is None:
            self.test.assertEqual(self.bad, [])
            self.test.assertLessEqual(set(self.answers), {200, 404, 502, 503, 504})

    def progress(self, more):
        goal = self.good + more
        wire.wait_until(lambda: self.good >= goal or self.bad, f"{more} more good answers")

    def write(self, connection, key, version):
        body = value(key, version)
        answer = connection.request(b"PUT /set/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                                    % (key.encode(), len(body)) + body)
        if answer.status == 200:
            self.confirmed[key] = version
        return answer.status == 200

    def keep_writing(self):
        with self.server.connect() as c:
            version = 1
            while not self.stop.is_set():
                version += 1
                for key in self.keys:
                    self.write(c, key, version)

    def note(self, key, newest, body):
        theirs, version, _ = body.split(b":", 2)
        if theirs.decode() != key or body != value(key, int(version)):
            self.bad.append((key, body[:40]))
        elif self.ordered and int(version) < newest:
            self.bad.append((key, newest, int(version)))
        self.good += 1
        self.good_of[key] += 1

    def read(self, n):
        with self.server.connect() as c:
            while not self.stop.is_set():
                n = (n + 7) % KEYS
                key = self.keys[n]
                newest = self.confirmed[key]
                answer = c.get(f"/get/{key}")
                self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
                if answer.status == 200:
                    self.note(key, newest, answer.body)
                elif answer.status == 404 and self.ordered:
                    self.bad.append((key, "not found"))

    def read_many(self, keys):
        with self.server.connect() as c:
            while not self.stop.is_set():
                newest = [self.confirmed[key] for key in keys]
                answer = c.get("/mget/" + ",".join(keys))
                self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
                if answer.status != 200:
                    continue
                for key, least, body in zip(keys, newest, answer.body.split(b"\n")):
                    if body != b"-":
                        self.note(key, least, body)
                    elif self.ordered:
                        self.bad.append((key, "not found by mget"))


@unittest.skipUnless(common.HAVE_REDIS, "redis-server is not installed")
class RealCluster(unittest.TestCase):
    def serve(self, cluster, *options, timeout=3000):
        return wire.Server(common.PROGRAM, "--redis", cluster.url, "--redis-timeout", str(timeout), *options)

    def test_calls(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        with self.serve(cluster) as server, server.connect() as c:
            self.assertEqual(c.request(wire.post("/command/MSET,a,1,b,2", b"")).body,
                             b"DZ_E_REPLY CROSSSLOT Keys in request don't hash to the same slot 0")
            self.assertEqual(c.request(wire.post("/command/MSET,{t}a,1,{t}b,2", b"")).body, b"ok OK 0")
            self.assertEqual(c.get("/mget/{t}a,nobody,{t}b").body, b"1\n-\n2\n")
            for n in range(20):
                self.assertEqual(c.request(wire.post(f"/incr/n{n}", b"")).body, b"1")
            keys = ",".join(f"n{n}" for n in range(25))
            self.assertEqual(c.get("/mget/" + keys).body, b"1\n" * 20 + b"-\n" * 5)
            self.assertEqual(c.request(wire.post("/del/" + keys, b"")).body, b"20")
            self.assertEqual(c.request(wire.post("/command/OBJECT,ENCODING,{t}a", b"")).body, b"ok int 0")
            self.assertEqual(c.request(wire.post("/command/PING", b"")).body, b"ok PONG 0")
            self.assertEqual(stats(c)["redirects"], 0)  # the map was right
            self.assertEqual(stats(c)["connected"], 3)

    def reshard(self, *options):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        with self.serve(cluster, *options, timeout=20000) as server:
            load = Load(self, server)
            slots = sorted({keyslot(cluster.nodes[0], key) for key in load.keys})
            with load:
                for to in (*cluster.masters, cluster.masters[0]):
                    for slot in slots[::3] + [keyslot(cluster.nodes[0], "{tag}0")]:
                        cluster.move(slot, to)
                    load.progress(100)
            with server.connect() as c:
                self.assertGreater(stats(c)["redirects"], 0)
                self.assertEqual(stats(c)["waiting"], 0)
        self.assertEqual(set(load.answers), {200})  # nobody noticed

    def test_slots_that_move_under_load(self):
        self.reshard()

    def test_slots_that_move_under_load_with_the_cache_and_more_connections(self):
        self.reshard("--redis-cache", "1000000", "--redis-connections", "2")

    def test_a_master_that_is_killed_and_comes_back(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        with self.serve(cluster, timeout=1000) as server:
            load = Load(self, server)
            load.ordered = False  # it comes back empty
            with load:
                victim = cluster.masters[1]
                lost = [key for key in load.keys if cluster.owner(keyslot(cluster.nodes[0], key)) is victim]
                kept = next(key for key in load.keys if key not in lost)
                victim.kill()
                wire.wait_until(lambda: load.answers.get(503, 0) > 20, "it is missed")
                before = load.good_of[kept]
                wire.wait_until(lambda: load.good_of[kept] > before + 10, "the others go on")
                victim.start()
                cluster.wait_until_whole()
                counts = {key: load.good_of[key] for key in lost}
                wire.wait_until(lambda: all(load.good_of[key] > counts[key] for key in lost), "it is found again")

    def test_a_replica_that_takes_over(self):
        cluster = Cluster(replica=True)
        self.addCleanup(cluster.close)
        with self.serve(cluster, "--redis-cache", "1000000", timeout=1000) as server:
            load = Load(self, server)
            load.ordered = False  # what was confirmed last need not have reached the replica
            with load:
                lost = [key for key in load.keys
                        if cluster.owner(keyslot(cluster.nodes[0], key)) is cluster.nodes[0]]
                cluster.nodes[0].kill()
                counts = {key: load.good_of[key] for key in lost}
                wire.wait_until(lambda: all(load.good_of[key] > counts[key] + 5 for key in lost),
                                "the replica answers for all of its keys")


unittest.main()
