"""donmaz doctor from outside: how it survives what targets do.

usage: doctor.py DONMAZ NODE SERVERS.mjs SERVICE [Doctor.TEST...]
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

DONMAZ, NODE, SERVERS, SERVICE = map(os.path.abspath, sys.argv[1:5])
LOAD = ("--load", "-c5 -d1500ms /")
SHORT = ("--load", "-c5 -d700ms /")  # where no verdict is asked for


@contextlib.contextmanager
def running(command, env=None):
    """A server that is ended whatever happens."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=env)
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


def listening(pid):
    """The process's listening TCP sockets: the address (as /proc has it) by inode."""
    found = {}
    for name in ("tcp", "tcp6"):
        with open("/proc/net/" + name, encoding="ascii") as f:
            for line in list(f)[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    found[fields[9]] = fields[1].split(":")[0]
    inodes = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}").strip("socket:[]"))
    except OSError:
        return {}
    return {inode: address for inode, address in found.items() if inode in inodes}


def listens(pid):
    return bool(listening(pid))


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
        process = report["series"]["processes"][0]
        self.assertGreater(len(process["rows"]), 20)
        self.assertTrue({"cpu", "wait", "rss", "fds", "switches"} <= set(process["columns"]))
        thread = next(t for t in report["series"]["threads"] if t["tid"] == t["pid"])
        self.assertGreater(sum(row[1] for row in thread["rows"]), 0)
        self.assertGreater(report["load"]["requests"], 0)

    def test_on_port_runs_a_shell_command_with_the_port(self):
        seen = os.path.join(self.folder.name, "port")
        command = f"echo $PORT > {seen}; {DONMAZ} load -c2 -d1500ms http://127.0.0.1:$PORT/"
        report = self.report("--on-port", command, "--", NODE, SERVERS, "hello")
        with open(seen, encoding="ascii") as f:
            self.assertGreater(int(f.read()), 0)
        self.assertNotEqual(report["verdict"], "not-enough-data")

    def test_cluster_and_workers_each_have_their_series(self):
        report = self.report(*SHORT, "--", NODE, SERVERS, "in_worker_cluster")
        self.assertEqual({s["role"] for s in report["series"]["loops"]}, {"main", "cluster"})
        report = self.report(*SHORT, "--", NODE, SERVERS, "worker_pool_light")
        self.assertEqual({s["role"] for s in report["series"]["loops"]}, {"main", "worker"})

    def test_neither_environment_nor_what_clients_send_is_in_the_report(self):
        """Page and JSON, of a program of each kind, started by us and running already."""
        page = os.path.join(self.folder.name, "page.html")
        data = os.path.join(self.folder.name, "out.json")
        secrets = ("DONMAZ_TEST_SECRET", "never-shown-1234", "body-text-5678", "query-9012",
                   "header-3456", "cookie-7890")
        load = ("--load", "-c2 -d700ms -m POST -b body-text-5678 -H X-Key=header-3456 "
                          "-H Cookie=id=cookie-7890 /?q=query-9012")
        service = [SERVICE, "--port", "0", "--case", "burn", "--rescue-after", "0"]

        def examine(*target):
            self.doctor("-o", page, "--json", data, *load, *target)
            for path in (page, data):
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                self.assertGreater(len(text), 1000)
                for secret in secrets:
                    self.assertNotIn(secret, text)
        for command in ([NODE, SERVERS, "hello"], service):
            examine("--", *command)
        with running([NODE, "--inspect-port=0", SERVERS, "hello"], self.env) as server:
            wait_for(lambda: listens(server.pid))
            examine("--pid", str(server.pid))

    def watch_ports(self, pid_of, *args):
        """Runs doctor and collects where the program listens meanwhile: address by inode."""
        seen = {}
        run = subprocess.Popen([DONMAZ, "doctor", "-o", "-", *SHORT, *args], env=self.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            while run.poll() is None:
                for pid in pid_of(run.pid):
                    seen.update(listening(pid))
                time.sleep(0.005)
            self.assertEqual(run.returncode, 0, run.stderr.read())
        finally:
            run.kill()
            run.communicate()
        return seen

    def test_the_inspector_is_on_loopback_only_and_closed_afterwards(self):
        script = self.script("require('http').createServer((q, r) => r.end()).listen(0, '0.0.0.0')")

        def node_below(pid):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                    children = [int(child) for child in f.read().split()]
                return children + [each for child in children for each in node_below(child)]
            return []
        loopback, everywhere = "0100007F", "00000000"
        seen = self.watch_ports(node_below, "--", NODE, script)
        # Its own port is open to all; beside it only the inspector's.
        self.assertEqual(sorted(seen.values()), [everywhere, loopback], seen)
        with running([NODE, "--inspect-port=0", script]) as server:
            wait_for(lambda: listens(server.pid))
            before = listening(server.pid)
            seen = self.watch_ports(lambda _: [server.pid], "--pid", str(server.pid))
            self.assertEqual(sorted(seen.values()), [everywhere, loopback], seen)
            wait_for(lambda: listening(server.pid) == before)  # it closes a moment after us
            self.assertIsNone(server.poll())
        seen = self.watch_ports(node_below, "--no-inspect", "--", NODE, script)
        self.assertEqual(list(seen.values()), [everywhere], seen)

    def test_a_donmaz_server_tells_of_itself(self):
        report = self.report(*LOAD, "--", SERVICE, "--port", "0", "--case", "burn",
                             "--rescue-after", "0")
        self.assertEqual(report["verdict"], "blocked-loop", report["evidence"])
        inside = report["inside"]
        self.assertEqual(inside["routes"][0]["route"], "GET /")
        self.assertGreater(inside["routes"][0]["cpu_ms"], 20)
        self.assertLess(inside["routes"][0]["cpu_ms"], 45)  # CPU time: the same on a busy machine
        self.assertGreater(inside["stalls"], 1)
        self.assertIn("GET /: each of", " ".join(report["evidence"]))
        if inside["requests"] >= 5:
            self.assertEqual(report["prescription"]["work"][0]["route"], "GET /")
        series = report["series"]["inside"]
        self.assertIn("delay_ms", series["loops"][0]["columns"])
        self.assertGreater(len(series["loops"][0]["rows"]), 3)
        self.assertGreater(len(series["rows"]), 3)

    def test_the_metrics_of_a_cluster_are_seen_loop_by_loop(self):
        report = self.report(*LOAD, "--", SERVICE, "--port", "0", "--case", "hello",
                             "--processes", "2", "--loops", "2")
        self.assertEqual({(s["worker"], s["loop"]) for s in report["series"]["inside"]["loops"]},
                         {(1, 0), (1, 1), (2, 0), (2, 1)})
        self.assertGreater(report["inside"]["requests"], 0)

    def test_metrics_that_the_user_opened_are_found_and_not_loaded(self):
        server = [SERVICE, "--port", "0", "--case", "hello", "--admin", "0"]
        report = self.report(*LOAD, "--", *server)
        self.assertGreater(report["inside"]["requests"], 0)
        self.assertEqual(report["load"]["non2xx"], 0)  # /metrics' own port sends on to its page
        with running(server) as running_server:
            wait_for(lambda: len(listening(running_server.pid)) == 2)
            report = self.report("--pid", str(running_server.pid), *LOAD)
            self.assertGreater(report["inside"]["requests"], 0)
            self.assertEqual(report["load"]["non2xx"], 0)
        self.env["DONMAZ_ADMIN"] = "off"
        self.assertIsNone(self.report(*LOAD, "--", *server[:-2])["inside"])

    def test_leaves_no_files_and_no_processes(self):
        pids = os.path.join(self.folder.name, "pids")
        script = self.script("const c = require('cluster'); require('fs').appendFileSync("
                             f"{json.dumps(pids)}, process.pid + '\\n'); if (c.isPrimary) c.fork();"
                             "else { process.on('SIGTERM', () => {});"
                             "require('http').createServer((q, r) => r.end()).listen(0); }")
        self.doctor("-o", "-", *SHORT, "--", NODE, script)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["pids", "s.js"])
        with open(pids, encoding="ascii") as f:
            for pid in map(int, f):
                wait_for(lambda p=pid: not os.path.exists(f"/proc/{p}"))

    def interrupt(self, *args, when, group=False):
        """Runs doctor and interrupts it once `when` holds; the page must be there."""
        page = os.path.join(self.folder.name, "page.html")
        run = subprocess.Popen([DONMAZ, "doctor", "-o", page, *args], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=self.env,
                               cwd=self.folder.name, start_new_session=True)
        try:
            wait_for(when)
            if group:  # as a terminal does: the program gets it, too
                os.killpg(run.pid, signal.SIGINT)
            else:
                run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 0, err)
        self.assertTrue(os.path.exists(page), err)
        os.unlink(page)
        return out

    def exists(self, name):
        return os.path.exists(os.path.join(self.folder.name, name))

    def test_ctrl_c_at_any_moment_still_writes_the_report(self):
        load = ("--load", "-c2 -d60 /")
        starting = self.script("require('fs').writeFileSync('starting', ''); setInterval(() => {},"
                               " 1000)", "starting.js")
        out = self.interrupt(*load, "--", NODE, starting, when=lambda: self.exists("starting"))
        self.assertIn("not enough data", out)
        serving = self.script("let n = 0; require('http').createServer((q, r) => { if (++n === 500)"
                              " require('fs').writeFileSync('served', ''); r.end(); }).listen(0)")
        for group in (False, True):
            self.interrupt(*load, "--", NODE, serving, when=lambda: self.exists("served"),
                           group=group)
            os.unlink(os.path.join(self.folder.name, "served"))
        self.interrupt("--on-port", "touch loading; sleep 60", "--", NODE, serving,
                       when=lambda: self.exists("loading"))
        # A script that never returns to its loop.
        hung = self.script("require('fs').writeFileSync('hung', ''); for (;;) Math.sqrt(2);",
                           "hung.js")
        self.interrupt("--duration", "60", "--", NODE, hung, when=lambda: self.exists("hung"))

    def test_a_busy_script_without_a_port_is_judged_too(self):
        script = self.script("function grind() { const end = Date.now() + 30000; "
                             "while (Date.now() < end) Math.sqrt(end); }\ngrind();")
        for _ in range(6):  # where others take the cores it is not busy
            report = self.report("--duration", "3s", "--", NODE, script)
            if report["verdict"] == "blocked-loop" or report["demand"]["others"] < 1:
                break
        self.assertEqual(report["verdict"], "blocked-loop", report["evidence"])
        self.assertIn(report["culprit"]["function"], ("grind", "(anonymous)"))

    def test_too_short_a_run_says_how_much_is_needed(self):
        report = self.report("--load", "-c2 -d200ms /", "--", NODE, SERVERS, "hello")
        self.assertEqual(report["verdict"], "not-enough-data")
        self.assertIn("at least 1 s", report["evidence"][0])

    def test_an_early_exit_is_named(self):
        run = self.doctor(*LOAD, "--", NODE, "-e", "process.exit(7)", code=3)
        self.assertIn("exited with status 7 before", run.stderr)
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
        self.assertIn("verdict", self.report(*SHORT, "--", NODE, script))

    def test_npm_start_is_examined_in_the_node_below_it(self):
        self.script(json.dumps({"name": "x", "version": "1.0.0",
                                "scripts": {"start": "node server.js"}}), "package.json")
        script = self.script("function work() { const end = Date.now() + 40; while (Date.now() < end"
                             "); }\nrequire('http').createServer((q, r) => { work(); r.end(); })"
                             ".listen(0)", "server.js")
        self.env["PATH"] = os.path.dirname(NODE) + os.pathsep + self.env["PATH"]
        report = self.report(*LOAD, "--", "npm", "start")
        self.assertEqual(report["verdict"], "blocked-loop")
        self.assertEqual((report["culprit"]["function"], report["culprit"]["file"]),
                         ("work", os.path.realpath(script)))

    def test_the_first_of_several_ports_is_loaded_and_all_are_named(self):
        # Both begin to listen in one turn, without an address, which would be looked up first.
        script = self.script("const h = require('http'), fs = require('fs'); const two = [0, 1].map("
                             "() => h.createServer((q, r) => r.end()).listen(0)); setImmediate(() =>"
                             " fs.writeFileSync('ports', two.map((s) => s.address().port).join(' "
                             "')));")
        for _ in range(5):  # doctor may look between the two, when others take the core
            run = self.doctor("-o", "-", "--json", "out.json", *SHORT, "--", NODE, script)
            with open(os.path.join(self.folder.name, "ports"), encoding="ascii") as f:
                ports = f.read().split()
            if "; the first is taken" in run.stderr:
                break
        for port in ports:
            self.assertIn(port, run.stderr)
        with open(os.path.join(self.folder.name, "out.json"), encoding="utf-8") as f:
            self.assertGreater(json.load(f)["load"]["requests"], 0)

    def test_a_unix_socket_is_loaded_by_on_port_with_socket_set(self):
        script = self.script("require('fs').rmSync('s.sock', { force: true }); require('http').createServer((q, r) => r.end()).listen('s.sock')")
        client = self.script("const http = require('http'), end = Date.now() + 1200; let n = 0;"
                             "(function next() { if (n > 99 && Date.now() > end) process.exit(0);"
                             "http.get({ socketPath: process.env.SOCKET, path: '/' }, (r) => { n++;"
                             "r.resume(); r.on('end', next); }); })();", "client.js")
        report = self.report("--on-port", f"{NODE} {client}", "--", NODE, script)
        self.assertGreater(report["loops"][0]["requests"], 50)
        run = self.doctor(*LOAD, "--listen-timeout", "1s", "--", NODE, script, code=3)
        self.assertIn("unix socket", run.stderr)

    def test_the_probe_tells_a_frozen_loop_from_a_slow_answer(self):
        def probe(clients, *args):
            report = self.report("--load", f"-c{clients} -d1500ms /", "--", SERVICE, "--port", "0",
                                 "--case", "burn", *args)
            return report["series"]["probe"]
        handler_ms = 30  # of CPU time
        # Others may take the cores. That makes the wait for a frozen loop longer, never shorter; and
        # from p50_ms it is taken out, so that may be nothing at all.
        frozen = probe(5, "--rescue-after", "0")
        self.assertGreater(max(took for _, took in frozen["rows"]), handler_ms)
        self.assertLess(probe(1)["p50_ms"], handler_ms)
        none = self.report("--no-probe", *SHORT, "--", SERVICE, "--port", "0")["series"]["probe"]
        self.assertEqual(none["asked"], 0)

    def test_a_running_program_that_is_not_node_is_examined(self):
        with running([SERVICE, "--port", "0", "--case", "burn", "--rescue-after", "0"]) as server:
            wait_for(lambda: listens(server.pid))
            report = self.report("--pid", str(server.pid), *LOAD)
            self.assertEqual(report["verdict"], "blocked-loop")
            self.assertIsNone(server.poll())

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

    def test_a_running_process_whose_inspector_is_to_stay_closed_is_not_signalled(self):
        script = self.script("process.on('SIGUSR1', () => process.exit(9)); require('http')"
                             ".createServer((q, r) => r.end()).listen(0, '127.0.0.1', () => console.log(1))")
        with running([NODE, script]) as server:
            server.stdout.readline()
            report = self.report("--pid", str(server.pid), "--no-inspect", *SHORT)
            self.assertEqual(report["series"]["loops"], [])
            self.assertIsNone(server.poll())


unittest.main(argv=["doctor.py", *sys.argv[5:]], verbosity=2)
