"""What `donmaz load` prints and writes."""
import csv
import io
import json
import math
import os
import pty
import re
import signal
import stat
import struct
import subprocess
import sys
import threading

from load_support import (OK, LoadTest, again_on_a_busy_machine, answering, command, load, load_json,
                          main)

PERCENTILES = ["p0_001", "p0_01", "p0_1", "p1", "p2_5", "p10", "p25", "p50", "p75", "p90", "p97_5",
               "p99", "p99_9", "p99_99", "p99_999"]


def read_latencies(path):
    """The format that docs/load.md describes: {(phase, endpoint, kind): [ns, ...]}."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"DZLAT1\0\0"
    at, blocks = 8, {}
    while at < len(data):
        phase, kind, endpoint, count = struct.unpack_from("<HHIQ", data, at)
        blocks[phase, endpoint, kind] = list(struct.unpack_from(f"<{count}Q", data, at + 16))
        at += 16 + 8 * count
    return blocks


def nearest_rank(values, p):
    values = sorted(values)
    return values[max(1, math.ceil(p * len(values) / 100 - 1e-9)) - 1]


class Json(LoadTest):
    def test_it_has_every_name_that_autocannon_documents(self):
        server = self.serve(answering())
        figures = load_json("-a", 100, "-T", "a title", server.url()).json
        for name in ["title", "url", "connections", "pipelining", "duration", "start", "finish",
                     "errors", "timeouts", "mismatches", "non2xx", "resets", "1xx", "2xx", "3xx",
                     "4xx", "5xx", "statusCodeStats", "latency", "requests", "throughput",
                     "sampleInt", "samples", "workers"]:
            self.assertIn(name, figures)
        for part in ["latency", "requests", "throughput"]:
            for name in ["average", "mean", "stddev", "min", "max", *PERCENTILES]:
                self.assertIsInstance(figures[part][name], (int, float), f"{part}.{name}")
        self.assertEqual(figures["title"], "a title")
        self.assertEqual(figures["url"], server.url())
        self.assertEqual(figures["latency"]["totalCount"], 100)
        self.assertEqual(figures["requests"]["total"], 100)
        self.assertEqual(figures["requests"]["sent"], 100)
        self.assertEqual(figures["throughput"]["total"], 100 * len(OK))
        self.assertEqual(figures["statusCodeStats"], {"200": {"count": 100}})
        self.assertRegex(figures["start"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_percentiles_are_those_of_all_latencies(self):
        server = self.serve(answering())
        path = os.path.join(self.folder(), "latencies")
        figures = load_json("-c", 3, "-a", 2000, "--latencies", path, server.url("/a@2"),
                            server.url("/b@1")).json
        blocks = read_latencies(path)
        self.assertEqual(set(blocks), {(0, 0, 0), (0, 1, 0)})
        every = blocks[0, 0, 0] + blocks[0, 1, 0]
        self.assertEqual(len(every), 2000)
        for name in PERCENTILES:
            p = float(name[1:].replace("_", "."))
            self.assertAlmostEqual(figures["latency"][name], nearest_rank(every, p) / 1e6, places=9)
        self.assertAlmostEqual(figures["latency"]["max"], max(every) / 1e6, places=9)
        self.assertAlmostEqual(figures["latency"]["mean"], sum(every) / len(every) / 1e6, places=5)
        for i, endpoint in enumerate(figures["endpoints"]):
            one = blocks[0, i, 0]
            self.assertEqual(endpoint["requests"], len(one))
            for name, p in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("p99_9_ms", 99.9)):
                self.assertAlmostEqual(endpoint[name], nearest_rank(one, p) / 1e6, places=9)

    def test_a_rate_writes_both_kinds_of_latency(self):
        server = self.serve(answering())
        path = os.path.join(self.folder(), "latencies")
        figures = load_json("-R", 500, "-a", 100, "--latencies", path, server.url()).json
        blocks = read_latencies(path)
        self.assertEqual({kind: len(v) for (_, _, kind), v in blocks.items()}, {0: 100, 1: 100})
        self.assertAlmostEqual(figures["latency"]["max"], max(blocks[0, 0, 1]) / 1e6, places=9)
        self.assertAlmostEqual(figures["latencyUncorrected"]["max"], max(blocks[0, 0, 0]) / 1e6,
                               places=9)
        plain = load_json("-R", 500, "-C", "-a", 100, server.url()).json
        self.assertIn("latencyCorrected", plain)

    @again_on_a_busy_machine
    def test_samples_add_up_to_the_totals_of_whole_intervals(self):
        server = self.serve(answering())
        figures = load_json("-d", "1s", "-L", 100, server.url()).json
        self.assertEqual(figures["samples"], 10)
        self.assertEqual(sum(i["requests"] for i in figures["intervals"]),
                         figures["requests"]["total"])
        self.assertEqual(sum(n for i in figures["intervals"] for _, n in i["latency"]),
                         figures["latency"]["totalCount"])

    def test_a_file_takes_json_and_the_tables_stay(self):
        server = self.serve(answering())
        path = os.path.join(self.folder(), "r.json")
        result = load("-a", 10, "--json", path, server.url())
        with open(path) as file:
            self.assertEqual(json.load(file)["requests"]["total"], 10)
        self.assertIn("│ Latency", result.out)

    def test_a_page_holds_the_figures(self):
        server = self.serve(answering())
        path = os.path.join(self.folder(), "r.html")
        self.assertEqual(load("-a", 5, "--html", path, server.url()).status, 0)
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertIn(server.url(), page)
        self.assertNotRegex(page, r"""(src|href)=["']?(https?:)?//""")  # it needs no network

    def test_a_file_that_cannot_be_written_is_noticed_before_the_run(self):
        server = self.serve_counting()
        for option in ("--json", "--csv", "--latencies"):
            result = load("-a", 1, option, "/no/such/folder/x", server.url())
            self.assertEqual(result.status, 2)
            self.assertIn(f"{option}: can't write '/no/such/folder/x': No such file", result.err)
        self.assertEqual(server.requests, [])

    def test_a_full_disk_is_an_error(self):
        server = self.serve(answering())
        full = "/dev/full"
        if not stat.S_ISCHR(os.stat(full).st_mode):
            # A program that replaces files by renaming has been at it as root: then so can we.
            full = os.path.join(self.folder(), "full")
            os.mknod(full, stat.S_IFCHR | 0o600, os.makedev(1, 7))
        for option in ("--json", "--csv", "--latencies"):
            result = load("-a", 500, option, full, server.url())
            self.assertEqual(result.status, 2, option)
            self.assertIn("No space left on device", result.err)


