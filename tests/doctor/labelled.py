#!/usr/bin/env python3
"""Examines servers with known faults with donmaz doctor and prints the confusion matrix.

usage: labelled.py DONMAZ OUTSIDE SERVICE NODE [all | CASE...]

OUTSIDE and SERVICE are the programs made from outside.c and service.c. Without names it leaves out
those that resemble others, and with DONMAZ_SANITIZE (other than "none") takes a dozen. Fails when
more than one verdict in twelve is wrong.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LOAD = "-c10 -d2 /"

# case: (verdict, load or None, function that must be named or None)
NODE_CASES = {
    "hello": ("healthy", LOAD, None),
    "json": ("healthy", LOAD, None),
    "quick_wait": ("healthy", LOAD, None),
    "rare_hiccup": ("healthy", LOAD, None),
    "bounded_cache": ("healthy", "-c10 -d3 /", None),
    "worker_pool_light": ("healthy", "-c2 -d2 /", None),
    "fib_in_handler": ("blocked-loop", LOAD, "fib"),
    "big_json": ("blocked-loop", LOAD, "bigJson"),
    "timer_blocks": ("blocked-loop", LOAD, "burn"),
    "sync_child": ("blocked-loop", "-c5 -d2 /", "shellOut"),
    "listener_pile": ("blocked-loop", LOAD, "burn"),
    "regex": ("blocked-loop", LOAD, "validate"),
    "one_in_five": ("blocked-loop", LOAD, "burn"),
    "hangs": ("blocked-loop", "-c10 -d3 /", "hang"),
    "in_worker_cluster": ("blocked-loop", LOAD, "fib"),
    "cluster_of_five": ("too-few-cores", "-c40 -d2 /", None),
    "many_workers": ("too-few-cores", "-c20 -d2 /", None),
    "crypto_pool": ("too-few-cores", "-c20 -d2 /", None),
    "live_heap": ("garbage-collection", "-c4 -d3 /", None),
    "survivors": ("garbage-collection", "-c4 -d3 /", None),
    "leak_objects": ("memory-growth", "-c10 -d3 /", None),
    "leak_buffers": ("memory-growth", "-c10 -d3 /", None),
    "leak_closures": ("memory-growth", "-c10 -d3 /", None),
    "slow_timer": ("waiting-for-io", LOAD, None),
    "slow_upstream": ("waiting-for-io", LOAD, None),
    "two_waits": ("waiting-for-io", "-c5 -d2 /", None),
    "cheap_many": ("overloaded", "-c100 -d2 /", None),
    "cheap_async": ("overloaded", "-c80 -d2 /", None),
    "idle": ("not-enough-data", None, None),
}
OUTSIDE_CASES = {
    "hello": ("healthy", LOAD, None),
    "burn": ("blocked-loop", LOAD, "burn_cpu"),
    "cheap": ("overloaded", "-c100 -d2 /", None),
    "spread": ("overloaded", "-c30 -d2 /", None),
    "leak": ("memory-growth", "-c10 -d3 /", None),
}

OFF = ["--rescue-after", "0"]
# case: (arguments, verdict, load, function)
SERVICE_CASES = {
    "hello": ([], "healthy", LOAD, None),
    "quick_wait": ([], "healthy", LOAD, None),
    "rescued": ([], "healthy", "-c1 -d2 /", None),
    "bounded_cache": ([], "healthy", "-c10 -d3 /", None),
    "burn": (OFF, "blocked-loop", LOAD, "burn_cpu"),
    "one_in_five": (OFF, "blocked-loop", LOAD, "burn_cpu"),
    "sync_call": (OFF, "blocked-loop", LOAD, None),
    "rare_long": (OFF, "blocked-loop", LOAD, "burn_cpu"),
    "burn_4ms": ([*OFF, "--processes", "5"], "too-few-cores", "-c40 -d2 /", None),
    "burn rescued": ([], "too-few-cores", "-c40 -d2 /", None),
    "leak": ([], "memory-growth", "-c10 -d3 /", None),
    "slow_upstream": ([], "waiting-for-io", LOAD, None),
    "two_waits": (OFF, "waiting-for-io", "-c5 -d2 /", None),
    "cheap": (OFF, "overloaded", "-c100 -d2 /", None),
}

# The usual run: each kind of fault and of server, without those that resemble others.
USUAL = {
    "node": {"hello", "rare_hiccup", "worker_pool_light", "fib_in_handler", "big_json",
             "timer_blocks", "sync_child", "hangs", "in_worker_cluster", "cluster_of_five",
             "crypto_pool", "live_heap", "leak_objects", "slow_timer", "cheap_many", "idle"},
    "C": {"burn", "cheap", "leak"},
    "donmaz": {"rescued", "burn", "sync_call", "burn rescued", "slow_upstream", "cheap"},
}
# With a sanitizer in donmaz: it looks for faults of memory and of threads in doctor and in the
# server, and these come up with one server or two a verdict.
SANITIZED = {
    "node": {"hello", "fib_in_handler", "cluster_of_five", "live_heap", "leak_objects",
             "slow_timer", "cheap_many", "idle"},
    "C": {"burn", "leak"},
    "donmaz": {"hello", "burn", "slow_upstream"},
}

BUSY = 0.5  # cores taken by others, from which on a wrong verdict proves nothing
SKIPPED = 77


def chosen(cases, only):
    """The cases to run, and how to call them."""
    if only == ["all"]:
        return cases, "all servers"
    if only:
        return [case for case in cases if set(case[0].split()) & set(only)], "those named"
    sanitized = os.environ.get("DONMAZ_SANITIZE", "none") != "none"
    names = {f"{kind} {name}" for kind, some in (SANITIZED if sanitized else USUAL).items()
             for name in some}
    return ([case for case in cases if case[0] in names],
            "one or two a verdict, as this build has a sanitizer" if sanitized
            else "without those that resemble others")


def examine(donmaz, command, load):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.json")
        args = [donmaz, "doctor", "--html", "-", "--json", out]
        args += ["--load", load] if load else ["--duration", "1.5s"]
        run = subprocess.run(args + ["--"] + command, capture_output=True, text=True, timeout=120,
                             check=False)
        if run.returncode != 0:
            return {"verdict": f"exit {run.returncode}", "evidence": [run.stderr[-500:]],
                    "culprit": None}
        with open(out, encoding="utf-8") as f:
            return json.load(f)


def others(report):
    """How many cores other programs took meanwhile."""
    return report.get("demand", {}).get("others", 0)


def examine_fairly(donmaz, command, load, is_right):
    """A report, and whether it may be judged: what others do to a target is no fault of the verdict,
    so a wrong one on a busy machine is tried again, and if that does not get quiet, left out."""
    for _ in range(3):
        report = examine(donmaz, command, load)
        if is_right(report) or others(report) < BUSY:
            return report, True
    return report, False


def print_matrix(pairs):
    names = sorted({name for pair in pairs for name in pair})
    width = max(map(len, names))
    print("\nconfusion matrix: rows are the truth, columns the verdict")
    for i, name in enumerate(names):
        print(f"  {i}: {name}")
    print(" " * width, *(f"{i:>3}" for i in range(len(names))))
    for truth in names:
        counts = [sum(1 for t, v in pairs if t == truth and v == name) for name in names]
        print(truth.ljust(width), *(f"{c or '.':>3}" for c in counts))


def main():
    donmaz, outside, service, node, *only = sys.argv[1:]
    cases = [("node " + name, [node, os.path.join(HERE, "servers.mjs"), name], *case)
             for name, case in NODE_CASES.items()]
    cases += [("C " + name, [outside, name], *case) for name, case in OUTSIDE_CASES.items()]
    cases += [("donmaz " + name, [service, "--port", "0", "--case", name.split()[0], *args], *case)
              for name, (args, *case) in SERVICE_CASES.items()]
    known = len(cases)
    cases, which = chosen(cases, only)
    allowed = max(1, len(cases) // 12)  # 22 of 24
    print(f"{len(cases)} of {known} servers: {which}; at most {allowed} may be judged wrong",
          flush=True)
    pairs, wrong, unnamed, unfair = [], 0, 0, 0
    for label, command, truth, load, function in cases:
        report, fair = examine_fairly(
            donmaz, command, load, lambda it, truth=truth, function=function:
            it["verdict"] == truth and function in (None, (it.get("culprit") or {}).get("function")))
        verdict = report["verdict"]
        culprit = (report.get("culprit") or {}).get("function")
        if not fair:
            unfair += 1
            print(f"---  {label:24} {verdict:20} not judged: other programs took "
                  f"{others(report):.1f} cores each time", flush=True)
            continue
        pairs.append((truth, verdict))
        right = verdict == truth
        named = function is None or culprit == function
        wrong += not right
        unnamed += not named
        mark = "ok  " if right and named else "BAD "
        print(f"{mark} {label:24} {verdict:20}" + (f" names {culprit}" if function else ""),
              flush=True)
        if not (right and named):
            print(f"     expected {truth}" + (f", naming {function}" if function else ""))
            for line in report["evidence"]:
                print("     -", line)
    print_matrix(pairs)
    print(f"\n{len(pairs) - wrong} passed, {wrong} failed of {len(pairs)} verdicts; "
          f"{unnamed} functions not named")
    if wrong > allowed or unnamed > allowed:
        sys.exit(1)
    if unfair > len(cases) // 4:
        print(f"skipped: {unfair} of {len(cases)} could not be judged on a machine so busy")
        sys.exit(SKIPPED)


main()
