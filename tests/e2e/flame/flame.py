"""donmaz flame from outside: what it starts, reads, writes, and leaves behind.

usage: flame.py DONMAZ NODE
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from processes import children, cpu_seconds, wait_until  # noqa: E402

DONMAZ, NODE = map(os.path.abspath, sys.argv[1:3])

# By CPU time, so that other programs take nothing away; and the time is the function's own: it asks
# for it now and then only, since asking costs more than the work.
BUSY = """
function inner(ms) { let n = 0; const end = process.cpuUsage().user + ms * 1000;
  while (process.cpuUsage().user < end) for (let i = 0; i < 1e5; i++) n += Math.sqrt(i); return n; }
function outer() { inner(300); }
outer();
"""
CLUSTER = """
const cluster = require('cluster'), { Worker, isMainThread } = require('worker_threads');
function spin(ms) { const end = Date.now() + ms; let n = 0; while (Date.now() < end) n += Math.sqrt(n); return n; }
function turns(work, then) { let n = 40; (function turn() { work(); if (--n) setTimeout(turn, 5); else then(); })(); }
if (!isMainThread) turns(function inWorker() { spin(20); }, () => {});
else if (!cluster.isPrimary) turns(function inFork() { spin(20); }, () => process.exit(0));
else {
  const all = [cluster.fork(), new Worker(__filename)].map((one) => new Promise((end) => one.on('exit', end)));
  all.push(new Promise((end) => turns(function inPrimary() { spin(20); }, end)));
  Promise.all(all).then(() => process.exit(0));
}
"""

# One worker ends by itself, the other is ended by its parent, which then goes on: after more than three
# seconds, since what was profiled is fetched each second and the last piece is lost.
SHORT_LIVED = """
const { Worker, isMainThread, workerData } = require('worker_threads');
function spin(ms) { const end = Date.now() + ms; let n = 0; while (Date.now() < end) n += Math.sqrt(n); return n; }
function endsByItself() { spin(300); }
function endedByItsParent() { for (;;) { spin(10); Atomics.add(workerData, 0, 1); } }
function goesOn() { spin(200); }
if (isMainThread) {
  const first = new Worker(__filename, { argv: ['itself'] });
  first.on('exit', () => {
    const turns = new Int32Array(new SharedArrayBuffer(4));
    const second = new Worker(__filename, { argv: ['parent'], workerData: turns });
    const look = setInterval(() => { if (Atomics.load(turns, 0) >= 350) second.terminate(); }, 20);
    second.on('exit', () => { clearInterval(look); goesOn(); });
  });
} else if (process.argv[2] === 'itself') endsByItself(); else endedByItsParent();
"""


@contextlib.contextmanager
def running(command):
    """A server that is ended whatever happens."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield server
    finally:
        server.kill()
        server.communicate()


def wait_used(tool, seconds):
    """Until what the tool started has used so much CPU time from here on."""
    guard = wait_until(lambda: children(tool), "its guard")[0]
    program = wait_until(lambda: children(guard), "its program")[0]
    before = cpu_seconds(program)
    wait_until(lambda: cpu_seconds(program) >= before + seconds, f"{seconds} s of CPU time")


