"""autocannon itself and `donmaz load` on one server: the same names, the same totals.

Installs the pinned autocannon into the folder given (npm ci); when that can't be done, the test is
reported as skipped (exit status 77)."""
import json
import os
import shutil
import subprocess
import sys
import threading

from load_support import OK, LoadTest, load_json, main

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


class Autocannon(LoadTest):
    def test_same_server_same_figures(self):
        server = self.serve_counting(lambda _: (threading.Event().wait(0.02), OK)[1])
        done = subprocess.run([TOOL, "-j", "-c", "4", "-a", "100", server.url()],
                              capture_output=True, text=True, check=True)
        theirs = json.loads(done.stdout)
        ours = load_json("-c", 4, "-a", 100, server.url()).json
        self.assertEqual(len(server.requests), 200)
        self.assertLessEqual(set(theirs), set(ours))
        for part in ("latency", "requests", "throughput"):
            self.assertLessEqual(set(theirs[part]), set(ours[part]))
        for name in ("2xx", "non2xx", "errors", "timeouts", "mismatches", "statusCodeStats", "url",
                     "connections", "pipelining"):
            self.assertEqual(ours[name], theirs[name], name)
        self.assertEqual(ours["requests"]["total"], theirs["requests"]["total"])
        self.assertEqual(ours["throughput"]["total"], theirs["throughput"]["total"])
        # autocannon counts whole milliseconds, and its own loop is part of what it measures.
        for p in ("p2_5", "p50"):
            self.assertGreaterEqual(ours["latency"][p], 20)
            self.assertLess(ours["latency"][p], theirs["latency"][p] + 10)


if __name__ == "__main__":
    TOOL = install(sys.argv.pop(1))
    main()
