"""Runs server.c for the tests of logging and metrics, and asks it things."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from processes import (DEADLINE, PATIENT, again_on_a_busy_machine, children,  # noqa: E402,F401
                       stop_process, wait_until)

SERVER = sys.argv[1]


def read_lines(path):
    """The whole lines of an NDJSON file, each as an object; invalid ones fail."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines(keepends=True)
                if line.endswith("\n")]


def messages(path):
    return [line["msg"] for line in read_lines(path)]


class Service:
    """The program, its log in a file of its own folder unless told otherwise. Ended by pid."""

    def __init__(self, *arguments, log=None, admin=True, **popen):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = self.folder.name
        self.log = os.path.join(self.dir, "log") if log is None else log
        self.errors = os.path.join(self.dir, "stderr")
        self.out = os.path.join(self.dir, "stdout")
        command = [SERVER, "--port", "0", "--log", self.log, *arguments]
        if admin:
            command += ["--admin", "0"]
        files = {name: popen.pop(name) if name in popen else open(path, "wb")
                 for name, path in (("stdout", self.out), ("stderr", self.errors))}
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        env={**PATIENT, **os.environ}, **files, **popen)
        for file in files.values():
            if hasattr(file, "close"):
                file.close()
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def text(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def said(self, pattern, path=None):
        path = path or self.log
        def find():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: "
                                     f"{self.text(self.errors)}")
            return os.path.exists(path) and re.search(pattern, self.text(path))
        return wait_until(find, f"{pattern} in {path}")

    def port(self, path=None):
        return int(self.said(r"listening on http://[^\"]*:(\d+)\"", path)[1])

    def admin_port(self, path=None):
        return int(self.said(r"metrics on http://[^\"]*:(\d+)/metrics", path)[1])

    def connect(self, port=None):
        return http.client.HTTPConnection("127.0.0.1", port or self.port(), timeout=DEADLINE)

    def get(self, path, headers=None, port=None):
        connection = self.connect(port)
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def metrics(self):
        status, body = self.get("/metrics", port=self.admin_port())
        assert status == 200, (status, body)
        return body

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=DEADLINE)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
