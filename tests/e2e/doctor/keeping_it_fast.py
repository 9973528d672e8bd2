"""Reference 3's method with our tools: the slow server's listener is named, the fast one's time is
in the network layer, for Node and for donmaz.

usage: keeping_it_fast.py DONMAZ NODE SOURCE_ROOT SERVER
"""
import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

DONMAZ, NODE, ROOT, SERVER = map(os.path.abspath, sys.argv[1:5])
LOAD = ("--load", "-c100 -d1500ms /seed/v1")
SLOW_LOAD = ("--load", "-c100 -d3 /seed/v1")  # it takes requests to get slow
PEER = os.path.join(ROOT, "peers", "node", "keeping-it-fast")
LISTENER_JS = os.path.join(PEER, "etagger-slow.mjs")
LISTENER_C = os.path.join(ROOT, "examples", "keeping-it-fast", "etagger.c")
NETWORK_NODE = {"writev", "write", "writeBuffer", "writeUtf8String", "writeLatin1String",
                "writevGeneric", "writeGeneric", "read", "accept", "shutdown", "close"}
# What donmaz talks to the network with, and the C library's names where a sanitizer has its own.
NETWORK_C = {"dz_send", "dz_sendmsg", "dz_recv", "epoll_wait", "epoll_pwait2", "accept4",
             "shutdown", "close", "send", "sendto", "sendmsg", "recv", "recvfrom"}


# AddressSanitizer keeps what was freed, 256 MB of it: doctor would rightly see memory grow.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"


def line_of(path, text):
    with open(path, encoding="utf-8") as f:
        return next(n for n, line in enumerate(f, 1) if text in line)


def node(state):
    return [NODE, os.path.join(PEER, state + ".mjs"), "--port", "0"]


def donmaz(state, *more):
    return [SERVER, "--state", state, "--port", "0", *more]


class KeepingItFast(unittest.TestCase):
    def report(self, tool, *args):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            run = subprocess.run([DONMAZ, tool, "-o", "-", "--json", out, *args], check=False,
                                 capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            with open(out, encoding="utf-8") as f:
                return json.load(f), run.stderr

    def own_time(self, *args):
        """Microseconds by function of the program itself. What the kernel does counts for the
        function that called it, and what the C library's syscall() does for its caller: both do
        nothing of their own accord. (The page shows the same with its kernel button off.)"""
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.txt")
            run = subprocess.run([DONMAZ, "flame", "-o", "-", "-n", "0", "--collapsed", out, *args],
                                 check=False, capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            own = collections.Counter()
            with open(out, encoding="utf-8") as f:
                for line in f:
                    stack, count = line.rsplit(" ", 1)
                    frames = [g for g in stack.split(";") if not g.endswith("_[k]")]
                    names = [g.split(" ")[0] for g in frames if g != "syscall"]
                    own[names[-1] if names else "(none)"] += int(count)
            return own

    def test_doctor_names_the_listener_of_the_slow_node_server(self):
        report, _ = self.report("doctor", *SLOW_LOAD, "--", *node("slow"))
        self.assertEqual(report["verdict"], "blocked-loop")
        culprit = report["culprit"]
        self.assertEqual((culprit["function"], os.path.realpath(culprit["file"]), culprit["line"]),
                         ("rememberEtag", LISTENER_JS,
                          line_of(LISTENER_JS, "function rememberEtag")))
        self.assertIn("GET /seed/v1", [r["route"] for r in report["loops"][0]["routes"]])

    def test_doctor_names_the_listener_of_the_slow_donmaz_server(self):
        for _ in range(4):
            report, err = self.report("doctor", *SLOW_LOAD, "--",
                                      *donmaz("slow", "--rescue-after", "0"))
            if report["demand"]["running"] >= 0.4:
                break  # else it got no core, and took too few requests to get slow
        self.assertEqual(report["verdict"], "blocked-loop")
        culprit = report["culprit"]
        self.assertEqual(culprit["function"], "remember_etag")
        self.assertTrue(culprit["file"].endswith("examples/keeping-it-fast/etagger.c"), culprit)
        self.assertEqual(culprit["line"], line_of(LISTENER_C, "void remember_etag("))
        # And the server itself says who adds them.
        self.assertIn(f"etagger.c:{line_of(LISTENER_C, '(1) always true') + 1})", err)

    def test_the_mended_servers_are_not_blocked(self):
        for command in (node("fixed"), donmaz("fixed", "--rescue-after", "0")):
            report, _ = self.report("doctor", *LOAD, "--", *command)
            self.assertNotEqual(report["verdict"], "blocked-loop", report["evidence"])

    def test_the_hottest_function_of_the_slow_node_server_is_the_listener(self):
        report, _ = self.report("flame", "--no-native", *SLOW_LOAD, "--", *node("slow"))
        apps = [f for f in report["hottest"] if f["kind"] == "app"]
        self.assertEqual((apps[0]["name"], os.path.realpath(apps[0]["file"])),
                         ("rememberEtag", LISTENER_JS))

    def test_the_hottest_frames_of_the_fast_servers_are_the_network_layer(self):
        report, _ = self.report("flame", "--no-native", *LOAD, "--", *node("fast"))
        frames = [f for f in report["hottest"] if f["kind"] != "gc"]
        self.assertIn(frames[0]["name"], NETWORK_NODE)
        own = self.own_time(*LOAD, "--", *donmaz("fast"))
        self.assertIn(own.most_common(1)[0][0], NETWORK_C, own.most_common(5))


unittest.main(argv=["keeping_it_fast.py", *sys.argv[5:]], verbosity=2)
