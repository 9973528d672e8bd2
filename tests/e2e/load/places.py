"""Where `donmaz load` connects to: unix sockets, IPv6, TLS, started commands, $PORT."""
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

from load_support import (OK, LoadTest, again_on_a_busy_machine, answering, command, counting_server,
                          load, load_json, main)

HERE = os.path.dirname(os.path.abspath(__file__))

# A server as a command: prints nothing, listens on any port (or the one given), answers all.
PROGRAM = ("import sys; sys.path.insert(0, %r)\n"
           "from load_support import *\n"
           "s = Server(answering())\n"
           "print('a line on stdout', flush=True)\n"
           "threading.Event().wait()\n" % HERE)

# Its handler, when it is to print a line at the first request.
TELLING = "answering(OK, lambda _, seen=[]: seen or seen.append(print('loaded', flush=True)))"


def make_certificate(folder, name):
    key, cert = os.path.join(folder, name + ".key"), os.path.join(folder, name + ".crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout", key, "-out",
                    cert, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"],
                   check=True, capture_output=True)
    return cert, key


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


class Places(LoadTest):
    def test_a_unix_socket(self):
        path = os.path.join(self.folder(), "s")
        server = self.serve_counting(family=socket.AF_UNIX, address=path)
        result = load_json("-a", 20, "-S", path, "http://some.host/x")
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(len(server.requests), 20)
        self.assertEqual(server.requests[0].headers["host"], "some.host")
        self.assertEqual(result.json["socketPath"], path)

    def test_a_unix_socket_that_is_not_there(self):
        path = os.path.join(self.folder(), "none")
        result = load("-S", path, "http://h/")
        self.assertEqual(result.status, 3)
        self.assertIn(f"can't connect to {path}: No such file or directory (ENOENT)", result.err)

    def test_ipv6(self):
        if not has_ipv6():
            self.skipTest("no IPv6 loopback here")
        server = self.serve_counting(family=socket.AF_INET6, address=("::1", 0))
        result = load_json("-a", 5, server.url(host="[::1]"))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(server.requests[0].headers["host"], f"[::1]:{server.port}")

    def test_a_name_with_several_addresses_uses_the_one_that_answers(self):
        server = self.serve_counting()  # 127.0.0.1 only; localhost may be ::1 first
        result = load_json("-a", 5, "-c", 2, server.url(host="localhost"))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(result.json["errors"], 0)

    def test_port_from_the_environment(self):
        server = self.serve_counting()
        result = load_json("-a", 2, "/path", env={"PORT": str(server.port)})
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(server.requests[0].path, "/path")
        result = load("/path")
        self.assertEqual(result.status, 2)
        self.assertIn("'/path' needs a host, a usable $PORT, or a command after --", result.err)


class Tls(LoadTest):
    def setUp(self):
        self.cert, self.key = make_certificate(self.folder(), "server.test")

    def tls_server(self, response=OK):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        server = counting_server(response, wrap=lambda s: context.wrap_socket(s, server_side=True))
        self.addCleanup(server.close)
        return server

    def test_a_certificate_nobody_vouches_for_is_refused(self):
        server = self.tls_server()
        result = load("-d", "60s", server.url(scheme="https"))  # it does not come to that
        self.assertEqual(result.status, 3)
        self.assertRegex(result.err, r"can't speak TLS with 127.0.0.1 port \d+: "
                                     r"certificate not accepted: self.signed certificate")
        self.assertEqual(server.requests, [])

    def test_verification_can_be_switched_off(self):
        server = self.tls_server()
        result = load_json("-k", "-a", 30, "-c", 3, "-p", 2, server.url(scheme="https"))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(len(server.requests), 30)

    def test_a_trusted_certificate_is_accepted_for_its_name_only(self):
        server = self.tls_server()
        good = load_json("--ca", self.cert, "-a", 5, server.url(scheme="https"))
        self.assertEqual(good.status, 0, good.err)
        named = load_json("--ca", self.cert, "-s", "server.test", "-a", 5,
                          server.url(scheme="https", host="localhost"))
        self.assertEqual(named.status, 0, named.err)
        wrong = load("--ca", self.cert, "-d", "60s", server.url(scheme="https", host="localhost"))
        self.assertEqual(wrong.status, 3)
        self.assertRegex(wrong.err, "certificate not accepted: (?i:hostname mismatch)")

    def test_large_bodies_both_ways(self):
        size = 3_000_000
        server = self.tls_server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"z" * size)
        path = os.path.join(self.folder(), "body")
        with open(path, "wb") as file:
            file.write(b"b" * size)
        result = load_json("-k", "-a", 4, "-c", 2, "-m", "POST", "-i", path,
                           server.url(scheme="https"))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual([len(r.body) for r in server.requests], [size] * 4)
        self.assertGreater(result.json["throughput"]["total"], 4 * size)

    def test_a_server_without_tls_is_one_clear_line(self):
        server = self.serve(lambda connection: connection.send(b"220 ready\r\n"))
        result = load("-k", "-d", "20s", server.url(scheme="https"))
        self.assertEqual(result.status, 3)
        self.assertIn("can't speak TLS with", result.err)

    def test_a_server_that_never_shakes_hands_is_one_clear_line(self):
        server = self.serve(answering())  # waits for a request in plain text
        result = load("-k", "-d", "200ms", server.url(scheme="https"))
        self.assertEqual(result.status, 3)
        self.assertRegex(result.err, r"no connection to 127.0.0.1 port \d+ in 200 ms\n$")


