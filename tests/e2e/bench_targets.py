"""bench/run's targets: each that is missed is said and makes the exit status 1.

usage: bench_targets.py SOURCE_ROOT"""
import importlib.machinery
import importlib.util
import os
import sys
import unittest

BENCH = os.path.join(sys.argv[1], "bench")
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True


def load_program():
    loader = importlib.machinery.SourceFileLoader("bench_run", os.path.join(BENCH, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module


RUN = load_program()
NAMES = ["floor", "hello", "hello without rescue", "nginx", "express"]
LIMIT = {"floor": 1.25, "hello without rescue": 1.03, "nginx": 1, "express": 0.3333}
AT_LIMIT = {"start_ms": 10, "bytes": 2048, "wakeups": 0, "fib_kb": 4096}


class Targets(unittest.TestCase):
    def judged(self, rounds=3, **changes):
        """A report of figures that are just as large as they may be, but for the changes."""
        figures = {**AT_LIMIT, **{name: LIMIT[name] for name in LIMIT}, **changes}
        cpu = {"hello": {"cpu_us": 8.0}}
        for name in LIMIT:
            cpu[name] = {"cpu_us": 8.0 / figures[name]}
        report = RUN.Report()
        idle = {"bytes_per_connection": figures["bytes"], "wakeups_5s": figures["wakeups"]}
        RUN.judge(report, [cpu] * rounds, NAMES, [figures["start_ms"]] * 11, idle,
                  figures["fib_kb"])
        return report

    def test_figures_at_their_limits_hold(self):
        report = self.judged()
        self.assertEqual((report.missed, report.exit_status()), (0, 0), report.rows)
        self.assertEqual(len(report.rows), 8)

    def test_each_figure_above_its_limit_is_missed_by_itself(self):
        beyond = {"start_ms": 10.01, "bytes": 2049, "wakeups": 1, "fib_kb": 4100,
                  **{name: limit * 1.01 for name, limit in LIMIT.items()}}
        self.assertEqual(len(beyond), 8)
        seen = set()
        for name, value in beyond.items():
            with self.subTest(name):
                report = self.judged(**{name: value})
                missed = [row[0] for row in report.rows if row[3] == "MISSED"]
                self.assertEqual((len(missed), report.missed, report.exit_status()), (1, 1, 1))
                seen.update(missed)
        self.assertEqual(len(seen), 8)

    def test_a_figure_that_is_none_does_not_hold(self):
        self.assertEqual(self.judged(bytes=float("nan")).exit_status(), 1)

    def test_without_express_the_others_are_judged(self):
        report = RUN.Report()
        cpu = {name: {"cpu_us": 8.0} for name in NAMES[:4]}
        RUN.judge(report, [cpu], NAMES[:4], [11], {"bytes_per_connection": 0, "wakeups_5s": 0}, 0)
        self.assertEqual(len(report.rows), 7)
        self.assertEqual(report.exit_status(), 1)


unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
