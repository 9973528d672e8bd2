#!/usr/bin/env python3
"""Reference 2: every figure of it on donmaz's pool and on Node with Piscina, in one run, in turns.

  bench/worker_pool.py BUILD_DIR [--rounds 5] [--only PART,...] [--check] [--json FILE]

All servers run from the beginning; what is measured is asked of one at a time, in turn within each
round and backwards in every other one, so that a drift of the machine meets all of them. Ratios are
taken within a round. --only: parse, copy, four, uploads, counter, warm, books, cancel, scan, dispatch.
--check: exit status 1 when a target is missed. Exit status 3: a server did
not start or answered wrongly. Without peers/node (peers/install node) only donmaz is measured."""
import argparse
import concurrent.futures
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import proc
from servers import Failed, Server

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NODE = os.path.join(TOP, "peers", "node")
UPLOADS, ATTEMPTS = 4, 5
CANCELS = 5  # a round
THREADS, PROCESSES, PISCINA = "donmaz threads", "donmaz processes", "Node + Piscina"
median = statistics.median


def note(text):
    print(text, file=sys.stderr, flush=True)


def ask(server, path):
    """The JSON that a route answers with."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read()
    except OSError as error:
        raise Failed(f"{server.name}: {path}: {error}: {server.output()}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise Failed(f"{server.name}: {path}: {response.status} {text[:200]!r}")
    return json.loads(text)


def stolen():
    """Milliseconds that the host of a virtual machine kept its cores for others."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) * 1000 / os.sysconf("SC_CLK_TCK")


def watched(server, work):
    """Runs `work` while the server watches its own loop, and an idle server another one, which shows
    what the machine does to any thread meanwhile. What it returned; the longest stall, the most CPU
    time in a turn of the loop, and the idle loop's longest stall, in ms."""
    servers = [server, server.witness] if server.witness else [server]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        stalls = [pool.submit(ask, each, "/watch") for each in servers]
        time.sleep(0.3)  # a quiet while first, so that starting to watch is not in it
        result = work()
        for each in servers:
            while not ask(each, "/watch/end")["was"]:
                pass
        got = [stall.result() for stall in stalls]
    return result, {"stall_ms": got[0]["longest_stall_ms"], "turn_ms": got[0]["turn_cpu_ms"],
                    "idle_ms": got[-1]["longest_stall_ms"]}


# --- one round of each part: (server, catalogue) -> figures ---

def parse(server, _):
    got = ask(server, "/parts/parse")
    if (got["summary"]["imported"], got["summary"]["skipped"]) != (499500, 500):
        raise Failed(f"{server.name}: wrong summary: {got}")
    return {"wall_ms": got["wall_ms"], "parse_ms": got["summary"]["parseMs"]}


def four(where):
    def part(server, _):
        if where == "pool":
            ask(server, "/copies")
        got, stall = watched(server, lambda: ask(server, f"/four/{where}"))
        return {"ms": got["ms"], **stall}
    return part


