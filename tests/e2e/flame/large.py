"""donmaz flame --from reads files far larger than the memory it may use, in every format, from a file
and from a pipe, and keeps their totals.

usage: large.py DONMAZ [MEGABYTES]   (default 8; `make stress-flame` gives 320)

Each file is made on the way, written to a temporary folder, read under a limit of the address space
and removed. Prints size, time and peak resident memory of each.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest

DONMAZ = os.path.abspath(sys.argv[1])
SIZE = int(sys.argv[2] if len(sys.argv) > 2 else 8) << 20
LIMIT = 256 << 20  # of the address space: the program, its libraries and all it allocates
STACKS = [(f"f{i % 7}", f"g{i % 31}", f"h{i}") for i in range(200)]


def collapsed(out):
    total = written = i = 0
    while written < SIZE:
        stack = STACKS[i % len(STACKS)]
        written += out.write(f"main;{';'.join(stack)} /srv/app.js:{i % 200};leaf 3\n".encode())
        total += 3
        i += 1
    return total * 1e-3 * 1000  # counts, shown as thousandths of a second


def perf_script(out):
    written = i = 0
    while written < SIZE:
        stack = STACKS[i % len(STACKS)]
        lines = [f"server 12/{12 + i % 4} [000] {100 + i * 1e-3:.6f}:    1000000 cpu-clock:u: "]
        lines += [f"\t    7f00{k:08x} {name}+0x1f (/srv/bin/server)" for k, name in enumerate(reversed(stack))]
        written += out.write(("\n".join(lines) + "\n\n").encode())
        i += 1
    return i * 1.0


def cpuprofile(out):
    nodes = [{"id": 1, "callFrame": {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1},
              "children": list(range(2, 202))}]
    nodes += [{"id": i + 2, "callFrame": {"functionName": name[2], "scriptId": "1", "url": "file:///srv/app.js", "lineNumber": i, "columnNumber": 0}}
              for i, name in enumerate(STACKS)]
    count = max(2, SIZE // 9)
    out.write(b'{"nodes":' + json.dumps(nodes).encode() + f',"startTime":5000,"endTime":{5000 + 1000 * count},"samples":['.encode())
    for first in range(0, count, 10000):
        part = ",".join(str(2 + i % 200) for i in range(first, min(count, first + 10000)))
        out.write((("," if first else "") + part).encode())
    # Now and then the clock goes back.
    out.write(b'],"timeDeltas":[0')
    for first in range(1, count, 10000):
        part = ",".join("-500" if i % 1000 == 7 else "2500" if i % 1000 == 8 else "1000" for i in range(first, min(count, first + 10000)))
        out.write(("," + part).encode())
    out.write(b"]}\n")
    return count * 1.0


def cpuprofile_samples_first(out):
    """The members in another order than V8's: samples and deltas before the nodes."""
    count = max(2, SIZE // 9)
    out.write(b'{"timeDeltas":[0')
    for first in range(1, count, 10000):
        out.write(("," + ",".join("1000" for _ in range(first, min(count, first + 10000)))).encode())
    out.write(b'],"samples":[')
    for first in range(0, count, 10000):
        out.write((("," if first else "") + ",".join(str(2 + i % 2) for i in range(first, min(count, first + 10000)))).encode())
    frame = '"callFrame":{"functionName":"%s","url":"","lineNumber":0,"columnNumber":0}'
    out.write(f'],"endTime":{1000 * count},"startTime":0,"nodes":[{{"id":1,{frame % "(root)"},"children":[2,3]}},'
              f'{{"id":2,{frame % "a"}}},{{"id":3,{frame % "b"}}}]}}'.encode())
    return count * 1.0


class Large(unittest.TestCase):
    def read(self, path, report, pipe):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        started = time.monotonic()
        with open(path, "rb") as source:
            child = subprocess.Popen([DONMAZ, "flame", "-o", "-", "-n", "0", "--json", report, "--from", "-" if pipe else path],
                                     stdin=subprocess.PIPE if pipe else subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=None if SANITIZED else limit)
            if pipe:
                while data := source.read(1 << 20):
                    child.stdin.write(data)
                child.stdin.close()
            error = child.stderr.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            child.stderr.close()
        self.assertEqual(child.returncode, 0, error.decode())
        return time.monotonic() - started, usage.ru_maxrss / 1024

    def check(self, write):
        with tempfile.TemporaryDirectory() as folder:
            path, report = os.path.join(folder, "in"), os.path.join(folder, "out.json")
            with open(path, "wb") as out:
                total = write(out)
            for pipe in (False, True):
                took, peak = self.read(path, report, pipe)
                print(f"{write.__name__}, {'pipe' if pipe else 'file'}: {os.path.getsize(path) / (1 << 20):.0f} MiB in {took:.1f} s, peak {peak:.0f} MiB", flush=True)
                with open(report, encoding="utf-8") as f:
                    self.assertAlmostEqual(json.load(f)["total_ms"] / total, 1, places=6)

    def test_collapsed(self):
        def collapsed_ms(out):
            return collapsed(out) * 1e-3
        collapsed_ms.__name__ = "collapsed"
        self.check(collapsed_ms)

    def test_perf_script(self):
        self.check(perf_script)

    def test_cpuprofile(self):
        self.check(cpuprofile)

    def test_cpuprofile_with_samples_first(self):
        self.check(cpuprofile_samples_first)


# The sanitizers reserve terabytes of address space.
SANITIZED = os.environ.get("DONMAZ_SANITIZE", "none") not in ("", "none")
unittest.main(argv=["large.py"], verbosity=1)
