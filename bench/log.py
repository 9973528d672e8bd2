#!/usr/bin/env python3
"""Our logger and pino in turns on the same file: lines per CPU second, and the ratio.

    bench/log.py build-release/bench/bench-log [ROUNDS]

Needs `peers/install log-node`."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ours = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../peers/log-node")
node = os.path.join(peer, "node_modules/.bin/node")
commands = {"donmaz": [ours], "pino": [node, os.path.join(peer, "bench.js")]}
lines = {"donmaz": 1000000, "pino": 200000}
rates = {name: [] for name in commands}

with tempfile.TemporaryDirectory() as folder:
    for _ in range(rounds):
        for name, command in commands.items():
            path = os.path.join(folder, name)
            out = subprocess.run(command + [path, str(lines[name])], check=True,
                                 capture_output=True).stdout
            with open(path, "rb") as log:
                written = sum(block.count(b"\n") for block in iter(lambda: log.read(1 << 20), b""))
            os.unlink(path)
            if written != lines[name]:
                sys.exit(f"{name} wrote {written} lines of {lines[name]}")
            rates[name].append(json.loads(out)["lines_per_cpu_s"])

for name, values in rates.items():
    print(f"{name:8} {statistics.median(values):>10,.0f} lines per CPU second (median of {rounds})")
ratios = [a / b for a, b in zip(rates["donmaz"], rates["pino"])]
print(f"ratio    {statistics.median(ratios):.1f} (lowest {min(ratios):.1f})")