def uploads(server, catalogue):
    """Sent by a program that takes no core from the server. What was measured while the host had
    taken the cores away says nothing: it is measured again, a few times if need be."""
    for attempt in range(ATTEMPTS):
        client = subprocess.Popen([server.sender, str(server.port), "/upload", catalogue,
                                   str(UPLOADS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        client.stdout.readline()

        def send_all(running=client):
            before = stolen()
            return *running.communicate("go\n"), stolen() - before
        (output, error, taken), stall = watched(server, send_all)
        if client.returncode:
            raise Failed(f"{server.name}: {error.strip()}")
        took, *answers = output.splitlines()
        if any(json.loads(one)["imported"] != 499500 for one in answers) or len(answers) != UPLOADS:
            raise Failed(f"{server.name}: wrong summary of an upload")
        if taken == 0:
            break
    return {"ms": float(took), **stall, "again": attempt, "stolen_ms": taken}


def cancel(server, _):
    """How long a task computes on after its client has gone. All clocks are CLOCK_MONOTONIC."""
    delays = []
    for _ in range(CANCELS):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        asked = time.monotonic_ns()
        client.sendall(b"GET /burn HTTP/1.1\r\nHost: x\r\n\r\n")
        while int(ask(server, "/beat")["ns"]) < asked:
            time.sleep(0.01)
        time.sleep(0.05)
        gone = time.monotonic_ns()
        client.close()
        last, before = int(ask(server, "/beat")["ns"]), 0
        while last != before:  # until it has stopped
            time.sleep(0.1)
            before, last = last, int(ask(server, "/beat")["ns"])
        delays.append(max(0, last - gone) / 1e6)
    return {"median_ms": median(delays), "worst_ms": max(delays)}


def part(path):
    return lambda server, _: ask(server, path)


class Bench:
    def __init__(self, build, folder, rounds, only):
        self.folder, self.rounds, self.only = folder, rounds, only
        self.results, self.servers = {}, {}
        program = os.path.join(build, "bench", "bench-worker-pool")
        self.path = os.path.join(folder, "catalogue.csv")
        with open(self.path, "wb") as file:
            subprocess.run([os.path.join(build, "examples", "make-catalogue")], stdout=file,
                           check=True)
        self.sender = os.path.join(build, "bench", "upload_client")
        self.ours = [program, "--quiet", "--port", "{port}", "--catalogue", self.path]
        node = os.path.join(NODE, "bin", "node")
        self.theirs = None
        if os.access(node, os.X_OK) and os.path.isdir(os.path.join(NODE, "node_modules/piscina")):
            self.theirs = [node, os.path.join(NODE, "worker-pool", "reference.mjs"), "--port",
                           "{port}", "--catalogue", self.path]

    def start(self, name, command):
        server = Server(name, command, {"NODE_ENV": "production"})
        server.witness, server.sender = None, self.sender
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        server.start(folder, "/health", None)
        self.servers[name] = server

    def stop(self):
        for server in self.servers.values():
            server.stop()

    def measure(self, title, contenders, rounds=None, warm=0):
        """contenders: [(label, server's name, part)]."""
        if self.only and title not in self.only:
            return
        contenders = [c for c in contenders if c[1] in self.servers]
        note(title)
        for _ in range(warm):
            for _, name, run in contenders:
                run(self.servers[name], self.path)
        found = self.results[title] = {label: [] for label, _, _ in contenders}
        for number in range(rounds or self.rounds):
            for label, name, run in contenders if number % 2 == 0 else reversed(contenders):
                found[label].append(run(self.servers[name], self.path))

    def figures(self, title, label, key):
        return [one[key] for one in self.results.get(title, {}).get(label, [])]

    def ratio(self, title, label, other, key):
        """How many times `other` is of `label`, within the rounds; None without the other."""
        pairs = list(zip(self.figures(title, label, key), self.figures(title, other, key)))
        return median(b / a for a, b in pairs) if pairs else None


def run_all(bench):
    three = [THREADS, PROCESSES, PISCINA]
    for name, extra in ((THREADS, []), (PROCESSES, ["--isolation", "processes"]),
                        ("rescue off", ["--rescue-after", "0"])):
        bench.start(name, bench.ours + extra)
    if bench.theirs:
        bench.start(PISCINA, bench.theirs)
    for name in (THREADS, PROCESSES, PISCINA):
        if name in bench.servers:
            bench.servers[name].witness = bench.servers["rescue off"]

    def of(names, run):
        return [(name, name, run) for name in names]
    bench.measure("parse", of(three, parse), warm=2)
    bench.measure("copy", of(three, part("/parts/copy")))
    bench.measure("four", [("loop, donmaz", THREADS, four("loop")),
                           ("loop, donmaz, rescue off", "rescue off", four("loop")),
                           ("loop, Node", PISCINA, four("loop")),
                           ("pool, donmaz threads", THREADS, four("pool")),
                           ("pool, donmaz processes", PROCESSES, four("pool")),
                           ("pool, Node + Piscina", PISCINA, four("pool"))], warm=1)
    bench.measure("uploads", of(three, uploads), warm=1)
    bench.measure("counter", of(three, part("/parts/counter")), rounds=3)
    bench.measure("warm", of(three, part("/parts/warm")), rounds=3)
    bench.measure("books", of(three, part("/parts/books")), rounds=3, warm=1)
    bench.measure("cancel", of(three, cancel), rounds=3)
    bench.measure("scan", of([THREADS], part("/parts/scan")), rounds=3)
    if bench.only and "dispatch" not in bench.only:
        return
    bench.stop()
    bench.servers = {}
    # Waking another core costs many times what changing threads on one core does, and where the
    # kernel puts threads changes from second to second. So the places are fixed, and each is its
    # own figure.
    for cores in ("one", "two"):
        bench.start(f"{THREADS}, {cores}", bench.ours + ["--cores", cores])
        bench.start(f"{PROCESSES}, {cores}",
                    bench.ours + ["--cores", cores, "--isolation", "processes"])
    if bench.theirs:
        bench.start(f"{PISCINA}, one", ["taskset", "-c", "0"] + bench.theirs)
        bench.start(f"{PISCINA}, anywhere", bench.theirs)
    bench.measure("dispatch", of(list(bench.servers), part("/parts/dispatch")), rounds=3)


def table(title, columns, rows):
    print(f"\n{title}")
    rows = [[f"{cell:.3f}" if isinstance(cell, float) and cell < 100 else
             f"{cell:,.0f}" if isinstance(cell, (int, float)) else cell for cell in row]
            for row in rows]
    widths = [max(len(str(row[i])) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        print("  " + "  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))).rstrip())


def part_table(bench, key, heading, columns):
    if key in bench.results:
        table(heading, ["", *columns], [[label, *[median(one[c] for one in found) for c in columns]]
                                        for label, found in bench.results[key].items()])


def print_tables(bench):
    for key, heading, columns in (
            ("parse", "Validating the catalogue on a warm worker, ms", ["wall_ms", "parse_ms"]),
            ("copy", "Handing it over, ms the loop is busy, and bytes the sender keeps",
             ["copy_ms", "copy_left", "transfer_ms", "transfer_left"]),
            ("counter", "Four workers add a million each", ["plain", "atomic"]),
            ("warm", "50 tasks, ms", ["new_worker_each_ms", "warm_ms"]),
            ("books", "The 499,500 books themselves, ms: in all, parsing, bringing them back",
             ["total_ms", "parse_ms", "back_ms"]),
            ("scan", "Scanning rows and fields, GB/s on one core", ["scan_gb_s", "memchr_gb_s"])):
        part_table(bench, key, heading, columns)
    for key, heading in (("four", "Four catalogues at once"),
                         ("uploads", "Four uploads at once, over HTTP")):
        if key not in bench.results:
            continue
        # A stall is the loop's own doing, which shows in the CPU time of its turns, or the kernel
        # ran somebody else, which an idle loop in another process feels as well.
        table(heading, ["", "ms", "longest stall", "worst round", "CPU time of a turn, worst",
                        "idle loop meanwhile", "worst"],
              [[label, median(one["ms"] for one in found), median(one["stall_ms"] for one in found),
                max(one["stall_ms"] for one in found), max(one["turn_ms"] for one in found),
                median(one["idle_ms"] for one in found), max(one["idle_ms"] for one in found)]
               for label, found in bench.results[key].items()])
        again = sum(one.get("again", 0) for found in bench.results[key].values() for one in found)
        if again:
            print(f"  {again} rounds were measured again: the host had taken the cores away meanwhile")
    if "cancel" in bench.results:
        table("An abandoned task computes on for, ms", ["", "median", "worst"],
              [[label, median(one["median_ms"] for one in found),
                max(one["worst_ms"] for one in found)]
               for label, found in bench.results["cancel"].items()])
    if "dispatch" in bench.results:
        table("Trivial tasks, by the cores that loop and worker run on",
              ["", "round trip p50, µs", "futex p50, µs", "x futex", "tasks/s"],
              [[label, median(one["round_trip_p50_us"] for one in found),
                median(one["futex_p50_us"] for one in found) if "futex_p50_us" in found[0] else "",
                median(one["round_trip_p50_us"] / one["futex_p50_us"] for one in found)
                if "futex_p50_us" in found[0] else "",
                median(one["tasks_per_second"] for one in found)]
               for label, found in bench.results["dispatch"].items()])


def judge(bench):
    """The targets of the pool: [what, measured, target, verdict]."""
    rows = []

    def line(what, value, at_least=None, at_most=None, unit=""):
        if value is None:
            rows.append([what, "no peer", "", "not judged"])
            return
        holds = value >= at_least if at_least is not None else value <= at_most
        target = f">= {at_least:.2f}" if at_least is not None else f"<= {at_most:.2f}"
        rows.append([what, f"{value:.2f}{unit}", target + unit, "holds" if holds else "MISSES"])

    if "parse" in bench.results:
        line("validation: Piscina's wall time / donmaz's",
             bench.ratio("parse", THREADS, PISCINA, "wall_ms"), at_least=12)
    if "scan" in bench.results:
        memchr = max(bench.figures("scan", THREADS, "memchr_gb_s"))
        line("scanner (1.5, or half of memchr when that is less)",
             max(bench.figures("scan", THREADS, "scan_gb_s")), at_least=min(1.5, memchr / 2),
             unit=" GB/s")
    for name in (THREADS, PROCESSES) if "uploads" in bench.results else ():
        line(f"four uploads: longest stall, median of the rounds, {name}",
             median(bench.figures("uploads", name, "stall_ms")), at_most=2, unit=" ms")
        line(f"four uploads: the most CPU time in a turn of the loop, {name}",
             max(bench.figures("uploads", name, "turn_ms")), at_most=2, unit=" ms")
    for cores in ("one", "two") if "dispatch" in bench.results else ():
        label = f"{THREADS}, {cores}"
        line(f"round trip / futex, {label} core{'s' if cores == 'two' else ''}",
             median(one["round_trip_p50_us"] / one["futex_p50_us"]
                    for one in bench.results["dispatch"][label]), at_most=2)
        theirs = [median(bench.figures("dispatch", label, "tasks_per_second"))
                  for label in bench.results["dispatch"] if label.startswith(PISCINA)]
        rate = median(bench.figures("dispatch", label, "tasks_per_second"))
        line(f"throughput / Piscina's best, {label}", rate / max(theirs) if theirs else None,
             at_least=10)
    for name in (THREADS, PROCESSES) if "cancel" in bench.results else ():
        line(f"abandoned task computes on, worst, {name}",
             max(bench.figures("cancel", name, "worst_ms")), at_most=10, unit=" ms")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="PART,...", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="donmaz-bench-") as folder:
        bench = Bench(os.path.abspath(options.build), folder, options.rounds,
                      options.only.split(",") if options.only else [])
        if bench.theirs and not shutil.which("taskset"):
            raise Failed("taskset is not installed (apt-get install util-linux)")
        size = os.path.getsize(bench.path)
        try:
            run_all(bench)
        finally:
            bench.stop()
    print(proc.machine())
    if bench.theirs:
        version = subprocess.run([bench.theirs[0], "--version"], capture_output=True, text=True,
                                 check=True).stdout.strip()
        with open(os.path.join(NODE, "node_modules/piscina/package.json"),
                  encoding="utf-8") as file:
            print(f"Node {version}, Piscina {json.load(file)['version']}")
    else:
        print("Node + Piscina is not installed (peers/install node): only donmaz was measured")
    if busy > os.cpu_count() / 4:
        print(f"NOTE: other programs kept the machine busy (load {busy:.1f} before the start): the "
              "figures are noisy")
    print(f"medians of {options.rounds} rounds (3 for what takes long), a catalogue of "
          f"{size:,} bytes")
    print_tables(bench)
    verdicts = judge(bench)
    table("Must hold", ["", "measured", "target", ""], verdicts)
    missed = sum(row[3] == "MISSES" for row in verdicts)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": proc.machine(), "load_before": busy, "results": bench.results,
                       "verdicts": verdicts}, file, indent=1)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        note(f"bench: {failed}")
        sys.exit(3)
