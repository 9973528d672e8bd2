"""Runs server.c for the cluster's tests, and asks it things."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from processes import (DEADLINE, PATIENT, alive, children, stop_process, wait_refused,  # noqa: E402,F401
                       wait_until)


class Connection:
    """One keep-alive connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.input = b""

    def send(self, path):
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: t\r\n\r\n".encode())

    def receive(self):
        """(status, headers in lower case, body), or None when the connection was closed."""
        while b"\r\n\r\n" not in self.input:
            if not self._read():
                return None
        head, _, self.input = self.input.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        length = int(headers.get("content-length", "0"))
        while len(self.input) < length:
            if not self._read():
                return None
        body, self.input = self.input[:length], self.input[length:]
        return int(lines[0].split()[1]), headers, body

    def _read(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self.input += data
        return bool(data)

    def pid(self):
        self.send("/pid")
        response = self.receive()
        assert response and response[0] == 200, response
        return json.loads(response[2])["pid"]

    def close(self):
        self.socket.close()


class Service:
    """The program with its supervisor. Everything it started is ended by pid at the end."""

    def __init__(self, *arguments, program=None, processes=2, environment=None, **popen):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = self.folder.name
        self.log = open(os.path.join(self.dir, "log"), "w+b")
        self.seen = set()
        self.connections = []
        command = [program or sys.argv[1], "--port", "0", "--processes", str(processes),
                   "--dir", self.dir, *arguments]
        self.process = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env={**PATIENT, **os.environ, **(environment or {})}, **popen)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()
        pids = self.workers() + [pid for pid in self.seen if self.is_ours(pid)]
        self.process.kill()
        self.process.wait()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                if self.is_ours(pid):
                    os.kill(pid, signal.SIGKILL)
        self.log.close()
        self.folder.cleanup()

    def is_ours(self, pid):
        """The pid was not given to another program meanwhile."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return self.dir.encode() in file.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False

    # --- what it says

    def text(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def messages(self):
        """The messages of the whole NDJSON lines so far, with the pid that wrote each."""
        found = []
        for line in self.text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                entry = json.loads(line)
                found.append((entry["pid"], entry["msg"]))
        return found

    def said(self, part):
        return [message for _, message in self.messages() if part in message]

    def wait_said(self, part, times=1):
        return wait_until(lambda: len(self.said(part)) >= times and self.said(part),
                          f"'{part}' x {times} in the log:\n{self.text()}")

    # --- what it does

    def port(self):
        def find():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.text()}")
            return self.said("listening on ")
        line = wait_until(find, "listening")[0]
        return int(line.rpartition(":")[2])

    def connect(self):
        connection = Connection(self.port())
        self.connections.append(connection)
        return connection

    def workers(self):
        """Those that live; the supervisor may not have waited for one that ended yet."""
        found = [pid for pid in children(self.pid) if alive(pid)]
        self.seen.update(found)
        return found

    def signs(self, what):
        """The pids that left such a sign."""
        return [int(name.rpartition(".")[2]) for name in os.listdir(self.dir)
                if name.startswith(what + ".")]

    def create(self, name):
        with open(os.path.join(self.dir, name), "w", encoding="ascii"):
            pass

    def remove(self, name):
        os.remove(os.path.join(self.dir, name))

    def wait_held(self, count=1):
        return wait_until(lambda: len(self.signs("held")) >= count and self.signs("held"),
                          "a held request")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(timeout=DEADLINE)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
