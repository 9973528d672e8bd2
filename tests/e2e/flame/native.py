"""donmaz flame on machine code: how stacks are followed, on the CPU and off it, and what becomes of
processes that end, fork, run another program, live elsewhere, or have a thousand threads.

usage: native.py DONMAZ CALLS-OMIT (its other builds lie beside it)
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from processes import again_on_a_busy_machine, wait_until  # noqa: E402

DONMAZ, OMIT = map(os.path.abspath, sys.argv[1:3])
INNER = ["alpha", "beta", "gamma_", "burns"]
NOBODY = 65534


def paranoid():
    try:
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return 99


ROOT = os.geteuid() == 0
ALLOWED = ROOT or paranoid() <= 2
KERNEL = ROOT or paranoid() <= 1


def build(kind):
    return os.path.join(os.path.dirname(OMIT), f"calls-{kind}")


def bare(frame):
    """A collapsed frame without its place and kind."""
    return frame.split(" ")[0].removesuffix("_[k]")


@unittest.skipUnless(ALLOWED, "perf events are barred here (kernel.perf_event_paranoid)")
class Native(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o777)

    def flame(self, *args, code=0, **options):
        run = subprocess.run([DONMAZ, "flame", "-o", "-", *args], capture_output=True, text=True,
                             cwd=self.folder, timeout=120, check=False, **options)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def stacks(self, *args, **options):
        """[(frames, microseconds)], and what was said."""
        out = os.path.join(self.folder, "out.txt")
        run = self.flame("-n", "0", "--collapsed", out, *args, **options)
        with open(out, encoding="utf-8") as f:
            lines = [line.rstrip("\n").rsplit(" ", 1) for line in f]
        return [([bare(f) for f in stack.split(";")], int(count)) for stack, count in lines], run

    def share(self, stacks, wanted):
        """Of the time, that in stacks which hold `wanted` in a row."""
        def holds(frames):
            return any(frames[i:i + len(wanted)] == wanted for i in range(len(frames)))
        total = sum(count for _, count in stacks)
        return sum(count for frames, count in stacks if holds(frames)) / total

    @contextlib.contextmanager
    def running(self, *command, **options):
        program = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
        try:
            yield program
        finally:
            program.kill()
            program.communicate()

    def test_code_without_frame_pointers_is_followed_by_its_unwind_tables(self):
        for kind in ("omit", "fp", "static-pie", "debug-frame"):
            with self.subTest(kind):
                stacks, _ = self.stacks("--", build(kind), "burn", "150")
                self.assertGreater(self.share(stacks, ["main", *INNER]), 0.9)

    def test_frame_pointers_alone_suffice_where_they_are_kept(self):
        stacks, _ = self.stacks("--unwind", "fp", "--", build("fp"), "burn", "150")
        self.assertGreater(self.share(stacks, INNER), 0.9)
        stacks, _ = self.stacks("--unwind", "fp", "--", build("omit"), "burn", "150")
        self.assertLess(self.share(stacks, INNER), 0.1)  # which is why it is not the default

    def test_code_that_says_nothing_of_its_frames_is_said_to_be_cut(self):
        _, run = self.stacks("--", build("bare"), "burn", "150")
        self.assertIn("could not be followed to their end", run.stderr)

    def test_a_stripped_program_is_named_and_the_missing_file_too(self):
        stacks, run = self.stacks("--", build("stripped"), "burn", "150")
        self.assertGreater(self.share(stacks, ["[calls-stripped]"]), 0.9)
        self.assertIn("is stripped and its separate debug file is missing", run.stderr)

    def test_signal_handlers_are_followed_into_what_they_interrupted(self):
        stacks, _ = self.stacks("--", build("omit"), "signal", "150")
        self.assertGreater(self.share(stacks, INNER), 0.9)
        self.assertGreater(self.share(stacks, ["main"]), 0.9)

    def test_stacks_deeper_than_the_copy_are_said_to_be_cut_and_dwarf_copies_more(self):
        _, run = self.stacks("--", build("omit"), "deep", "600", "150")
        self.assertIn("deeper than what was copied", run.stderr)
        self.assertIn("--unwind dwarf", run.stderr)
        stacks, run = self.stacks("--unwind", "dwarf", "--", build("omit"), "deep", "600", "150")
        self.assertNotIn("deeper than what was copied", run.stderr)
        self.assertGreater(self.share(stacks, ["main"]), 0.9)

    def test_a_child_that_runs_another_program_is_followed(self):
        stacks, _ = self.stacks("--", build("omit"), "fork", "150")
        self.assertGreater(self.share(stacks, ["main", *INNER]), 0.9)

    @again_on_a_busy_machine  # a while in which others take the core has no sample
    def test_a_program_deleted_while_it_runs_keeps_its_names(self):
        copy = shutil.copy(build("omit"), os.path.join(self.folder, "gone"))
        with self.running(copy, "burn", "60000") as program:
            os.unlink(copy)
            stacks, _ = self.stacks("--pid", str(program.pid), "-d", "500ms")
        self.assertGreater(self.share(stacks, INNER), 0.9)

    @unittest.skipUnless(ROOT, "another root directory takes root")
    @again_on_a_busy_machine  # a while in which others take the core has no sample
    def test_a_program_in_another_root_keeps_its_names(self):
        root = tempfile.mkdtemp(dir=self.folder)
        shutil.copy(build("static-pie"), os.path.join(root, "inside"))
        stacks, _ = self.stacks("--", shutil.which("chroot"), root, "/inside", "burn", "150")
        self.assertGreater(self.share(stacks, INNER), 0.8)
        with self.running(shutil.which("chroot"), root, "/inside", "burn", "60000") as program:
            def is_inside():
                return os.readlink(f"/proc/{program.pid}/exe").endswith("inside")
            wait_until(is_inside, "it runs in the other root")
            stacks, _ = self.stacks("--pid", str(program.pid), "-d", "500ms")
        self.assertGreater(self.share(stacks, INNER), 0.9)

    @again_on_a_busy_machine  # a while in which others take the core has no sample
    def test_a_thousand_threads_are_attached_to(self):
        with self.running(build("omit"), "threads", "1000", "60000") as program:
            wait_until(lambda: len(os.listdir(f"/proc/{program.pid}/task")) >= 1001, "its threads")
            stacks, run = self.stacks("--pid", str(program.pid), "-d", "500ms")
        self.assertGreater(self.share(stacks, ["burns"]), 0.8)
        self.assertNotIn("for want of file descriptors", run.stderr)

    def test_threads_left_out_for_want_of_descriptors_are_counted(self):
        with self.running(build("omit"), "threads", "400", "60000") as program:
            wait_until(lambda: len(os.listdir(f"/proc/{program.pid}/task")) >= 401, "its threads")
            run = subprocess.run(["bash", "-c", 'ulimit -n 620; exec "$0" "$@"', DONMAZ, "flame",
                                  "-o", "-", "-n", "3", "--pid", str(program.pid), "-d", "300ms"],
                                 capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("for want of file descriptors", run.stderr)
        self.assertIn("ulimit -n", run.stderr)

    def test_a_process_that_ends_while_it_is_watched_yields_its_graph(self):
        milliseconds = iter(("300", "1000", "3000", "10000"))  # at first it may be gone before it is seen

        @again_on_a_busy_machine
        def watched():
            with self.running(build("omit"), "burn", next(milliseconds, "10000")) as program:
                # Its parent, this test, does not ask how it ended: the tool ends all the same, by far
                # before the time it was given.
                stacks, _ = self.stacks("--pid", str(program.pid), "-d", "600s")
            self.assertGreater(self.share(stacks, INNER), 0.8)
        watched()

    @unittest.skipUnless(KERNEL, "kernel.perf_event_paranoid bars the kernel's switches")
    def test_off_cpu_shows_where_threads_wait_and_for_how_long(self):
        stacks, _ = self.stacks("--off-cpu", "--", build("omit"), "wait", "50", "10")
        inner = [*INNER[:-1], "waits"]
        self.assertGreater(self.share(stacks, inner), 0.8)
        waited = sum(count for frames, count in stacks if "waits" in frames)
        self.assertGreaterEqual(waited, 50 * 10_000)  # a sleep is never shorter than asked for
        out = os.path.join(self.folder, "out.json")
        self.flame("--off-cpu", "--json", out, "--", build("omit"), "wait", "2", "10")
        with open(out, encoding="utf-8") as f:
            self.assertTrue(json.load(f)["off_cpu"])

    @unittest.skipUnless(KERNEL, "kernel.perf_event_paranoid bars the kernel's switches")
    def test_off_cpu_leaves_out_what_runs(self):
        stacks, _ = self.stacks("--off-cpu", "--", build("omit"), "fork", "200")
        self.assertEqual(self.share(stacks, ["burns"]), 0)
        self.assertGreater(self.share(stacks, ["main"]), 0.8)  # waits for its child

    @unittest.skipUnless(ROOT and paranoid() == 2, "takes root, to become somebody without rights")
    def test_without_rights_it_says_what_would_allow_more(self):
        tool = shutil.copy(DONMAZ, self.folder)
        os.chmod(tool, 0o755)
        program = shutil.copy(build("omit"), self.folder)
        for args, wanted in (
                (["burn", "150"], "no kernel code: kernel.perf_event_paranoid is 2; to see it: "
                                  "sudo sysctl kernel.perf_event_paranoid=1"),
                (["wait", "10", "10"], "how long threads wait is shown, but not where")):
            run = subprocess.run(
                [tool, "flame", "-o", "-", "--collapsed", "-",
                 *(["--off-cpu"] if args[0] == "wait" else []), "--", program, *args],
                capture_output=True, text=True, cwd=self.folder, timeout=60, check=False,
                user=NOBODY, group=NOBODY, extra_groups=[])
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(wanted, run.stderr)
            self.assertIn("burns" if args[0] == "burn" else "its stack may not be seen", run.stdout)

    @unittest.skipUnless(ROOT, "another user takes root")
    def test_another_users_process_is_no_crash(self):
        tool = shutil.copy(DONMAZ, self.folder)
        os.chmod(tool, 0o755)
        with self.running(build("omit"), "burn", "60000") as program:
            run = subprocess.run([tool, "flame", "-o", "-", "--pid", str(program.pid), "-d", "200ms"],
                                 capture_output=True, text=True, cwd=self.folder, timeout=60,
                                 check=False, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("belongs to another user", run.stderr)


unittest.main(argv=["native.py"], verbosity=2)