class Flame(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.env = dict(os.environ, TMPDIR=self.folder.name)
        self.env.pop("NODE_OPTIONS", None)

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return path

    def flame(self, *args, code=0):
        run = subprocess.run([DONMAZ, "flame", *args], capture_output=True, text=True, env=self.env,
                             cwd=self.folder.name, timeout=120, check=False)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def report(self, *args):
        out = self.path("report.json")
        self.flame("-o", "-", "--json", out, *args)
        with open(out, encoding="utf-8") as f:
            return json.load(f)

    def names(self, report):
        return [f["name"] for f in report["hottest"]]

    def test_names_the_function_with_its_file_and_line(self):
        script = self.path("busy.js", BUSY)
        report = self.report("--no-native", "-n", "1000", "--", NODE, script)
        inner = next(f for f in report["hottest"] if f["name"] == "inner")
        self.assertEqual((inner["file"], inner["line"], inner["kind"]),
                         (os.path.realpath(script), 2, "app"))
        outer = next(f for f in report["hottest"] if f["name"] == "outer")
        self.assertGreaterEqual(outer["total_ms"], inner["total_ms"] * 0.9)

    def test_leaves_nothing_behind(self):
        script = self.path("busy.js", BUSY + "console.error(`pid ${process.pid}.`);")
        run = self.flame("-o", "-", "--", NODE, script)
        pid = re.search(r"pid (\d+)\.", run.stderr)[1]
        self.assertEqual(os.listdir(self.folder.name), ["busy.js"])
        self.assertFalse(os.path.exists(f"/tmp/perf-{pid}.map"))  # where Node writes it, whatever TMPDIR

    def test_cluster_and_worker_threads_each_have_their_stacks(self):
        report = self.report("--no-native", "-n", "100", "--", NODE, self.path("all.js", CLUSTER))
        for name in ("inWorker", "inPrimary", "inFork"):
            self.assertIn(name, self.names(report))

    def test_worker_threads_that_end_early_keep_their_profile(self):
        report = self.report("--no-native", "-n", "100", "--", NODE,
                             self.path("short.js", SHORT_LIVED))
        total = {f["name"]: f["total_ms"] for f in report["hottest"]}
        self.assertLessEqual({"endsByItself", "endedByItsParent", "goesOn"}, set(total))
        self.assertTrue(any("ended from outside" in note for note in report["notes"]), report)

    def test_esm_scripts_and_the_users_node_options_stay_as_they_are(self):
        script = self.path("m.mjs", "import fs from 'node:fs'; function work() { const end = "
                                    "Date.now() + 200; while (Date.now() < end); }\nwork(); "
                                    "if (process.title !== 'mine') process.exit(9);")
        self.env["NODE_OPTIONS"] = "--title=mine"
        report = self.report("--no-native", "-n", "1000", "--", NODE, script)
        self.assertIn("work", self.names(report))

    def test_interrupting_a_script_that_never_returns_yields_a_graph(self):
        script = self.path("hang.js", "function forever() { for (;;) Math.sqrt(2); }\n"
                                      "require('fs').writeFileSync('started', ''); forever();")
        page = self.path("page.html")
        run = subprocess.Popen([DONMAZ, "flame", "-o", page, "--json", "-", "--", NODE, script],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=self.env, cwd=self.folder.name)
        wait_until(lambda: os.path.exists(self.path("started")), "the script runs")
        wait_used(run.pid, 0.5)  # more than Node took before
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        report = json.loads(out)
        self.assertEqual(report["hottest"][0]["name"], "forever")
        self.assertTrue(any("ended early" in note for note in report["notes"]))
        self.assertTrue(os.path.exists(page))

    def test_attaches_to_a_running_process_and_closes_its_inspector_again(self):
        script = self.path("server.js", "function tick() { const end = Date.now() + 20; while "
                                        "(Date.now() < end); setTimeout(tick, 5); }\ntick();\n"
                                        "console.log('up'); setInterval(() => {}, 1000);")
        with running([NODE, "--inspect-port=0", script]) as server:
            self.assertEqual(server.stdout.readline(), "up\n")
            for _ in range(5):  # a second in which others take the core may pass without a sample
                report = self.report("-n", "500", "--pid", str(server.pid), "--duration", "1s")
                if "tick" in self.names(report):
                    break
            self.assertIn("tick", self.names(report), report["notes"])
            self.assertIsNone(server.poll())  # it lives on

            def closed():
                with open(f"/proc/{server.pid}/net/tcp", encoding="ascii") as f:
                    listening = {line.split()[9] for line in f if line.split()[3] == "0A"}
                for fd in os.listdir(f"/proc/{server.pid}/fd"):
                    try:
                        link = os.readlink(f"/proc/{server.pid}/fd/{fd}")
                    except OSError:
                        continue
                    if link.startswith("socket:[") and link[8:-1] in listening:
                        return False
                return True
            wait_until(closed, "the inspector is closed")

    def test_a_target_that_ends_with_an_error_is_no_error_of_ours(self):
        script = self.path("throws.js", BUSY + "throw new Error('x');")
        self.assertIn("inner", self.names(self.report("--no-native", "--", NODE, script)))

    def test_formats_convert_into_each_other(self):
        stacks = self.path("in.txt", "main;work /srv/a.js:3;read_[k] 600\nmain 400\n")
        profile, scope, collapsed = (self.path(n) for n in ("a.cpuprofile", "a.json", "b.txt"))
        pprof = self.path("a.pb")
        self.flame("-o", "-", "--from", stacks, "--cpuprofile", profile, "--speedscope", scope,
                   "--pprof", pprof)
        self.flame("-o", "-", "--from", profile, "--collapsed", collapsed)
        with open(collapsed, encoding="utf-8") as f:
            counts = [int(line.rsplit(" ", 1)[1]) for line in f]
        self.assertEqual(sorted(counts), [400, 600])
        with open(scope, encoding="utf-8") as f:
            data = json.load(f)
        self.assertEqual(data["$schema"],
                         "https://www.speedscope.app/file-format-schema.json")
        one = data["profiles"][0]
        self.assertEqual(len(one["samples"]), len(one["weights"]))
        self.assertEqual(sum(one["weights"]), one["endValue"])
        frames = data["shared"]["frames"]
        stack = [frames[i]["name"] for i in max(one["samples"], key=len)]
        self.assertEqual(stack, ["main", "work", "read"])
        with open(pprof, "rb") as f:
            self.assertIn(b"work", f.read())

    def test_unusable_arguments_and_files_say_why(self):
        self.assertIn("--pid", self.flame(code=2).stderr)
        self.assertIn("no such", self.flame("--from", "/nonexistent", code=3).stderr.lower())
        bad = self.path("bad.txt", "not a profile\n")
        self.assertIn("line 1", self.flame("--from", bad, code=3).stderr)
        self.assertIn("could not be started", self.flame("--", "/nonexistent", code=3).stderr)

    def test_a_full_disk_is_reported(self):
        stacks = self.path("in.txt", "a;b 5\n")
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        run = self.flame("--from", stacks, "-o", "/dev/full", code=1)
        self.assertIn("space", run.stderr)


unittest.main(argv=["flame.py"], verbosity=2)