class Text(LoadTest):
    def test_tables_have_no_colour_off_a_terminal(self):
        server = self.serve(answering())
        result = load("-a", 50, "-l", "--renderStatusCodes", server.url())
        self.assertNotIn("\x1b", result.out + result.err)
        self.assertRegex(result.out, r"│ Stat +│ +2\.5% │ +50% │")
        self.assertRegex(result.out, r"│ 99\.999 +│")
        self.assertRegex(result.out, r"│ 200 +│ +50 │")
        self.assertIn("50 requests in ", result.out)

    def test_several_endpoints_have_a_row_each(self):
        server = self.serve(answering())
        result = load("-a", 40, server.url("/fast@2"), server.url("/slow@2"))
        self.assertRegex(result.out, r"│ GET /fast │ +2 │ +20 │")
        self.assertRegex(result.out, r"│ GET /slow │ +2 │ +20 │")

    def test_quiet_prints_nothing(self):
        server = self.serve(answering())
        result = load("-n", "-a", 10, server.url())
        self.assertEqual((result.status, result.out, result.err), (0, "", ""))

    def test_csv_has_a_line_an_endpoint(self):
        server = self.serve(answering())
        result = load("-a", 30, "--csv", "-", server.url("/a,b@1"), server.url("/c@2"))
        rows = list(csv.DictReader(io.StringIO(result.out)))
        self.assertEqual([r["url"] for r in rows], [server.url("/a,b"), server.url("/c")])
        self.assertEqual([int(r["requests"]) for r in rows], [10, 20])
        self.assertGreater(float(rows[0]["p99_ms"]), 0)

    @again_on_a_busy_machine
    def test_progress_is_shown_on_a_terminal_only(self):
        server = self.serve(answering())
        terminal, end = pty.openpty()
        run = subprocess.Popen(command("-d", "700ms", server.url()), stdout=subprocess.DEVNULL,
                               stderr=end)
        os.close(end)
        seen = b""
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:
                break
            if not more:
                break
            seen += more
        os.close(terminal)
        self.assertEqual(run.wait(timeout=60), 0)
        self.assertRegex(seen.decode(), r"requests  \S+ req/s")

    def test_ctrl_c_ends_the_run_early_with_all_results(self):
        reached = threading.Event()
        seen = []

        def note(_):
            seen.append(1)
            if len(seen) == 20:
                reached.set()

        server = self.serve(answering(OK, note))
        path = os.path.join(self.folder(), "r.json")
        run = subprocess.Popen(command("-d", "10m", "--json", path, server.url()),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(reached.wait(60))
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("interrupted: these are the results so far", out)
        with open(path) as file:
            figures = json.load(file)
        self.assertTrue(figures["interrupted"])
        self.assertGreaterEqual(figures["requests"]["total"], 10)


class Judging(LoadTest):
    def test_conditions_decide_the_exit_status(self):
        server = self.serve(answering())
        for condition, status in (("p99<0.001ms", 0), ("p99>0.001ms", 1), ("p99.9>=1h", 0),
                                  ("errors>0", 0), ("errors==0", 1), ("rps<0.1", 0),
                                  ("requests != 20", 0), ("error_rate > 1%", 0), ("max>0ns", 1)):
            result = load("-a", 20, "--fail-if", condition, server.url())
            self.assertEqual(result.status, status, condition + result.err)
            if status:
                self.assertIn(f"donmaz load: failed: {condition} (", result.err)
        both = load("-a", 20, "--fail-if", "rps>0", "--fail-if", "max>1h", server.url())
        self.assertEqual(both.status, 1)

    def test_conditions_that_cannot_be_read_are_refused_before_the_run(self):
        server = self.serve_counting()
        for condition, says in (("p99", "wants something like 'p99>50ms'"),
                                ("p99>50", "'50' is not a time with its unit, such as 50ms"),
                                ("eror>1", "(did you mean 'errors'?)"),
                                ("errors=1", "compares by >, >=, <, <=, == or !=, not '='"),
                                ("p101>1s", "knows no 'p101'"),
                                ("rps>many", "'many' is not a number")):
            result = load("--fail-if", condition, server.url())
            self.assertEqual(result.status, 2, condition)
            self.assertIn(says, result.err)
        self.assertEqual(server.requests, [])

    @again_on_a_busy_machine
    def test_comparing_with_an_earlier_run(self):
        slow = [False]

        def handle(connection):
            while connection.request():
                if slow[0]:
                    threading.Event().wait(0.02)
                connection.send(OK)

        server = self.serve(handle)
        base = os.path.join(self.folder(), "base.json")
        args = ["-c", 2, "-d", "600ms", "-L", 60]
        self.assertEqual(load(*args, "--json", base, server.url()).status, 0)
        slow[0] = True
        worse = load(*args, "--compare", base, server.url())
        self.assertEqual(worse.status, 0, worse.err)
        self.assertRegex(worse.out, r"Requests/Sec .*│ worse")
        self.assertRegex(worse.out, r"Latency 50% .*\+\d+\.\d% to \+\d+\.\d% │ worse")
        short = load("-c", 2, "-a", 10, "--compare", base, server.url())
        self.assertIn("no intervals: they need 5 samples on each side", short.out)

    def test_a_comparison_with_something_else_is_refused_before_the_run(self):
        server = self.serve_counting()
        other = os.path.join(self.folder(), "other.json")
        with open(other, "w") as file:
            file.write("{}")
        result = load("--compare", other, server.url())
        self.assertEqual(result.status, 2)
        self.assertIn("is no result of donmaz load --json", result.err)
        self.assertEqual(load("--compare", "/no/such", server.url()).status, 2)
        self.assertEqual(server.requests, [])


class Arguments(LoadTest):
    def test_unusable_arguments_are_one_clear_line_and_status_2(self):
        for args, says in ((["http://h/", "-c", "0"], "-c must be between 1 and 1000000, not '0'"),
                           ([], "no URL; 'donmaz load --help' shows how"),
                           (["--conections", "5", "http://h/"], "did you mean --connections?"),
                           (["--open", "http://h/"], "--open needs a rate: -R NUM"),
                           (["-R", "1e9", "http://h/"], "-R must be between 0.001 and 10000000"),
                           (["-b", "x", "-i", "y", "http://h/"], "only one of -b, -i and -F"),
                           (["-R", "10", "-r", "1", "http://h/"], "-r one for each: not both"),
                           (["ftp://h/"], "only http:// and https:// are spoken"),
                           (["http://h:99999/"], "the port must be a number from 1 to 65535"),
                           (["http://[::1/"], "an IPv6 address needs its closing ']'"),
                           (["http://u:p@h/"], "a user name in the URL is not sent"),
                           (["http:///x"], "no host"),
                           (["http://h/@0"], "after @ there must be 1 to 1000000 connections"),
                           (["http://h/@5000000"], "after @ there must be 1 to 1000000"),
                           (["http://h/@99999999999999999999"], "after @ there must be 1 to"),
                           (["http://h/a b"], "blanks must be written as %20"),
                           (["-a", "1", "http://h/1", "http://h/2"], "1 requests can't be shared"),
                           (["-c", "1", "http://h/1", "http://h/2"], "-c 1 is too few for 2 URLs"),
                           (["-m", "G T", "http://h/"], "'G T' is no request method"),
                           (["-i", "/no/such", "http://h/"], "can't read '/no/such'"),
                           (["-F", "{]", "http://h/"], "-F: "),
                           (["--ca", "/no/such", "https://127.0.0.1:1/"], "--ca: can't read"),
                           (["--on-port", "/x"], "--on-port needs the command to start after --")):
            result = load(*args)
            self.assertEqual(result.status, 2, f"{args}: {result.err}")
            self.assertIn(says, result.err)
            self.assertRegex(result.err.splitlines()[-1], r"^donmaz load: ")

    def test_a_file_that_would_fill_the_memory_is_refused_before_the_run(self):
        path = os.path.join(self.folder(), "huge")
        with open(path, "wb") as file:
            file.truncate((1 << 30) + 1)
        for option in ("-i", "--data"):
            result = load(option, path, "http://127.0.0.1:1/")
            self.assertEqual(result.status, 2)
            self.assertIn("larger than the configured limit", result.err)

    def test_more_connections_than_open_files_is_refused(self):
        done = subprocess.run(["sh", "-c", 'ulimit -n 60 && exec "$@"', "sh",
                               *command("-c", 100, "http://127.0.0.1:1/")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("100 connections need 164 open files, but the limit is 60", done.stderr)

    def test_help_names_every_flag_of_the_contract(self):
        text = load("--help").out
        for flag in ("-c", "-d", "-a", "-p", "-R", "-m", "-H", "-b", "-i", "-t", "-T", "-j", "-n",
                     "-l", "-w", "--on-port", "--renderStatusCodes", "-x", "-E", "-O", "-M", "-B",
                     "-F", "-D", "-k", "--warmup", "--open", "--scenario", "--csv", "--compare",
                     "--fail-if", "--pid", "--latencies"):
            self.assertRegex(text, r"(?m)^  .*" + re.escape(flag) + r"\b", flag)


    def test_the_manual_page_has_every_option(self):
        top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
            os.path.abspath(__file__)))))
        with open(os.path.join(top, "docs", "man", "donmaz-load.1"), encoding="utf-8") as file:
            manual = file.read().replace("\\-", "-")
        options = set(re.findall(r"(?m)^  (?:-\w, |    )(--[\w-]+)", load("--help").out))
        self.assertGreater(len(options), 40)
        for option in options - {"--help"}:
            self.assertIn(f"\\fB{option}\\fR", manual)


