#!/usr/bin/env python3
"""Compares what donmaz doctor estimates with what the concurrency experiment measures.

usage: prescription.py DONMAZ [--seconds N] [--measured RUN.json] [--keep RUN.json]

Runs doctor on peers/node's plain server (equal work: 6 ms and 200 ms of CPU time), which has it
estimate one process, a cluster, workers and both; then measures these four by the experiment's
mixed phase, warmed up for 2 s and shortened to N (20). Which connections a cluster's primary deals
to which process is chance: a run is compared with the estimate for the deal that its rates show.
Fails when an estimated p99 of a route is off by more than a factor of 1.5, or a rate by more than
1.35. Needs `peers/install node` and a machine with nothing else to do; takes two minutes.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEER = os.path.join(ROOT, "peers", "node")
EXPERIMENT = os.path.join(ROOT, "experiments", "concurrency-equal-work.yaml")
MODES = {"plain": "node plain", "cluster": "node cluster", "workers": "node workers",
         "cluster + workers": "node cluster+workers"}
P99_FACTOR, RATE_FACTOR = 1.5, 1.35


def estimates(donmaz):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.json")
        subprocess.run([donmaz, "doctor", "-o", "-", "--json", out, "--load", "-d8 /fast@2 /slow@2",
                        "--", "bin/node", "--disable-warning=ExperimentalWarning",
                        "concurrency.mjs", "--mode", "plain", "--work", "burn", "--port", "0"],
                       cwd=PEER, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, NODE_ENV="production"), timeout=120)
        with open(out, encoding="utf-8") as f:
            report = json.load(f)
    if not report["prescription"]:
        sys.exit(f"doctor gave no estimates: {report['verdict']}: {report['evidence']}")
    for work in report["prescription"]["work"]:
        print(f"measured by doctor: {work['route']} {work['service_ms']:.1f} ms of the loop, "
              f"deviation {work['deviation_ms']:.1f}, {work['connections']:.0f} connections")
    if report["demand"]["others"] > 0.2:
        print(f"warning: other programs took {report['demand']['others']:.1f} cores meanwhile")
    by_mode = {}
    for e in report["prescription"]["estimates"]:
        routes = {r["route"].split()[1]: r for r in e["routes"]}
        by_mode.setdefault(e["name"], []).append((e["deal"], routes))
    return by_mode


def shortened(seconds):
    """The experiment with its mixed phase alone."""
    with open(EXPERIMENT, encoding="utf-8") as f:
        text = f.read()
    phases = text.index("phases:"), text.index("# Every stack must give")
    expectations = text.index("# What donmaz claims")
    rows = "\n".join(line for line in text[phases[1]:expectations].split("\n")
                     if "fast-only" not in line)
    return (text[:phases[0]].replace("root: ..", f"root: {ROOT}").replace("startups: 3",
                                                                           "startups: 1")
            + "phases:\n  - name: mixed\n    warmup: 2s\n"
            f"    duration: {seconds}s\n    endpoints:\n"
            "      - {path: /fast, connections: 2, work_ms: 6}\n"
            "      - {path: /slow, connections: 2, work_ms: 200}\n\n" + rows)


def measured(donmaz, options):
    path = options.measured
    with tempfile.TemporaryDirectory() as folder:
        if not path:
            path = options.keep or os.path.join(folder, "run.json")
            experiment = os.path.join(folder, "mixed.yaml")
            with open(experiment, "w", encoding="utf-8") as f:
                f.write(shortened(options.seconds))
            subprocess.run([donmaz, "lab", "run", experiment, "--only", "node *", "--json", path],
                           check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as f:
            run = json.load(f)
    result = {}
    for stack in run["stacks"]:
        for phase in stack.get("phases", []):
            if phase["name"] == "mixed":
                result[stack["name"]] = {e["path"]: e for e in phase["endpoints"]}
    return result


def factor(a, b):
    return max(a / b, b / a) if a > 0 and b > 0 else float("inf")


def nearest(estimates_of_mode, real):
    """The deal that took place: its rates are nearest."""
    def off(candidate):
        return max(factor(candidate[1][path]["rps"], real[path]["rps"]) for path in real)
    return min(estimates_of_mode, key=off)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("donmaz", type=os.path.abspath)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--measured", help="a run of the experiment made before")
    parser.add_argument("--keep", help="keep the run here")
    options = parser.parse_args()
    estimated, real = estimates(options.donmaz), measured(options.donmaz, options)
    print(f"\n{'':19}{'route':7}{'p99 ms':>9}{'measured':>10}{'factor':>8}"
          f"{'req/s':>9}{'measured':>10}{'factor':>8}")
    bad = 0
    for mode, stack in MODES.items():
        deal, estimate = nearest(estimated[mode], real[stack])
        for path in ("/fast", "/slow"):
            e, r = estimate[path], real[stack][path]
            p99, rate = factor(e["p99_ms"], r["p99_ms"]), factor(e["rps"], r["rps"])
            wrong = p99 > P99_FACTOR or rate > RATE_FACTOR
            bad += wrong
            print(f"{mode:19}{path:7}{e['p99_ms']:9.1f}{r['p99_ms']:10.1f}{p99:8.2f}"
                  f"{e['rps']:9.1f}{r['rps']:10.1f}{rate:8.2f}{'  BAD' if wrong else ''}"
                  f"{'  dealt unevenly' if deal == 'uneven' else ''}")
    print(f"\n{8 - bad} of 8 within a factor of {P99_FACTOR} (p99) and {RATE_FACTOR} (rate)")
    sys.exit(bad > 0)


main()