class Started(LoadTest):
    @again_on_a_busy_machine
    def test_the_command_is_loaded_sampled_and_ended(self):
        pidfile = os.path.join(self.folder(), "pid")
        program = f"import os; open({pidfile!r}, 'w').write(str(os.getpid()))\n" + PROGRAM
        result = load_json("-c", 2, "-d", "600ms", "/x", "--", sys.executable, "-c", program)
        self.assertEqual(result.status, 0, result.err)
        self.assertGreater(result.json["requests"]["total"], 0)
        with open(pidfile) as file:
            pid = int(file.read())
        self.assertEqual(result.json["target"]["pid"], pid)
        self.assertGreater(result.json["target"]["cpu_seconds"], 0)
        self.assertGreater(result.json["target"]["rss_kb_max"], 1000)
        self.assertIn("a line on stdout", result.err)  # and not among the JSON
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_a_command_that_prints_megabytes_loses_no_results(self):
        program = PROGRAM.replace("Server(answering())",
                                  "Server(answering(OK, lambda _: print('x' * 100000, flush=True)))")
        result = load_json("-c", 2, "-a", 40, "/", "--", sys.executable, "-c", program)
        self.assertEqual(result.status, 0, result.err[:300])
        self.assertEqual(result.json["requests"]["total"], 40)
        self.assertGreaterEqual(result.err.count("x"), 40 * 100000)

    def test_a_command_that_ends_at_once_is_one_clear_line(self):
        result = load("/x", "--", sys.executable, "-c", "raise SystemExit(7)")
        self.assertEqual(result.status, 3)
        self.assertIn("exited with status 7 before it listened; run it by hand to see why\n",
                      result.err)

    def test_a_command_that_is_not_there(self):
        result = load("/x", "--", "/no/such/program")
        self.assertEqual(result.status, 3)
        self.assertIn("can't start '/no/such/program': No such file or directory", result.err)

    def test_nothing_is_started_for_unusable_arguments(self):
        marker = os.path.join(self.folder(), "started")
        result = load("-H", "bad", "/x", "--", sys.executable, "-c", f"open({marker!r}, 'w')")
        self.assertEqual(result.status, 2)
        self.assertFalse(os.path.exists(marker))

    @again_on_a_busy_machine
    def test_a_target_is_sampled_by_its_pid(self):
        child = subprocess.Popen([sys.executable, "-c", PROGRAM.replace(
            "'a line on stdout'", "s.port")], stdout=subprocess.PIPE, text=True)
        try:
            port = int(child.stdout.readline())
            result = load_json("-d", "1500ms", "--pid", child.pid, f"http://127.0.0.1:{port}/")
        finally:
            child.kill()
            child.communicate()
        target = result.json["target"]
        self.assertEqual(target["pid"], child.pid)
        self.assertGreaterEqual(len(target["samples"]), 3)
        self.assertGreater(target["cpu_percent"], 0)
        self.assertEqual(set(target["samples"][0]), {"t_ms", "cpu_percent", "rss_kb"})

    def test_a_pid_that_is_not_there(self):
        server = self.serve(answering())
        child = subprocess.Popen(["true"])
        child.wait()
        result = load("--pid", child.pid, server.url())
        self.assertEqual(result.status, 3)
        self.assertIn(f"there is no process {child.pid} to sample", result.err)

    @again_on_a_busy_machine
    def test_a_stopped_process_hides_nothing(self):
        """Case 1 of the field: SIGSTOP for half of the run, one connection."""
        child = subprocess.Popen([sys.executable, "-c", PROGRAM.replace(
            "'a line on stdout'", "s.port").replace("answering()", TELLING)],
            stdout=subprocess.PIPE, text=True)
        try:
            port = int(child.stdout.readline())
            run = subprocess.Popen(command("-j", "--open", "-R", 100, "-c", 1, "-d", "2s",
                                           f"http://127.0.0.1:{port}/"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline(), "loaded\n")
            time.sleep(0.5)  # the pause itself is what is tested
            child.send_signal(signal.SIGSTOP)
            time.sleep(1)
            child.send_signal(signal.SIGCONT)
            out, err = run.communicate(timeout=60)
        finally:
            child.kill()
            child.communicate()
        figures = json.loads(out)
        self.assertEqual(run.returncode, 0, err)
        due = figures["latency"]
        self.assertGreater(due["p75"], 250)
        self.assertLess(due["p25"], due["p75"] / 2)
        self.assertGreater(due["max"], 750)
        self.assertLess(figures["latencyUncorrected"]["p90"], due["p90"] / 2)


if __name__ == "__main__":
    main()
