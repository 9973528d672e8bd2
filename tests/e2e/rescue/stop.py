"""How a service ends: by a drain, at its deadline, or at a second signal; and why it may not start."""
import os
import signal
import socket
import subprocess
import tempfile
import unittest

import wire
from processes import wait_refused  # in tests/lib, which wire adds to the path
from wire import get, wait_until

PROGRAM = "tests/e2e/rescue/rescue-server"


def wait_begun(server, count):
    wait_until(lambda: server.output().count("begun\n") == count, f"{count} handlers run")


def exit_code(server):
    code = server.process.wait(wire.DEADLINE)
    text = server.output()
    server.log.close()
    return code, text


class Case(unittest.TestCase):
    def sign(self):
        """A path where there is nothing until give()."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return os.path.join(folder.name, "until")


def give(path):
    with open(path, "w", encoding="ascii"):
        pass


class Drain(Case):
    def test_requests_in_flight_are_answered_and_idle_connections_closed(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            until = self.sign()
            server = wire.Server(PROGRAM, "--drain-timeout", "1h", "--until", until)
            idle, busy, second = server.connect(), server.connect(), server.connect()
            self.assertEqual(idle.get("/").status, 200)
            self.assertEqual(second.get("/").status, 200)
            busy.send(get("/park"))
            second.send(get("/spin"))
            wait_begun(server, 2)
            server.process.send_signal(number)
            self.assertEqual(idle.rest(), b"")  # so it is stopping
            wait_refused(server.port)
            give(until)
            for connection in (busy, second):
                response = connection.read_response()
                self.assertEqual(response.status, 200)
                self.assertEqual(response.get("Connection"), "close")
                self.assertEqual(connection.rest(), b"")
                connection.close()
            idle.close()
            code, text = exit_code(server)
            self.assertEqual(code, 0, text)
            self.assertIn("stopping", text)

    def test_what_only_waits_is_cut_at_the_deadline(self):
        server = wire.Server(PROGRAM, "--drain-timeout", "100ms")
        with server.connect() as c:
            c.send(get("/sleep/3600000"))
            wait_begun(server, 1)
            server.terminate()
            c.rest()
        code, text = exit_code(server)
        self.assertEqual(code, 0, text)

    def test_a_handler_that_computes_past_the_deadline_makes_the_exit_code_1(self):
        for args in ((), ("--rescue-after", "0")):
            server = wire.Server(PROGRAM, "--drain-timeout", "100ms", *args)
            with server.connect() as c:
                c.send(get("/forever"))
                wait_begun(server, 1)
                server.terminate()
                code, text = exit_code(server)
                c.closed()
            self.assertEqual(code, 1, text)
            self.assertIn("handlers still compute after --drain-timeout", text)

    def test_rescued_handlers_answer_once_and_whole_before_the_deadline(self):
        for args in ((), ("--processes", "2")):
            until = self.sign()
            server = wire.Server(PROGRAM, "--loops", "1", "--drain-timeout", "1h", "--until", until,
                                 *args)
            idle = [server.connect() for _ in range(2)]  # of two workers each has one
            for connection in idle:
                self.assertEqual(connection.get("/").body, b"hello")
            connections = [server.connect() for _ in range(6)]
            for connection in connections:
                connection.send(get("/spin"))
            wait_begun(server, 6)  # more than there are loops: taken over
            server.terminate()
            for connection in idle:
                self.assertEqual(connection.rest(), b"")  # so it is stopping
                connection.close()
            give(until)
            for connection in connections:
                response = connection.read_response()
                self.assertEqual((response.status, response.body), (200, b"spun"))
                self.assertEqual(response.get("Connection"), "close")
                self.assertEqual(connection.rest(), b"")
                connection.close()
            code, text = exit_code(server)
            self.assertEqual(code, 0, text)

    def test_rescued_handlers_past_the_deadline_make_the_exit_code_1(self):
        for processes in (1, 2):
            server = wire.Server(PROGRAM, "--loops", "1", "--drain-timeout", "100ms",
                                 "--processes", str(processes))
            connections = [server.connect() for _ in range(6)]
            for connection in connections:
                connection.send(get("/forever"))
            wait_begun(server, 6)
            server.terminate()
            code, text = exit_code(server)  # only the deadline ends it
            for connection in connections:
                self.assertTrue(connection.closed())
                connection.close()
            self.assertEqual(code, 1, text)
            # Said by each process; or by the supervisor, if one got no core to end by itself.
            ends = text.count("handlers still compute after --drain-timeout")
            ends += text.count("did not end after --drain-timeout")
            self.assertGreaterEqual(ends, processes, text)

    def test_a_second_signal_ends_at_once(self):
        server = wire.Server(PROGRAM, "--drain-timeout", "1h")
        with server.connect() as c:
            c.send(get("/sleep/3600000"))
            with server.connect() as other:
                self.assertEqual(other.get("/").status, 200)
            server.process.send_signal(signal.SIGHUP)  # nothing to reload: no signal to end
            server.terminate()
            wait_until(lambda: "stopping" in server.output(), "the drain begins")
            server.process.send_signal(signal.SIGHUP)
            self.assertIsNone(server.process.poll())
            server.process.send_signal(signal.SIGTERM)
            code, text = exit_code(server)
            self.assertEqual(code, 1, text)


class Rescue(Case):
    def test_others_are_served_while_a_handler_computes_and_it_is_told_once(self):
        until = self.sign()
        with wire.Server(PROGRAM, "--loops", "1", "--until", until) as server:
            with server.connect() as slow, server.connect() as other:
                slow.send(get("/spin"))
                wait_begun(server, 1)
                for _ in range(20):  # while it computes
                    self.assertEqual(other.get("/").body, b"hello")
                give(until)
                self.assertEqual(slow.read_response().body, b"spun")
            told = wait_until(lambda: [line for line in server.output().splitlines()
                                       if "GET /spin computed" in line], "it is logged")
            self.assertEqual(len(told), 1)


class Start(unittest.TestCase):
    def run_program(self, *args):
        return subprocess.run([os.path.join(wire.BUILD, PROGRAM), *args], capture_output=True,
                              text=True, timeout=wire.DEADLINE, check=False)

    def test_a_port_in_use_is_told_with_what_to_do(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.run_program("--port", str(port))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f"can't listen on 127.0.0.1 port {port}: Address already in use; another "
                      "program listens there: stop it, or choose another --port", done.stderr)

    def test_an_address_of_nobody_is_told(self):
        done = self.run_program("--host", "192.0.2.1", "--port", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("check --host", done.stderr)

    def test_a_bad_option_is_exit_code_2_and_help_is_0(self):
        done = self.run_program("--prot", "80")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean --port?", done.stderr)
        done = self.run_program("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--drain-timeout TIME", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
