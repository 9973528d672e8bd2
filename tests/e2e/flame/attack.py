"""donmaz flame where things go wrong: targets that end at once, run another program or are replaced
while they run, disks without room, impatient users; and what belongs to others stays as it is.

usage: attack.py DONMAZ CALLS-OMIT [NODE]
"""
import contextlib
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from processes import again_on_a_busy_machine, children, cpu_seconds, wait_until  # noqa: E402

DONMAZ, OMIT = map(os.path.abspath, sys.argv[1:3])
NODE = sys.argv[3] if len(sys.argv) > 3 else None
ROOT = os.geteuid() == 0


def paranoid():
    try:
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return 99


ALLOWED = ROOT or paranoid() <= 2
ADDON_LIKE = """
const zlib = require('zlib');
const data = Buffer.alloc(1 << 20);
for (let i = 0; i < data.length; i++) data[i] = (i * i) >> 7;
function packs() { return zlib.deflateSync(data, { level: 9 }).length; }
function counts() { let n = 0; for (let i = 0; i < 2e6; i++) n += Math.sqrt(i); return n; }
function work() { const end = process.cpuUsage().user + 900000; while (process.cpuUsage().user < end) { packs(); counts(); } }
work();
const used = process.cpuUsage();
require('fs').writeFileSync('used', String((used.user + used.system) / 1000));
"""
TICKS = """
function burn(ms) { const end = Date.now() + ms; let n = 0; while (Date.now() < end) n += Math.sqrt(n); return n; }
(function tick() { burn(20); setTimeout(tick, 2); })();
console.log('up');
"""


def wait_used(tool, seconds):
    """Until what the tool started has used so much CPU time from here on."""
    guard = wait_until(lambda: children(tool), "its guard")[0]
    program = wait_until(lambda: children(guard), "its program")[0]
    before = cpu_seconds(program)
    wait_until(lambda: cpu_seconds(program) >= before + seconds, f"{seconds} s of CPU time")


def taken(pid):
    """Until the process has no signal that it has not taken yet; it may have ended by it."""
    def none_waits():
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                fields = dict(line.split(":", 1) for line in file if line.startswith(("SigPnd", "ShdPnd")))
        except (FileNotFoundError, ProcessLookupError):
            return True
        return not any(int(value, 16) & 1 << signal.SIGINT - 1 for value in fields.values())
    wait_until(none_waits, "the signal is taken")


