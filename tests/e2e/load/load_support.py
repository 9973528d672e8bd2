"""Scripted servers and a way to run `donmaz load` against them."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from processes import again_on_a_busy_machine  # noqa: E402,F401

DONMAZ = os.environ.get("DONMAZ", "donmaz")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Request:
    """One request as received: method, path, headers (names in lower case), body."""

    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.method, self.path, _ = lines[0].split(" ", 2)
        self.fields = [tuple(line.split(": ", 1)) for line in lines[1:] if line]
        self.headers = {name.lower(): value for name, value in self.fields}
        self.body = body


class Connection:
    """A server's end of a connection, with buffered reading of requests."""

    def __init__(self, sock):
        self.sock = sock
        self.data = b""

    def request(self):
        """The next request, or None at the end of the stream."""
        while b"\r\n\r\n" not in self.data:
            if not self._more():
                return None
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        request = Request(head, b"")
        length = int(request.headers.get("content-length", 0))
        while len(self.data) < length:
            if not self._more():
                return None
        request.body, self.data = self.data[:length], self.data[length:]
        return request

    def _more(self):
        try:
            more = self.sock.recv(65536)
        except OSError:
            return False
        self.data += more
        return bool(more)

    def send(self, data):
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            return False

    def reset(self):
        """Closes with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()


class Server:
    """Accepts connections and gives each to `handle(connection)` in a thread of its own; the socket
    is closed when it returns. Counts connections, and requests that handlers report with `count`."""

    def __init__(self, handle, family=socket.AF_INET, address=("127.0.0.1", 0), wrap=None):
        self.handle, self.wrap = handle, wrap
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(address)
        self.listener.listen(512)
        self.address = self.listener.getsockname()
        self.lock = threading.Lock()
        self.connections = 0
        self.requests = []
        self.open = set()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def port(self):
        return self.address[1]

    def url(self, path="/", scheme="http", host="127.0.0.1"):
        return f"{scheme}://{host}:{self.port}{path}"

    def count(self, request):
        with self.lock:
            self.requests.append(request)

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.wrap:
                sock = self.wrap(sock)
            self.handle(Connection(sock))
        except OSError:
            pass
        finally:
            sock.close()

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        # Not while connections are still being added: those would neither be seen nor be closed.
        self.thread.join()
        self.listener.close()
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def answering(response=OK, seen=None):
    """A handler that answers every request with `response` (bytes, or a function of the request)."""

    def handle(connection):
        while request := connection.request():
            if seen:
                seen(request)
            if not connection.send(response(request) if callable(response) else response):
                return

    return handle


def counting_server(response=OK, **kwargs):
    """A server that answers all and keeps every request in .requests."""
    server = None

    def seen(request):
        server.count(request)

    server = Server(answering(response, seen), **kwargs)
    return server


class Outcome:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self._json = None

    @property
    def json(self):
        if self._json is None:
            self._json = json.loads(self.out)
        return self._json


def command(*args):
    return [DONMAZ, "load", *map(str, args)]


def load(*args, timeout=180, env=None):
    """Runs it to the end."""
    full = dict(os.environ, **(env or {}))
    full.pop("PORT", None) if not env or "PORT" not in env else None
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=timeout, env=full)
    return Outcome(done.returncode, done.stdout, done.stderr)


def load_json(*args, **kwargs):
    return load("-j", *args, **kwargs)


class LoadTest(unittest.TestCase):
    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def serve(self, *args, **kwargs):
        server = Server(*args, **kwargs)
        self.addCleanup(server.close)
        return server

    def serve_counting(self, *args, **kwargs):
        server = counting_server(*args, **kwargs)
        self.addCleanup(server.close)
        return server


def main():
    unittest.main(argv=[sys.argv[0], "-q", *sys.argv[1:]])
