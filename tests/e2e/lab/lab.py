#!/usr/bin/env python3
"""donmaz lab, from outside. The load generator is fake_load.py beside this, because these
tests are about the lab. Usage: lab.py DONMAZ [unittest arguments]"""
import csv
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
DONMAZ = os.path.abspath(sys.argv[1])
PYTHON = sys.executable
DEADLINE = 150  # seconds for one run; far above what it takes


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def eventually(condition, what):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {DEADLINE} s: {what}")


class Lab(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lab")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def server(self, name, extra="", more=""):
        return (f"  - name: {name}\n"
                f"    command: {PYTHON} {HERE}/server.py --host {{{{host}}}} "
                f"--port {{{{port}}}} {extra}\n"
                f"    ready: {{http: /health}}\n{more}")

    def write(self, stacks, phases=None, more="", name="try.yaml"):
        phases = phases or "  - {name: only, duration: 200ms, endpoints: [{path: /fast}]}\n"
        path = self.folder / name
        path.write_text(f"title: A try\nstartups: 1\nsettle: 0s\nphases:\n{phases}stacks:\n{stacks}{more}",
                        encoding="utf-8")
        return path

    def lab(self, *arguments, expect=0, **kwargs):
        result = subprocess.run([DONMAZ, "lab", *map(str, arguments)], capture_output=True,
                                text=True, timeout=DEADLINE, cwd=self.folder, **kwargs)
        self.assertEqual(result.returncode, expect, result.stderr + result.stdout)
        return result

    def run_lab(self, path, *arguments, expect=0, **kwargs):
        return self.lab("run", path, "--load-program", HERE / "fake_load.py", *arguments,
                        expect=expect, **kwargs)

    def start_lab(self, path, *arguments):
        process = subprocess.Popen(
            [DONMAZ, "lab", "run", str(path), "--load-program", str(HERE / "fake_load.py"),
             *map(str, arguments)], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class Running(Lab):
    def test_measures_every_stack_and_writes_json_as_documented(self):
        path = self.write(self.server("a") + self.server("b"))
        self.run_lab(path, "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(run["experiment"], "try")
        self.assertTrue(run["complete"])
        self.assertIn("cores", run["machine"])
        self.assertEqual([stack["name"] for stack in run["stacks"]], ["a", "b"])
        for stack in run["stacks"]:
            self.assertIsNone(stack["skipped"])
            self.assertGreater(stack["startup_ms"], 0)
            self.assertGreater(stack["rss_idle_kb"], 1000)
            phase = stack["phases"][0]
            self.assertEqual(phase["name"], "only")
            self.assertGreaterEqual(phase["cpu_percent"], 0)
            self.assertGreater(phase["rss_kb"], 1000)
            endpoint = phase["endpoints"][0]
            self.assertEqual(endpoint["path"], "/fast")
            self.assertGreater(endpoint["requests"], 0)
            self.assertEqual(endpoint["errors"], 0)
            for key in ("rps", "p50_ms", "p90_ms", "p99_ms", "max_ms"):
                self.assertGreater(endpoint[key], 0, key)

    def test_repeats_are_interleaved_and_give_confidence_intervals(self):
        path = self.write(self.server("a") + self.server("b"))
        self.run_lab(path, "--repeat", 3, "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        order = [(r["repeat"], r["stack"]) for r in run["runs"]]
        self.assertEqual(order, [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")])
        values = [r["phases"][0]["endpoints"][0]["rps"] for r in run["runs"] if r["stack"] == "a"]
        endpoint = run["stacks"][0]["phases"][0]["endpoints"][0]
        self.assertAlmostEqual(endpoint["rps"], sorted(values)[1], places=4)
        low, high = endpoint["ci"]["rps"]
        self.assertLessEqual(min(values) - 1e-3, low)
        self.assertLessEqual(high, max(values) + 1e-3)
        total = sum(r["phases"][0]["endpoints"][0]["requests"]
                    for r in run["runs"] if r["stack"] == "a")
        self.assertEqual(endpoint["requests"], total)

    def test_only_takes_patterns(self):
        path = self.write(self.server("one x") + self.server("one y") + self.server("two"))
        self.run_lab(path, "--only", "one *", "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        self.assertEqual([stack["name"] for stack in run["stacks"]], ["one x", "one y"])

    def test_only_with_an_unknown_name_is_an_error(self):
        path = self.write(self.server("a"))
        result = self.run_lab(path, "--only", "aa", expect=2)
        self.assertIn("no stack of", result.stderr)

    def test_markdown_and_csv_hold_the_figures_of_the_json(self):
        path = self.write(self.server("a"))
        self.run_lab(path, "--json", "out.json", "--csv", "out.csv", "--md", "out.md")
        run = json.loads((self.folder / "out.json").read_text())
        with open(self.folder / "out.csv", encoding="utf-8") as file:
            rows = {(r["phase"], r["path"], r["metric"]): float(r["value"])
                    for r in csv.DictReader(file)}
        stack = run["stacks"][0]
        endpoint = stack["phases"][0]["endpoints"][0]
        self.assertAlmostEqual(rows["", "", "startup_ms"], stack["startup_ms"], places=4)
        self.assertAlmostEqual(rows["only", "/fast", "rps"], endpoint["rps"], places=4)
        markdown = (self.folder / "out.md").read_text()
        self.assertIn("| /fast p99 (ms), only", markdown)

    def test_every_endpoint_of_a_phase_has_its_figures_in_each_output(self):
        path = self.write(self.server("a") + self.server("b"),
                          "  - {name: both, duration: 300ms, endpoints: "
                          "[{path: /fast, connections: 3}, {path: /slow}]}\n")
        result = self.run_lab(path, "--json", "out.json", "--csv", "out.csv", "--md", "out.md",
                              "--html", "out.html")
        run = json.loads((self.folder / "out.json").read_text())
        with open(self.folder / "out.csv", encoding="utf-8") as file:
            rows = {(r["stack"], r["path"], r["metric"]): float(r["value"])
                    for r in csv.DictReader(file) if r["phase"] == "both"}
        markdown = (self.folder / "out.md").read_text()
        self.assertIn("## Each endpoint, both\n", markdown)
        head = "| stack | endpoint | req/s | share % | p50 ms | p99 ms | errors | not 2xx |"
        self.assertIn(head, markdown)
        self.assertRegex(result.stdout, "Each endpoint, both\n")
        for stack in run["stacks"]:
            phase = stack["phases"][0]
            ends = phase["endpoints"]
            self.assertEqual([end["path"] for end in ends], ["/fast", "/slow"])
            self.assertAlmostEqual(sum(end["share_percent"] for end in ends), 100, places=4)
            self.assertAlmostEqual(phase["total_rps"], sum(end["rps"] for end in ends), places=4)
            for end in ends:
                self.assertAlmostEqual(end["share_percent"], 100 * end["rps"] / phase["total_rps"],
                                       places=4)
                for key in ("rps", "share_percent", "p50_ms", "p99_ms", "errors"):
                    self.assertAlmostEqual(rows[stack["name"], end["path"], key], end[key],
                                           places=4)
                self.assertRegex(markdown, rf"\| {stack['name']} \| {end['path']} \| \d")
                self.assertRegex(result.stdout, rf"│ {end['path']} +│ +\d+ │")
        self.assertIn("out.csv", os.listdir(self.folder))
        self.assertGreater((self.folder / "out.html").stat().st_size, 10000)

    def test_many_stacks_are_lines_in_markdown(self):
        phase = "  - {name: only, duration: 50ms, endpoints: [{path: /fast}]}\n"
        self.run_lab(self.write(self.server("s0"), phase), "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        names = [f"s{i}" for i in range(7)]
        run["runs"] = [{**run["runs"][0], "stack": name} for name in names]
        (self.folder / "all.json").write_text(json.dumps(run))
        path = self.write("".join(map(self.server, names)), phase)
        self.run_lab(path, "--resume", "all.json", "--md", "out.md")  # nothing is left to measure
        markdown = (self.folder / "out.md").read_text()
        for name in names:
            self.assertRegex(markdown, rf"(?m)^\| {name} \| ([\d.-]+ \| ?)+$")

    def test_a_phase_of_one_endpoint_needs_no_table_of_endpoints(self):
        result = self.run_lab(self.write(self.server("a")))
        self.assertNotIn("Each endpoint", result.stdout)

    def test_the_load_generator_is_the_same_program_to_the_end(self):
        """It is replaced (here: removed) while the lab runs, as a build does."""
        copy = self.folder / "donmaz"
        shutil.copy(DONMAZ, copy)
        phase = "  - {name: only, duration: 2s, endpoints: [{path: /fast}]}\n"
        path = self.write(f"  - name: a\n    command: sh -c 'rm {copy}; exec {PYTHON} "
                          f"{HERE}/server.py --host {{{{host}}}} --port {{{{port}}}}'\n"
                          "    ready: {http: /health}\n", phase)
        result = subprocess.run([copy, "lab", "run", str(path), "--json", "out.json"],
                                capture_output=True, text=True, timeout=DEADLINE, cwd=self.folder,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(copy.exists())
        run = json.loads((self.folder / "out.json").read_text())
        self.assertGreater(run["stacks"][0]["phases"][0]["endpoints"][0]["requests"], 0)

    def test_json_to_stdout_is_json_only(self):
        path = self.write(self.server("a"))
        result = self.run_lab(path, "--json")
        self.assertEqual(json.loads(result.stdout)["experiment"], "try")

    def test_warmup_and_quick_times_reach_the_load_generator(self):
        path = self.write(self.server("a"), "  - {name: only, duration: 90s, warmup: 60s, "
                          "quick_duration: 200ms, quick_warmup: 100ms, "
                          "endpoints: [{path: /fast, connections: 3}]}\n")
        self.run_lab(path, "--quick", "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        self.assertTrue(run["quick"])
        phase = run["runs"][0]["phases"][0]
        self.assertEqual((phase["duration_s"], phase["warmup_s"]), (0.2, 0.1))
        self.assertEqual(phase["endpoints"][0]["connections"], 3)

    def test_expectations_are_judged(self):
        expect = ("best: {stacks: '*', metric: rps, phase: only, path: /fast}\n"
                  "expect:\n"
                  "  - {stack: a, metric: rps, phase: only, path: /fast, against: best, "
                  "at_least: 0.000001}\n"
                  "  - {stack: a, metric: startup_ms, at_most: 0.000001}\n")
        path = self.write(self.server("a"), more=expect)
        result = self.run_lab(path, "--judge", "--json", "out.json", expect=1)
        run = json.loads((self.folder / "out.json").read_text())
        self.assertEqual([e["holds"] for e in run["expectations"]], [True, False])
        self.assertIn("FAILS", result.stdout)

    OVERLOAD = ("  - {name: capacity, duration: 200ms, endpoints: [{path: /fast}]}\n"
                "  - {name: over, duration: 200ms, rate_of: capacity, rate_times: 3, "
                "success_only: true, endpoints: [{path: /fast}]}\n")

    def test_a_phase_is_offered_a_multiple_of_what_an_earlier_one_reached(self):
        expect = ("expect:\n"
                  "  - {stack: a, metric: good_rps, phase: over, path: /fast, "
                  "against_phase: capacity, at_least: 0.000001}\n"
                  "  - {stack: a, metric: good_rps, phase: over, path: /fast, "
                  "against_phase: capacity, at_least: 1000000}\n")
        path = self.write(self.server("a", "--refuse 2"), self.OVERLOAD, expect)
        log = self.folder / "load.log"
        result = self.run_lab(path, "--judge", "--json", "out.json", expect=1,
                              env={**os.environ, "FAKE_LOAD_LOG": str(log)})
        run = json.loads((self.folder / "out.json").read_text())
        capacity, over = run["stacks"][0]["phases"]
        good = capacity["endpoints"][0]["good_rps"]
        self.assertGreater(good, 0)
        self.assertLess(good, capacity["endpoints"][0]["rps"])
        self.assertAlmostEqual(over["offered_rps"], 3 * good, delta=0.001 * good)
        first, second = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertNotIn("-R", first)
        self.assertAlmostEqual(float(second[second.index("-R") + 1]), 3 * good,
                               delta=0.001 * good)
        self.assertNotIn("-x", first)
        self.assertIn("-x", second)
        self.assertEqual([e["holds"] for e in run["expectations"]], [True, False])
        self.assertRegex(result.stdout, r"times the [\d.,]+ of phase capacity")

    def test_a_multiple_of_nothing_is_told(self):
        path = self.write(self.server("a", "--refuse 1"), self.OVERLOAD)
        result = self.run_lab(path, expect=3)
        self.assertIn("phase over: phase capacity had no 2xx to be a multiple of", result.stderr)

    def test_a_phase_in_which_all_was_refused_has_no_latency(self):
        phases = "  - {name: p, duration: 200ms, success_only: true, endpoints: [{path: /fast}]}\n"
        self.run_lab(self.write(self.server("a", "--refuse 1"), phases), "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        endpoint = run["stacks"][0]["phases"][0]["endpoints"][0]
        self.assertGreater(endpoint["requests"], 0)
        self.assertEqual(endpoint["good_rps"], 0)
        self.assertIsNone(endpoint["p99_ms"])


class Services(Lab):
    """A process that comes with the stack and is not the server."""
    PHASE = "  - {name: only, duration: 1s, endpoints: [{path: /fast}]}\n"

    def measure(self, more):
        path = self.write(self.server("a", "--service donmaz-test-database", more), self.PHASE)
        self.run_lab(path, "--json", "out.json")
        return json.loads((self.folder / "out.json").read_text())["stacks"][0]

    def test_are_accounted_apart_from_the_server(self):
        stack = self.measure("    services: [donmaz-test-database]\n")
        phase = stack["phases"][0]
        self.assertGreater(phase["service_cpu_percent"], 0)
        self.assertGreater(phase["service_cpu_us_per_request"], 0)
        self.assertLess(phase["rss_max_kb"], 64 << 10)
        self.assertLess(stack["rss_idle_kb"], 64 << 10)

    def test_are_the_servers_own_when_nothing_is_said(self):
        stack = self.measure("")
        self.assertIsNone(stack["phases"][0]["service_cpu_percent"])
        self.assertGreater(stack["phases"][0]["rss_max_kb"], 64 << 10)
        self.assertGreater(stack["rss_idle_kb"], 64 << 10)

    def test_one_that_does_not_run_is_a_failure_by_name(self):
        path = self.write(self.server("a", more="    services: [no-such-database]\n"), self.PHASE)
        result = self.run_lab(path, expect=3)
        self.assertIn("a: failed: phase only: no process of the stack is called "
                      "'no-such-database', one of its services", result.stderr)


class Missing(Lab):
    def test_a_stack_without_its_needs_is_skipped_with_reason_and_hint(self):
        for kind, thing in (("executable", "no-such-program"), ("file", "no/such/file"),
                            ("script", "test -e no-such-file")):
            need = f"    needs: [{{{kind}: {thing}, hint: make it}}]\n"
            path = self.write(self.server("lame", more=need) + self.server("sound"))
            result = self.run_lab(path, "--json", "out.json")
            run = json.loads((self.folder / "out.json").read_text())
            reason = run["stacks"][0]["skipped"]
            self.assertIn(thing, reason)
            self.assertIn("make it", reason)
            self.assertIn(f"lame: skipped: {reason}", result.stderr)
            self.assertIsNone(run["stacks"][1]["skipped"])

    def test_list_shows_what_would_be_skipped(self):
        need = "    needs: [{file: no/such/file, hint: make it}]\n"
        self.write(self.server("lame", more=need) + self.server("sound"))
        result = self.lab("list", self.folder)
        self.assertIn("lame  (would be skipped: no/such/file is missing: make it)", result.stdout)
        self.assertIn("    sound\n", result.stdout)

    def test_a_command_that_is_not_there_is_one_clear_line(self):
        path = self.write("  - {name: a, command: './no-such-server {{port}}'}\n")
        result = self.run_lab(path, expect=3)
        self.assertIn("a: failed: './no-such-server' can't be run", result.stderr)
        self.assertIn("No such file", result.stderr)


class BadFile(Lab):
    def complains(self, text, *parts):
        path = self.folder / "bad.yaml"
        path.write_text(text, encoding="utf-8")
        result = self.run_lab(path, expect=2)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    STACK = "stacks:\n  - {name: a, command: 'true {{port}}'}\n"
    PHASE = "phases:\n  - {name: p, duration: 1s, endpoints: [{path: /}]}\n"

    def test_an_unknown_key_names_its_line_and_the_nearest_key(self):
        self.complains("title: x\n" + self.PHASE + "stacks:\n  - name: a\n    command: x {{port}}\n"
                       "    enviroment: [A=b]\n", "bad.yaml:7: unknown key 'enviroment'",
                       "did you mean 'environment'?")

    def test_an_unknown_key_far_from_any_lists_the_known_ones(self):
        self.complains("title: x\nzzz: 1\n" + self.PHASE + self.STACK, "bad.yaml:2:",
                       "known here: title")

    def test_a_missing_key_is_named(self):
        self.complains(self.PHASE + self.STACK, "key 'title' is missing")

    def test_values_that_are_no_numbers_or_durations(self):
        self.complains("title: x\nrepeats: 5x\n" + self.PHASE + self.STACK, "bad.yaml:2:",
                       "repeats is a whole number", "'5x'")
        self.complains("title: x\n" + self.PHASE.replace("1s", "soon") + self.STACK,
                       "bad.yaml:3:", "duration is a duration", "'soon'")

    def test_rates_nobody_can_mean(self):
        self.complains("title: x\n" + self.PHASE.replace("1s,", "1s, rate: 1e9,") + self.STACK,
                       "bad.yaml:3:", "rate is at most 10000000")
        self.complains("title: x\n" + self.PHASE.replace("1s,", "1s, rate: 0,") + self.STACK,
                       "bad.yaml:3:", "rate is a number above 0, not '0'")

    def test_a_cycle(self):
        self.complains("title: x\nphases: &p\n  - *p\n" + self.STACK, "bad.yaml:", "alias")
        self.complains("title: x\n" + self.PHASE + "stacks: &s [{name: a, command: '{{port}}', "
                       "needs: *s}]\n", "bad.yaml:", "alias")

    def test_a_header_to_check_that_is_none(self):
        self.complains("title: x\n" + self.PHASE + self.STACK + "checks: [{path: /, headers: [x]}]\n",
                       "bad.yaml:6: a header is 'Name: value', unlike 'x'")
    def test_a_rate_that_is_a_multiple_of_nothing(self):
        for rate, part in (("rate_of: later", "no phase before 'p' is named 'later'"),
                           ("rate_of: p", "no phase before 'p' is named 'p'"),
                           ("rate: 5, rate_of: p", "has either rate or rate_of"),
                           ("rate_times: 3", "which phase 'p' lacks"),
                           ("rate_of: p, rate_times: -3", "rate_times is a number above 0")):
            self.complains("title: x\nphases:\n  - {name: p, duration: 1s, " + rate +
                           ", endpoints: [{path: /}]}\n" + self.STACK, part)

    def test_an_expectation_against_a_phase_that_is_not_there(self):
        claim = "expect: [{stack: a, metric: rps, phase: p, path: /, at_least: 1, "
        for against, part in (("against_phase: q}]", "no phase is named 'q'"),
                              ("against_phase: p, against: a}]", "not both")):
            self.complains("title: x\n" + self.PHASE + self.STACK + claim + against + "\n", part)

    def test_yaml_that_does_not_parse(self):
        self.complains("title: x\nphases: [\n" + self.STACK, "bad.yaml:")

    def test_an_empty_file(self):
        self.complains("", "bad.yaml:1: the file is empty")

    def test_a_file_that_is_not_there(self):
        result = self.run_lab("nowhere.yaml", expect=2)
        self.assertIn("can't read nowhere.yaml: No such file", result.stderr)

    def test_a_stack_that_is_not_told_its_port(self):
        self.complains("title: x\n" + self.PHASE + "stacks:\n  - {name: a, command: server}\n",
                       "bad.yaml:5:", "{{port}}")

    def test_two_stacks_of_one_name(self):
        self.complains("title: x\n" + self.PHASE + self.STACK +
                       "  - {name: a, command: 'true {{port}}'}\n", "two stacks are named 'a'")

    def test_a_table_row_of_an_unknown_metric_phase_or_path(self):
        for row, part in (("{metric: p98_ms, phase: p, path: /}", "did you mean 'p9"),
                          ("{metric: rps, phase: q, path: /}", "no phase is named 'q'"),
                          ("{metric: rps, phase: p, path: /x}", "does not load /x"),
                          ("{metric: rps, phase: p}", "needs a path")):
            self.complains("title: x\n" + self.PHASE + self.STACK + f"table: [{row}]\n", part)


class BadTarget(Lab):
    def test_a_port_in_use_is_one_clear_line(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            path = self.write(self.server("a", more=f"    port: {port}\n"))
            result = self.run_lab(path, expect=3)
        self.assertIn(f"a: failed: port {port} is in use by another program", result.stderr)

    def test_a_target_that_dies_under_load_is_told_with_its_last_words(self):
        phases = "  - {name: only, duration: 300ms, endpoints: [{path: /fast}]}\n"
        path = self.write(self.server("mortal", "--die-after 3") + self.server("sound"), phases)
        result = self.run_lab(path, "--json", "out.json", expect=3)
        run = json.loads((self.folder / "out.json").read_text())
        reason = run["stacks"][0]["failed"]
        self.assertIn("phase only: it exited with status 7", reason)
        self.assertIn("it said last: giving up: out of ideas", reason)
        self.assertIn(f"mortal: failed: {reason}", result.stderr)
        self.assertGreater(run["stacks"][1]["phases"][0]["endpoints"][0]["requests"], 0)

    def test_a_target_that_dies_at_once(self):
        path = self.write("  - name: a\n    command: sh -c 'echo no config >&2; exit 3; {{port}}'\n")
        result = self.run_lab(path, expect=3)
        self.assertIn("could not be started: it exited with status 3; it said last: no config",
                      result.stderr)
        path = self.write("  - name: a\n    command: sh -c 'exit 3; {{port}}'\n")
        result = self.run_lab(path, expect=3)
        self.assertIn("it said nothing: run its command by hand to see why\n", result.stderr)

    def test_a_target_that_is_never_ready(self):
        path = self.write("  - {name: a, command: 'sleep 600{{port}}', ready: {within: 200ms}}\n")
        result = self.run_lab(path, expect=3)
        self.assertIn("was not ready within 0.2 s", result.stderr)

    def test_a_target_that_prints_megabytes_is_measured_and_warned_about(self):
        path = self.write(self.server("a", "--chatter 2000000"))
        result = self.run_lab(path, "--json", "out.json")
        run = json.loads((self.folder / "out.json").read_text())
        self.assertGreater(run["stacks"][0]["phases"][0]["endpoints"][0]["requests"], 0)
        self.assertTrue([w for w in run["warnings"] if "turn its request log off" in w])
        self.assertIn("a printed", result.stderr)

    def test_an_answer_unlike_the_check_stops_that_stack_before_measuring(self):
        checks = "checks: [{path: /, body: hello world, type: text/plain}]\n"
        path = self.write(self.server("same") + self.server("other", "--body hallo"), more=checks)
        self.run_lab(path, "--json", "out.json", expect=3)
        run = json.loads((self.folder / "out.json").read_text())
        self.assertIsNone(run["stacks"][0]["failed"])
        self.assertIn("GET / has the body 'hallo' instead of 'hello world'",
                      run["stacks"][1]["failed"])
        self.assertEqual(run["stacks"][1]["phases"], [])

    def test_a_header_unlike_the_check_stops_that_stack_before_measuring(self):
        for fields, why in (("Content-Type: text/plain, Content-Length: 11", None),
                            ("Content-Type: text/html, Content-Length: 11",
                             "GET / has 'Content-Type: text/plain' instead of 'Content-Type: text/html'"),
                            ("Content-Type: text/plain",
                             "not among the headers to expect: 'Content-Length: 11'"),
                            ("Content-Type: text/plain, Content-Length: 11, 'Date: *'",
                             "GET / lacks 'Date: *'")):
            checks = f"checks: [{{path: /, headers: [{fields}]}}]\n".replace(
                "Content-Type: text/plain", "'Content-Type: text/plain'").replace(
                "Content-Type: text/html", "'Content-Type: text/html'").replace(
                "Content-Length: 11", "'Content-Length: 11'")
            path = self.write(self.server("a"), more=checks)
            self.run_lab(path, "--json", "out.json", expect=3 if why else 0)
            run = json.loads((self.folder / "out.json").read_text())
            if why:
                self.assertIn(why, run["stacks"][0]["failed"])
            else:
                self.assertIsNone(run["stacks"][0]["failed"])

    def test_a_path_that_is_never_answered_has_no_latency_rather_than_zero(self):
        path = self.write(self.server("a", "--hang /slow"),
                          "  - {name: p, duration: 200ms, endpoints: [{path: /slow}]}\n",
                          "table: [{metric: p99_ms, phase: p, path: /slow}]\n")
        result = self.run_lab(path, "--json", "out.json", env={**os.environ, "FAKE_LOAD_TIMEOUT": "0.2"})
        run = json.loads((self.folder / "out.json").read_text())
        endpoint = run["stacks"][0]["phases"][0]["endpoints"][0]
        self.assertEqual((endpoint["requests"], endpoint["rps"]), (0, 0))
        self.assertGreater(endpoint["errors"], 0)
        for key in ("p50_ms", "p99_ms", "max_ms", "mean_ms"):
            self.assertIsNone(endpoint[key], key)
        self.assertRegex(result.stdout, r"/slow p99 \(ms\), p +│ +- │")

    def test_a_load_generator_that_fails_is_told_with_its_last_words(self):
        broken = self.folder / "load"
        broken.write_text("#!/bin/sh\necho nothing works >&2\nexit 3\n")
        broken.chmod(0o755)
        path = self.write(self.server("a"))
        result = self.lab("run", path, "--load-program", broken, expect=3)
        self.assertIn("the load generator exited with status 3: nothing works", result.stderr)

    def test_a_load_generator_that_prints_no_json(self):
        broken = self.folder / "load"
        broken.write_text("#!/bin/sh\necho well\n")
        broken.chmod(0o755)
        path = self.write(self.server("a"))
        result = self.lab("run", path, "--load-program", broken, expect=3)
        self.assertIn("the load generator's result can't be read", result.stderr)


class NothingIsLeft(Lab):
    LONG = "  - {name: long, duration: 600s, endpoints: [{path: /fast}]}\n"

    def start_long(self):
        path = self.write(self.server("a", "--deaf --daemon daemon --pid-file server"), self.LONG)
        lab = self.start_lab(path)
        pids = [eventually(lambda name=name: self.read_pid(name), name)
                for name in ("daemon", "server")]
        load = eventually(lambda: self.load_of(lab.pid), "the load generator runs")
        return lab, pids + [load]

    def read_pid(self, name):
        try:
            return int((self.folder / name).read_text() or 0)
        except OSError:
            return 0

    @staticmethod
    def parent_of(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    def load_of(self, lab):
        """The load generator: a guard stands between it and the lab."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/cmdline", encoding="utf-8") as file:
                    command = file.read()
                if ("fake_load.py\0load\0" in command and
                        self.parent_of(self.parent_of(entry)) == lab):
                    return int(entry)
            except OSError:
                continue
        return 0

    def check_gone(self, pids):
        for pid in pids:
            eventually(lambda pid=pid: gone(pid), f"process {pid} has ended")

    def test_after_an_ordinary_run_with_a_deaf_server_and_its_daemon(self):
        path = self.write(self.server("a", "--deaf --daemon daemon --pid-file server"))
        self.run_lab(path)
        self.assertTrue(gone(self.read_pid("daemon")))
        self.assertTrue(gone(self.read_pid("server")))

    def test_when_the_lab_is_killed(self):
        lab, pids = self.start_long()
        lab.kill()
        lab.wait()
        self.check_gone(pids)

    def test_when_the_guard_is_killed(self):
        lab, pids = self.start_long()
        guard = self.parent_of(pids[1])
        self.assertNotEqual(guard, lab.pid)
        os.kill(guard, signal.SIGKILL)
        self.check_gone(pids)
        _, err = lab.communicate(timeout=DEADLINE)
        self.assertIn("a: failed: phase long: it was lost: the process that guards it was killed",
                      err)

    def test_ctrl_c_keeps_what_was_measured_and_can_be_resumed(self):
        marker = self.folder / "slow"
        stacks = self.server("a") + self.server("b", f"--pid-file {marker}")
        path = self.write(stacks)
        # b's load never ends by itself
        fake = self.folder / "load"
        fake.write_text(f"#!/bin/sh\n[ -e {marker} ] && [ ! -e {self.folder}/go ] && "
                        f"touch {self.folder}/loading && exec sleep 600\n"
                        f"exec {PYTHON} {HERE}/fake_load.py \"$@\"\n")
        fake.chmod(0o755)
        lab = subprocess.Popen([DONMAZ, "lab", "run", str(path), "--load-program", str(fake)],
                               cwd=self.folder, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(lab.kill)
        eventually((self.folder / "loading").exists, "b is under load")
        lab.send_signal(signal.SIGINT)
        out, err = lab.communicate(timeout=DEADLINE)
        self.assertEqual(lab.returncode, 3)
        self.assertIn("/fast throughput (req/s), only", out)
        self.assertIn("--resume try.partial.json", err)
        partial = json.loads((self.folder / "try.partial.json").read_text())
        self.assertFalse(partial["complete"])
        self.assertEqual([r["stack"] for r in partial["runs"] if r["complete"]], ["a"])
        (self.folder / "go").touch()
        self.lab("run", path, "--load-program", fake, "--resume", "try.partial.json")
        whole = json.loads((self.folder / "try.partial.json").read_text())
        self.assertTrue(whole["complete"])
        self.assertEqual(whole["runs"][0], partial["runs"][0])
        self.assertEqual([r["stack"] for r in whole["runs"]], ["a", "b"])
        self.assertTrue(gone(self.read_pid("slow")))


class Compare(Lab):
    def save(self, name, values, experiment="try"):
        runs = [{"stack": "a", "repeat": i, "complete": True, "startup_ms": 1.0,
                 "phases": [{"name": "p", "endpoints": [{"path": "/", "p99_ms": v}]}]}
                for i, v in enumerate(values)]
        document = {"experiment": experiment, "phases": [], "runs": runs,
                    "table": [{"metric": "p99_ms", "phase": "p", "path": "/"}],
                    "stacks": [{"name": "a"}]}
        (self.folder / name).write_text(json.dumps(document))

    def verdict(self, before, after):
        self.save("a.json", before)
        self.save("b.json", after)
        result = self.lab("compare", "a.json", "b.json", "--json")
        return json.loads(result.stdout)["comparison"][0]

    def test_says_better_worse_or_nothing_shown(self):
        self.assertEqual(self.verdict([10, 11, 10.5], [5, 5.2, 5.1])["verdict"], "better")
        self.assertEqual(self.verdict([5, 5.2, 5.1], [10, 11, 10.5])["verdict"], "worse")
        entry = self.verdict([5, 6, 7], [5.5, 6.5, 6])
        self.assertEqual(entry["verdict"], "no difference shown")
        self.assertLessEqual(entry["ratio_ci"][0], 1)

    def test_one_repeat_proves_nothing(self):
        self.assertEqual(self.verdict([10], [5])["verdict"], "too few repeats to say")

    def test_runs_of_different_experiments_are_refused(self):
        self.save("a.json", [1])
        self.save("b.json", [1], experiment="other")
        self.assertIn("'other'", self.lab("compare", "a.json", "b.json", expect=2).stderr)

    def test_a_file_that_is_no_result(self):
        (self.folder / "a.json").write_text("{}")
        result = self.lab("compare", "a.json", "a.json", expect=2)
        self.assertIn("a.json is not the result of 'donmaz lab run'", result.stderr)

    def test_a_result_that_lacks_names_is_refused(self):
        for part in ({"stacks": [{}]}, {"stacks": [{"name": 5}]}, {"table": [{}]},
                     {"stacks": [{"name": "a", "phases": [{}]}]}, {"phases": [3]}):
            broken = {"experiment": "x", "stacks": [], "runs": [], **part}
            (self.folder / "a.json").write_text(json.dumps(broken))
            result = self.lab("compare", "a.json", "a.json", expect=2)
            self.assertIn("a.json is not the result of 'donmaz lab run'", result.stderr)


class Writing(Lab):
    def test_a_full_disk_is_told_and_the_table_still_printed(self):
        path = self.write(self.server("a"))
        for option in ("--json", "--csv", "--md"):
            result = self.run_lab(path, option, "/dev/full", expect=3)
            self.assertIn("can't write /dev/full: No space left on device", result.stderr)
            self.assertIn("/fast throughput", result.stdout)

    def test_a_folder_that_is_not_there_is_told_before_anything_is_measured(self):
        path = self.write(self.server("a", f"--pid-file {self.folder}/started"))
        result = self.run_lab(path, "--json", "nowhere/out.json", expect=2)
        self.assertIn("can't write nowhere/out.json: No such file or directory", result.stderr)
        self.assertFalse((self.folder / "started").exists())


class Usage(Lab):
    def test_help_and_unknown_subcommands(self):
        for name in ("run", "list", "compare"):
            self.assertIn(f"donmaz lab {name}", self.lab(name, "--help").stdout)
        self.assertIn("did you mean 'compare'", self.lab("compere", expect=2).stderr)
        self.assertIn("usage", self.lab(expect=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