class Attack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.env = dict(os.environ, TMPDIR=self.folder)
        self.env.pop("NODE_OPTIONS", None)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return path

    def flame(self, *args, code=0, before=(), **options):
        run = subprocess.run([*before, DONMAZ, "flame", *args], capture_output=True, text=True,
                             cwd=self.folder, env=self.env, timeout=120, check=False, **options)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def stacks(self, *args):
        out = self.path("out.txt")
        self.flame("-o", "-", "-n", "0", "--collapsed", out, *args)
        return self.read_stacks(out)

    def read_stacks(self, path):
        with open(path, encoding="utf-8") as f:
            lines = [line.rstrip("\n").rsplit(" ", 1) for line in f]
        return [(stack.split(";"), int(count)) for stack, count in lines]

    def share(self, stacks, test):
        return sum(n for frames, n in stacks if test(frames)) / sum(n for _, n in stacks)

    @contextlib.contextmanager
    def running(self, *command, **options):
        program = subprocess.Popen(command, stdout=subprocess.PIPE, env=self.env, cwd=self.folder,
                                   **options)
        try:
            yield program
        finally:
            program.kill()
            program.communicate()

    def test_a_target_that_ends_at_once_is_said_to_have_done_so(self):
        run = self.flame("-o", "-", "--", "/bin/true", code=1) if not ALLOWED else None
        if ALLOWED:  # its loader may be seen on the CPU, or not
            run = subprocess.run([DONMAZ, "flame", "-o", "-", "--", "/bin/true"], text=True,
                                 capture_output=True, env=self.env, timeout=60, check=False)
            self.assertIn(run.returncode, (0, 1), run.stderr)
        if run.returncode == 1:
            self.assertIn("ended too soon", run.stderr)

    @unittest.skipUnless(ALLOWED, "perf events are barred here (kernel.perf_event_paranoid)")
    def test_a_target_that_becomes_another_program_is_named_by_that(self):
        stacks = self.stacks("--", "sh", "-c", f"exec sh -c 'exec {OMIT} burn 200'")
        self.assertGreater(self.share(stacks, lambda f: "burns" in f and "main" in f), 0.6)

    @unittest.skipUnless(ALLOWED, "perf events are barred here (kernel.perf_event_paranoid)")
    def test_a_program_replaced_while_it_runs_keeps_its_names(self):
        program, out = shutil.copy(OMIT, self.path("program")), self.path("out.txt")
        tool = subprocess.Popen([DONMAZ, "flame", "-o", "-", "-n", "0", "--collapsed", out, "--",
                                 program, "burn", "600"], cwd=self.folder, env=self.env,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: tool.poll() is None and tool.kill())

        def held():  # from when it is seen to be mapped; read into memory at the first sample
            with contextlib.suppress(OSError), open(f"/proc/{tool.pid}/maps", encoding="utf-8") as f:
                if program in f.read():
                    return True
            for fd in glob.glob(f"/proc/{tool.pid}/fd/*"):
                with contextlib.suppress(OSError):
                    if os.readlink(fd) == program:
                        return True
            return tool.poll() is not None
        wait_until(held, "the program is held")
        shutil.copy("/bin/ls", self.path("other"))
        os.rename(self.path("other"), program)
        _, err = tool.communicate(timeout=60)
        self.assertEqual(tool.returncode, 0, err)
        self.assertGreater(self.share(self.read_stacks(out), lambda f: "burns" in f), 0.8)

    @unittest.skipUnless(ROOT, "what was replaced before can be had with rights only")
    @again_on_a_busy_machine  # a while in which others take the core has no sample
    def test_a_program_replaced_before_attaching_keeps_its_names(self):
        program = shutil.copy(OMIT, self.path("program"))
        with self.running(program, "burn", "60000") as target:
            wait_until(lambda: os.readlink(f"/proc/{target.pid}/exe") == program, "the program runs")
            shutil.copy("/bin/ls", self.path("other"))
            os.rename(self.path("other"), program)
            stacks = self.stacks("--pid", str(target.pid), "-d", "300ms")
        self.assertGreater(self.share(stacks, lambda f: "burns" in f), 0.8)

    def test_files_that_are_no_profiles_are_refused_with_the_reason(self):
        for text, why in (("PERFILE2........", "perf script"), ("\n \n", "empty"),
                          ("{\"a\": 1}", "no \"nodes\""), ("\x1f\x8b junk", "line 1")):
            run = self.flame("-o", "-", "--from", self.path("in", text), code=3)
            self.assertIn(why, run.stderr)
        run = self.flame("-o", "-", "--from", self.folder, code=3)
        self.assertIn("directory", run.stderr.lower())

    def test_perf_script_cut_off_anywhere_is_read_up_to_there_or_refused(self):
        whole = "".join(f"prog 1/2 [000] {i}.5: 1000000 cpu-clock:u: \n\t 7f{i} f{i}+0x1 (/bin/x)\n\n"
                        for i in range(3))
        for cut in range(1, len(whole), 7):
            run = subprocess.run([DONMAZ, "flame", "-o", "-", "-n", "0", "--from",
                                  self.path("in", whole[:cut])], capture_output=True, text=True,
                                 env=self.env, timeout=60, check=False)
            self.assertIn(run.returncode, (0, 3), run.stderr)

    @unittest.skipUnless(ROOT, "a small disk takes root")
    def test_a_full_disk_leaves_no_half_a_report(self):
        source = self.path("in.txt", "".join(f"main;f{i} 5\n" for i in range(20000)))
        os.mkdir(self.path("small"))
        script = ('mount -t tmpfs -o size=64k small small || exit 77; "$0" flame --from "$1" -n 0 '
                  '-o small/page.html --pprof small/p --cpuprofile small/c; echo "code $?"; ls small')
        run = subprocess.run(["unshare", "-m", "sh", "-c", script, DONMAZ, source], text=True,
                             capture_output=True, cwd=self.folder, timeout=60, check=False)
        if run.returncode == 77 or "unshare" in run.stderr:
            self.skipTest("this place allows no mounting: " + run.stderr.strip())
        self.assertEqual(run.stdout.split(), ["code", "1"], run.stderr)
        self.assertIn("space", run.stderr)

    @unittest.skipUnless(NODE, "no Node here")
    def test_interrupting_twice_still_writes_and_a_third_time_ends_at_once(self):
        script = self.path("hang.js", "require('fs').writeFileSync('started', ''); for (;;) Math.sqrt(2);")
        for times in (2, 3):
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.path("started"))
            run = subprocess.Popen([DONMAZ, "flame", "-o", self.path("page.html"), "-n", "0", "--",
                                    NODE, script], stderr=subprocess.PIPE, text=True, env=self.env,
                                   cwd=self.folder)
            self.addCleanup(lambda tool=run: tool.poll() is None and tool.kill())
            wait_until(lambda: os.path.exists(self.path("started")), "the script runs")
            wait_used(run.pid, 0.3)  # something must be there to be sampled
            for _ in range(times):
                run.send_signal(signal.SIGINT)
                taken(run.pid)  # two at once would be one
            _, err = run.communicate(timeout=60)
            if times == 2:
                self.assertEqual(run.returncode, 0, err)
                self.assertTrue(os.path.exists(self.path("page.html")))
            else:
                self.assertIn(run.returncode, (0, 1), err)  # 0: it was done before

    @unittest.skipUnless(NODE and ALLOWED, "takes Node and perf events")
    @again_on_a_busy_machine  # a while in which others take the core has no sample
    def test_a_perf_map_of_ones_own_is_read_and_left_alone(self):
        script = self.path("ticks.js", TICKS + "process.on('SIGUSR1', () => process.exit(9));")
        with self.running(NODE, "--perf-basic-prof", "--interpreted-frames-native-stack",
                          script) as node:
            self.assertEqual(node.stdout.readline(), b"up\n")
            own = f"/tmp/perf-{node.pid}.map"
            self.addCleanup(lambda: os.path.exists(own) and os.remove(own))
            stacks = self.stacks("--no-inspect", "--pid", str(node.pid), "-d", "1s")
            self.assertTrue(os.path.exists(own))
            self.assertIsNone(node.poll())  # nobody asked it to open its inspector
        named = [frame for frames, _ in stacks for frame in frames if "burn " in frame]
        self.assertTrue(named, stacks[:3])
        where = re.compile(re.escape(script) + r":2(:\d+)?$")  # without the column up to Node 18
        self.assertTrue(all(where.search(frame) for frame in named), named[:3])

    @unittest.skipUnless(NODE and ALLOWED, "takes Node and perf events")
    def test_native_work_and_javascript_are_on_one_line_with_one_total(self):
        script, out, report = self.path("addon.js", ADDON_LIKE), self.path("o.txt"), self.path("r.json")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.flame("-o", "-", "-n", "1000", "--collapsed", out, "--json", report, "--", NODE, script)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        stacks = self.read_stacks(out)

        def called_by(frames, name):
            """What runs in machine code below a function."""
            at = [i for i, f in enumerate(frames) if f.lstrip("*~").startswith(f"{name} ")]
            return frames[at[-1] + 1:] if at else []
        total = sum(n for _, n in stacks)
        packs = sum(n for f, n in stacks if called_by(f, "packs"))
        # zlib's own functions, below Node's, below ours: in one stack each.
        deep = sum(n for f, n in stacks if any("deflate" in one or "libz" in one or "longest_match" in one
                                               for one in called_by(f, "packs")))
        self.assertGreater(packs, 0.2 * total)
        self.assertGreater(deep, 0.5 * packs)
        self.assertGreater(self.share(stacks, lambda f: f[-1].lstrip("*~").startswith("counts ")), 0.02)
        # One total: what the kernel says the program used, neither missing nor counted twice.
        with open(report, encoding="utf-8") as f:
            seen = json.load(f)["total_ms"]
        with open(self.path("used"), encoding="ascii") as f:
            used = float(f.read())
        most = sum(getattr(after, k) - getattr(before, k) for k in ("ru_utime", "ru_stime")) * 1000
        self.assertAlmostEqual(total / 1000, seen, delta=seen * 0.02)
        self.assertGreater(seen, used * 0.75)
        self.assertLess(seen, most * 1.1)


unittest.main(argv=["attack.py"], verbosity=2)
