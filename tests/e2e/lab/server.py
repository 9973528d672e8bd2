#!/usr/bin/env python3
"""A server with bad habits, for the lab's tests. /fast, /slow, /health answer 200."""
import argparse
import os
import signal
import socket
import socketserver
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler

parser = argparse.ArgumentParser()
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--body", default="hello world")
parser.add_argument("--die-after", type=int, default=-1, help="exit with 7 at that request")
parser.add_argument("--chatter", type=int, default=0, help="bytes to print for each request")
parser.add_argument("--deaf", action="store_true", help="ignore SIGTERM")
parser.add_argument("--daemon", help="start a daemon that leaves the group; its pid goes there")
parser.add_argument("--service", help="start a busy process of that name with 64 MB of memory")
parser.add_argument("--refuse", type=int, default=0, help="answer 503 to every so many requests")
parser.add_argument("--hang", help="a path that is never answered")
parser.add_argument("--pid-file", help="where to write our pid")
options = parser.parse_args()
served = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self):
        global served
        served += 1
        if served == options.die_after:
            print("giving up: out of ideas", file=sys.stderr, flush=True)
            os._exit(7)
        if options.chatter:
            sys.stdout.write("x" * (options.chatter - 1) + "\n")
            sys.stdout.flush()
        if self.path == options.hang:
            time.sleep(600)
        body = options.body.encode()
        refused = self.path != "/health" and options.refuse and served % options.refuse == 0
        self.wfile.write(b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
                         % (b"503 No" if refused else b"200 OK", len(body)) + body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if options.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if options.daemon:
    child = subprocess.Popen([sys.executable, "-c",
                              "import os, signal, time\n"
                              "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                              "os.setsid()\n"
                              f"open({options.daemon!r} + '.new', 'w').write(str(os.getpid()))\n"
                              f"os.rename({options.daemon!r} + '.new', {options.daemon!r})\n"
                              "time.sleep(600)"])
    while not os.path.exists(options.daemon):
        time.sleep(0.005)
if options.service:
    ready, told = os.pipe()
    if os.fork() == 0:
        memory = b"x" * (64 << 20)
        with open("/proc/self/comm", "w", encoding="ascii") as name:
            name.write(options.service)
        os.close(told)
        while time.process_time() < 60:
            pass
        os._exit(0)
    os.close(told)
    os.read(ready, 1)
if options.pid_file:
    with open(options.pid_file, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
Server((options.host, options.port), Handler).serve_forever()
