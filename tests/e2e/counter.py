#!/usr/bin/env python3
"""examples/counter: what several workers add to one number is lost without atomic operations."""
import json
import os
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from wire import BUILD, DEADLINE, Server  # noqa: E402


class Counter(unittest.TestCase):
    def count(self, server, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}",
                                    timeout=DEADLINE) as response:
            return json.load(response)

    def check(self, kind):
        with Server("examples/counter", "--pool", kind) as server:
            got = self.count(server, "/atomic")
            self.assertEqual(got, {"kind": "atomic", "expected": 4000000, "counted": 4000000})
            # How many are lost is chance, even whether any is. (That they can be is what
            # unit/pool/counters shows.)
            got = self.count(server, "/plain")
            self.assertEqual(got["kind"], "plain")
            self.assertGreater(got["counted"], 0)
            self.assertLessEqual(got["counted"], 4000000)

    def test_an_unknown_kind_is_told(self):
        result = subprocess.run([os.path.join(BUILD, "examples/counter"), "--port", "0", "--pool", "x"],
                                capture_output=True, timeout=DEADLINE, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(b"--pool", result.stderr)

    def test_threads(self):
        self.check("threads")

    def test_processes(self):
        self.check("processes")


if __name__ == "__main__":
    unittest.main()
