"""What servers do wrong, and how `donmaz load` calls it."""
import json
import os
import socket
import subprocess
import sys
import threading

from load_support import (OK, LoadTest, again_on_a_busy_machine, answering, command, load, load_json,
                          main)

HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly a part"


def closing_at_once(connection):
    connection.request()


def resetting(connection):
    connection.request()
    connection.reset()


def answering_half(connection):
    connection.request()
    connection.send(HALF)


def answering_twice(connection):
    while connection.request():
        if not connection.send(OK + OK):
            return


def silent(connection):
    while connection.request():
        pass


def garbage(connection):
    connection.request()
    connection.send(b"SSH-2.0-OpenSSH_9.2\r\n")
    connection.request()


def closing_after_each(connection):
    connection.request()
    connection.send(OK)


class Faults(LoadTest):
    def classes_of(self, handle, *args):
        server = self.serve(handle)
        amount = [] if "-a" in args else ["-a", 20]
        result = load_json("-c", 2, *amount, *args, server.url())
        return result, result.json

    def assert_only_failures(self, result, key):
        figures = result.json
        self.assertEqual(result.status, 1, result.err)
        self.assertIn("not one request was answered", result.err)
        self.assertEqual(figures["requests"]["total"], 0)
        self.assertEqual(figures["latency"]["totalCount"], 0)
        self.assertEqual(figures["latency"]["max"], 0)
        self.assertGreater(figures["errors"], 0)
        self.assertEqual(set(figures["errorClasses"]), {key})
        self.assertEqual(figures["errors"], sum(figures["errorClasses"].values()))
        self.assertEqual(figures["endpoints"][0]["errorClasses"], figures["errorClasses"])

    def test_closing_before_the_response(self):
        result, _ = self.classes_of(closing_at_once)
        self.assert_only_failures(result, "CLOSED")

    def test_resetting(self):
        result, _ = self.classes_of(resetting)
        self.assert_only_failures(result, "ECONNRESET")

    def test_answering_half(self):
        result, _ = self.classes_of(answering_half)
        self.assert_only_failures(result, "TRUNCATED")

    def test_never_answering_is_a_timeout(self):
        result, figures = self.classes_of(silent, "-t", "100ms", "-a", 4)
        self.assert_only_failures(result, "TIMEOUT")
        self.assertEqual(figures["errors"], 4)
        self.assertEqual(figures["timeouts"], 4)

    def test_answering_garbage(self):
        result, _ = self.classes_of(garbage)
        self.assert_only_failures(result, "BAD_RESPONSE")

    def test_answering_twice(self):
        result, figures = self.classes_of(answering_twice)
        self.assertEqual(result.status, 0)
        self.assertGreater(figures["errorClasses"]["UNSOLICITED"], 0)
        self.assertGreater(figures["requests"]["total"], 0)

    def test_closing_after_each_response_is_no_failure(self):
        result, figures = self.classes_of(closing_after_each, "-a", 50)
        self.assertEqual(result.status, 0, result.err)
        # Whether the close is seen before the next request is sent is up to the kernel.
        self.assertEqual(figures["requests"]["total"] + figures["errors"], 50)
        self.assertLessEqual(set(figures["errorClasses"]), {"CLOSED", "ECONNRESET", "EPIPE"})

    def test_saying_close_after_each_response_is_no_failure(self):
        def polite(connection):
            connection.request()
            connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")

        server = self.serve(polite)
        result = load_json("-c", 3, "-a", 50, server.url())
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(result.json["requests"]["total"], 50)
        self.assertEqual(result.json["errors"], 0)
        self.assertEqual(server.connections, 50)

    def test_nobody_listening_is_one_clear_line_and_status_3(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
            port = taken.getsockname()[1]
            result = load(f"http://127.0.0.1:{port}/")
        self.assertEqual(result.status, 3)
        self.assertEqual(result.out, "")
        self.assertIn(
            f"donmaz load: can't connect to 127.0.0.1 port {port}: "
            "Connection refused (ECONNREFUSED); start the server first, or have it started: "
            "donmaz load /path -- COMMAND\n", result.err)

    def test_unresolvable_host_is_one_clear_line_and_status_3(self):
        result = load("http://no-such-host.invalid/")
        self.assertEqual(result.status, 3)
        self.assertRegex(result.err, r"^donmaz load: can't resolve host 'no-such-host.invalid': .+\n$")

    def test_the_table_says_that_nothing_was_completed_and_why(self):
        server = self.serve(resetting)
        result = load("-c", 2, "-a", 10, server.url())
        self.assertEqual(result.status, 1)
        self.assertRegex(result.out, r"\n0 requests in ")
        self.assertRegex(result.out, r"ECONNRESET │ +[\d,]+ │ Connection reset by peer")

    def test_a_target_that_dies_is_reported_with_what_was_measured_before(self):
        program = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from load_support import *\n"
            "seen = []\n"
            "def note(request):\n"
            "    seen.append(1)\n"
            "    if len(seen) == 50: print('loaded', flush=True)\n"
            "s = Server(answering(OK, note)); print(s.port, flush=True); sys.stdin.read()\n")
        child = subprocess.Popen([sys.executable, "-c", program, os.path.dirname(__file__)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            port = int(child.stdout.readline())
            run = subprocess.Popen(command("-j", "-c", 4, "-d", "10m", "-B", 50,
                                           f"http://127.0.0.1:{port}/"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline(), "loaded\n")
            child.kill()
            out, err = run.communicate(timeout=60)
        finally:
            child.kill()
            child.communicate()
        figures = json.loads(out)
        self.assertEqual(run.returncode, 0, err)
        self.assertGreater(figures["requests"]["total"], 0)
        self.assertGreater(figures["errors"], 0)
        self.assertIn("ECONNREFUSED", figures["errorClasses"])

    def test_debug_names_each_kind_of_failure_without_tables(self):
        server = self.serve(resetting)
        result = load("-n", "--debug", "-a", 3, "-c", 1, server.url())
        self.assertEqual(result.out, "")
        self.assertIn("donmaz load: ECONNRESET, 3 times: Connection reset by peer\n", result.err)

    def test_bailout_ends_the_run(self):
        server = self.serve(resetting)
        result = load_json("-c", 1, "-d", "30s", "-B", 5, server.url())
        self.assertEqual(result.status, 1)
        self.assertLess(result.json["duration"], 25)
        self.assertGreaterEqual(result.json["errors"], 5)

    def test_megabytes_of_response_are_counted(self):
        size = 5_000_000
        body = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
        server = self.serve(answering(body))
        result = load_json("-c", 2, "-a", 6, server.url())
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(result.json["throughput"]["total"], 6 * len(body))

    def test_no_socket_gets_the_number_of_a_closed_stream_and_the_report_with_it(self):
        held, started = [], threading.Event()

        def looking(connection):
            connection.request()
            started.wait(60)
            if not held:
                held.append([os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)])
            connection.send(OK)

        server = self.serve(looking)
        process = subprocess.Popen(command("-c", 1, "-a", 1, server.url()),
                                   preexec_fn=lambda: os.closerange(0, 3))
        started.set()
        process.wait(timeout=180)
        server.close()
        self.assertEqual(held, [["/dev/null"] * 3])

    def test_an_endless_response_times_out(self):
        def endless(connection):
            connection.request()
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while connection.send(b"y" * 65536):
                pass

        server = self.serve(endless)
        result = load_json("-c", 1, "-a", 1, "-t", "200ms", server.url())
        self.assertEqual(result.json["errorClasses"], {"TIMEOUT": 1})

    @again_on_a_busy_machine
    def test_a_stopped_server_is_in_flight_at_the_end(self):
        server = self.serve(silent)
        result = load_json("-c", 3, "-d", "1s", server.url())
        self.assertEqual(result.json["unfinished"]["inFlight"], 3)
        self.assertGreater(result.json["unfinished"]["oldest_ms"], 100)


if __name__ == "__main__":
    main()