class Scenario(LoadTest):
    def write(self, text):
        path = os.path.join(self.folder(), "s.yaml")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_phases_weights_expectations_and_totals(self):
        server = self.serve_counting(
            lambda r: OK.replace(b"200", b"500") if r.path == "/bad" else OK)
        path = self.write(f"""
title: a shop
base: {server.url("")}
headers: ["X-All: 1"]
endpoints:
  - name: list
    path: /items
    weight: 3
  - name: add
    path: /items/{{{{seq}}}}
    method: POST
    body: '{{"n": {{{{random 1 1}}}}}}'
    headers: ["Content-Type: application/json"]
    expect_status: 200
  - name: broken
    path: /bad
    connections: 1
    expect_status: 200
phases:
  - name: mixed
    amount: 90
    connections: 2
    endpoints: [list, add]
  - amount: 30
    connections: 1
""")
        result = load_json("--scenario", path)
        self.assertEqual(result.status, 0, result.err)
        figures = result.json
        self.assertEqual(figures["title"], "a shop")
        self.assertEqual(len(server.requests), 120)
        self.assertEqual([p["name"] for p in figures["phases"]], ["mixed", "2"])
        first, second = figures["phases"]
        self.assertEqual(first["requests"]["total"], 90)
        counts = [e["requests"] for e in first["endpoints"]]
        self.assertEqual(counts[2], 0)
        # Three to one, up to a turn of each thread's share.
        self.assertAlmostEqual(counts[0], 67.5, delta=2)
        self.assertEqual(second["endpoints"][2]["requests"], 15)
        self.assertEqual(second["errorClasses"], {"STATUS": 15})
        self.assertEqual(figures["requests"]["total"], 120)
        for i in range(3):
            self.assertEqual(figures["endpoints"][i]["requests"],
                             sum(p["endpoints"][i]["requests"] for p in figures["phases"]))
        posts = [r for r in server.requests if r.method == "POST"]
        self.assertEqual(posts[0].body, b'{"n": 1}')
        self.assertEqual({r.headers["x-all"] for r in server.requests}, {"1"})
        self.assertEqual(posts[0].headers["content-type"], "application/json")

    def test_mistakes_name_file_line_and_what_was_meant(self):
        good = "base: http://127.0.0.1:1\nendpoints:\n  - path: /\n"
        for text, says in (
                (good + "    wieght: 3\n", ":4: unknown key 'wieght'; did you mean 'weight'?"),
                (good + "phases:\n  - duraton: 3s\n", ":5: unknown key 'duraton'; did you mean 'duration'?"),
                (good + "phases:\n  - duration: soon\n", ":5: duration: must be a duration such as"),
                (good + "    weight: -1\n", ":4: weight: must be a whole number from 1"),
                (good + "phases:\n  - endpoints: [/x]\n", ":5: no endpoint is called '/x'"),
                ("base: http://h\n", ":1: key 'endpoints' is missing here"),
                ("a: &x\n  - *x\n", "unknown key 'a'"),
                (good + "phases: &p\n  - *p\n", "No anchor found for alias"),
                ("base: http://h\nendpoints:\n  - path: '/{{who}}'\n", "no template {{who}}"),
                (good + "  - path: http://other:2/\n", "must be of one host"),
                ("", "the file is empty")):
            path = self.write(text)
            result = load("--scenario", path)
            self.assertEqual(result.status, 2, f"{text}: {result.err}")
            self.assertIn(says, result.err)
            self.assertEqual(len(result.err.splitlines()), 1, result.err)

    def test_a_scenario_that_is_not_there(self):
        result = load("--scenario", "/no/such.yaml")
        self.assertEqual(result.status, 2)
        self.assertIn("can't read '/no/such.yaml': No such file or directory", result.err)


if __name__ == "__main__":
    main()
