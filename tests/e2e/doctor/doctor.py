"""donmaz doctor from outside: how it survives what targets do.

usage: doctor.py DONMAZ NODE SERVERS.mjs
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DONMAZ, NODE, SERVERS = map(os.path.abspath, sys.argv[1:4])
LOAD = ("--load", "-c5 -d1500ms /")


@contextlib.contextmanager
def running(command):
    """A server that is ended whatever happens."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield server
    finally:
        server.kill()
        server.communicate()


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("timed out")
        time.sleep(0.01)


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.env = dict(os.environ, TMPDIR=self.folder.name, DONMAZ_TEST_SECRET="never-shown-1234")

    def script(self, text, name="s.js"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def doctor(self, *args, code=0):
        run = subprocess.run([DONMAZ, "doctor", *args], capture_output=True, text=True,
                             env=self.env, cwd=self.folder.name, timeout=120, check=False)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def report(self, *args):
        return json.loads(self.doctor("-o", "-", "--json", "-", *args).stdout)

    def test_report_has_verdict_evidence_recommendations_and_series(self):
        report = self.report(*LOAD, "--", NODE, SERVERS, "hello")
        self.assertIn("verdict", report)
        self.assertTrue(report["evidence"] and report["recommendations"])
        loop = report["series"]["loops"][0]
        self.assertIn("delay_ms", loop["columns"])
        self.assertGreater(len(loop["rows"]), 20)
        self.assertGreater(len(report["series"]["processes"][0]["rows"]), 20)
        self.assertGreater(report["load"]["requests"], 0)

    def test_on_port_runs_a_shell_command_with_the_port(self):
        seen = os.path.join(self.folder.name, "port")
        command = f"echo $PORT > {seen}; {DONMAZ} load -c2 -d3 http://127.0.0.1:$PORT/"
        report = self.report("--on-port", command, "--", NODE, SERVERS, "hello")
        with open(seen, encoding="ascii") as f:
            self.assertGreater(int(f.read()), 0)
        self.assertNotEqual(report["verdict"], "not-enough-data")

    def test_cluster_and_workers_each_have_their_series(self):
        report = self.report(*LOAD, "--", NODE, SERVERS, "in_worker_cluster")
        self.assertEqual({s["role"] for s in report["series"]["loops"]}, {"main", "cluster"})
        report = self.report(*LOAD, "--", NODE, SERVERS, "worker_pool_light")
        self.assertEqual({s["role"] for s in report["series"]["loops"]}, {"main", "worker"})

    def test_neither_environment_nor_request_bodies_are_in_the_page(self):
        page = os.path.join(self.folder.name, "page.html")
        self.doctor("-o", page, "--load", "-c2 -d1200ms -m POST -b body-text-5678 /?q=query-9012",
                    "--", NODE, SERVERS, "hello")
        with open(page, encoding="utf-8") as f:
            text = f.read()
        for secret in ("never-shown-1234", "body-text-5678", "query-9012"):
            self.assertNotIn(secret, text)

    def test_leaves_no_files_and_no_processes(self):
        pids = os.path.join(self.folder.name, "pids")
        script = self.script("const c = require('cluster'); require('fs').appendFileSync("
                             f"{json.dumps(pids)}, process.pid + '\\n'); if (c.isPrimary) c.fork();"
                             "else { process.on('SIGTERM', () => {});"
                             "require('http').createServer((q, r) => r.end()).listen(0); }")
        self.doctor("-o", "-", *LOAD, "--", NODE, script)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["pids", "s.js"])
        with open(pids, encoding="ascii") as f:
            for pid in map(int, f):
                wait_for(lambda p=pid: not os.path.exists(f"/proc/{p}"))

    def test_ctrl_c_still_writes_the_report(self):
        page = os.path.join(self.folder.name, "page.html")
        script = self.script("require('http').createServer((q, r) => r.end()).listen(0, () => "
                             "require('fs').writeFileSync('up', ''))")
        run = subprocess.Popen([DONMAZ, "doctor", "-o", page, "--load", "-c2 -d60 /", "--", NODE,
                                script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=self.env, cwd=self.folder.name)
        wait_for(lambda: os.path.exists(os.path.join(self.folder.name, "up")))
        time.sleep(2.5)  # more than the least that is judged
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertTrue(os.path.exists(page))

    def test_a_busy_script_without_a_port_is_judged_too(self):
        script = self.script("function grind() { const end = Date.now() + 30000; "
                             "while (Date.now() < end) Math.sqrt(end); }\ngrind();")
        report = self.report("--duration", "5s", "--", NODE, script)
        self.assertEqual(report["verdict"], "blocked-loop")
        self.assertIn(report["culprit"]["function"], ("grind", "(anonymous)"))

    def test_too_short_a_run_says_how_much_is_needed(self):
        report = self.report("--load", "-c2 -d200ms /", "--", NODE, SERVERS, "hello")
        self.assertEqual(report["verdict"], "not-enough-data")
        self.assertIn("at least 1 s", report["evidence"][0])

    def test_an_early_exit_is_named(self):
        run = self.doctor(*LOAD, "--", NODE, "-e", "process.exit(7)", code=3)
        self.assertIn("exit status 7", run.stderr)
        run = self.doctor(*LOAD, "--listen-timeout", "500ms", "--", "sleep", "60", code=3)
        self.assertIn("did not listen", run.stderr)
        self.doctor("--", "/nonexistent", code=3)

    def test_a_crash_under_load_still_gives_a_report(self):
        script = self.script("let n = 0; require('http').createServer((q, r) => { if (++n > 200) "
                             "process.abort(); r.end(); }).listen(0)")
        run = self.doctor("-o", "-", "--load", "-c2 -d5 /", "--", NODE, script)
        self.assertIn("ended by itself", run.stdout)

    def test_megabytes_of_output_do_no_harm(self):
        script = self.script("console.log('x'.repeat(3e6)); require('http').createServer((q, r) =>"
                             " { console.log('y'.repeat(1e4)); r.end(); }).listen(0)")
        self.assertIn("verdict", self.report(*LOAD, "--", NODE, script))

    def test_fail_if_judges(self):
        self.doctor("-o", "-", "--fail-if", "any", "--load", "-c5 -d1500ms /", "--", NODE, SERVERS,
                    "fib_in_handler", code=1)
        self.assertIn("no verdict", self.doctor("--fail-if", "bad", "--", "true", code=2).stderr)

    def test_a_running_process_is_examined_and_left_as_it_was(self):
        script = self.script("require('http').createServer((q, r) => r.end()).listen(0, '127.0.0.1',"
                             " function () { console.log(this.address().port); })")
        with running([NODE, "--inspect-port=0", script]) as server:
            server.stdout.readline()
            report = self.report("--pid", str(server.pid), *LOAD)
            self.assertEqual(report["series"]["loops"][0]["pid"], server.pid)
            self.assertGreater(len(report["series"]["loops"][0]["rows"]), 20)
            self.assertIsNone(server.poll())


unittest.main(argv=["doctor.py"], verbosity=2)
