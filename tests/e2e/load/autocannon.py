"""autocannon itself and `donmaz load` on one server: the same names, the same totals.

Installs the pinned autocannon into the folder given (npm ci); when that can't be done, the test is
reported as skipped (exit status 77)."""
import json
import os
import shutil
import subprocess
import sys
import threading
import time

from load_support import OK, LoadTest, again_on_a_busy_machine, load_json, main

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))


def install(folder):
    tool = os.path.join(folder, "node_modules", ".bin", "autocannon")
    if os.path.exists(tool):
        return tool
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, "autocannon_package", name), folder)
    try:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True,
                       timeout=120, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"autocannon could not be installed: {error}")
        sys.exit(SKIPPED)
    return tool


def read(result):
    """What a script written for autocannon's JSON makes of it."""
    done = subprocess.run(["node", os.path.join(HERE, "summary.mjs")], input=json.dumps(result),
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Autocannon(LoadTest):
    DELAY_MS = 20

    def both(self, server, *args):
        done = subprocess.run([TOOL, "-j", *args, server.url()], capture_output=True, text=True,
                              check=True)
        return json.loads(done.stdout), load_json(*args, server.url()).json

    @again_on_a_busy_machine
    def test_same_server_same_figures(self):
        # What the server itself adds to its delay, so that a busy machine is not held against us.
        late = []

        def answer(_):
            began = time.monotonic()
            threading.Event().wait(self.DELAY_MS / 1000)
            late.append((time.monotonic() - began) * 1000)
            return OK

        server = self.serve_counting(answer)
        theirs, ours = self.both(server, "-c", "4", "-a", "100")
        self.assertEqual(len(server.requests), 200)
        self.assertLessEqual(set(theirs), set(ours))
        for part in ("latency", "requests", "throughput"):
            self.assertLessEqual(set(theirs[part]), set(ours[part]))
        for name in ("2xx", "non2xx", "errors", "timeouts", "mismatches", "statusCodeStats", "url",
                     "connections", "pipelining"):
            self.assertEqual(ours[name], theirs[name], name)
        self.assertEqual(ours["requests"]["total"], theirs["2xx"])
        self.assertEqual(ours["throughput"]["total"], theirs["2xx"] * len(OK))
        self.compare_by_script(theirs, ours, 100)
        # autocannon counts whole milliseconds, and its own loop is part of what it measures.
        truth = {"theirs": sorted(late[:100]), "ours": sorted(late[100:])}
        for p, rank in (("p2_5", 2), ("p50", 49)):
            self.assertGreaterEqual(ours["latency"][p], truth["ours"][rank])
            self.assertGreaterEqual(theirs["latency"][p] + 1, truth["theirs"][rank])
            over = ours["latency"][p] - truth["ours"][rank]
            self.assertLess(over, theirs["latency"][p] - truth["theirs"][rank] + 10)

    def test_failing_responses_are_counted_alike(self):
        server = self.serve_counting(lambda _: OK.replace(b"200", b"500"))
        theirs, ours = self.both(server, "-c", "3", "-a", "60", "-m", "POST", "-b", "x")
        self.compare_by_script(theirs, ours, 60)
        self.assertEqual(ours["non2xx"], 60)

    def compare_by_script(self, theirs, ours, total):
        theirs, ours = read(theirs), read(ours)
        for name in ("url", "connections", "pipelining", "byClass", "byStatus", "failed", "non2xx"):
            self.assertEqual(ours[name], theirs[name], name)
        # autocannon takes these totals from its samples, and sometimes loses the last few.
        for name in ("requests", "sent", "bytes"):
            self.assertGreaterEqual(ours[name], theirs[name], name)
        self.assertEqual((ours["requests"], ours["sent"]), (total, total))


if __name__ == "__main__":
    TOOL = install(sys.argv.pop(1))
    main()
