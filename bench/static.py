#!/usr/bin/env python3
"""CPU time per request for static files: donmaz's example `files` beside nginx with sendfile.

    bench/static.py BUILD_DIR [--rounds 3] [--seconds 3] [--connections 64] [--check]

One file a size, the servers in turn within each round and backwards in every other one; ratios are
taken within a round. nginx runs one worker with sendfile: as it is by default, with tcp_nopush (head
and file in one segment), and with its cache of open files (which shows a replaced file only after a
while, here at most a second). The client's CPU is shown, too: over the loopback the kernel does a
part of the sender's work in the receiver's name, or the other way round. --check: exit status 1 when
donmaz uses more CPU for the 100 KB file than the first of them. Exit status 3: a server did not
start, died, or answered wrongly."""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import proc
from servers import Failed, Server, fetch

SIZES = {"4 KB": 4096, "100 KB": 102400, "1 MB": 1 << 20}
JUDGED = "100 KB"

CONFIG = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
user {user};
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    sendfile on;
    {extra}
    tcp_nodelay on;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {root};
    }}
}}
"""
OPEN_FILE_CACHE = "open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s;"


class Nginx(Server):
    def __init__(self, name, root, extra=""):
        super().__init__(name, [shutil.which("nginx") or "/usr/sbin/nginx"])
        self.root, self.extra = root, extra

    def prepare(self, folder):
        config = os.path.join(folder, "nginx.conf")
        self.command = self.command[:1] + ["-p", folder, "-c", config]
        user = "root" if os.getuid() == 0 else "nobody"
        with open(config, "w", encoding="ascii") as file:
            file.write(CONFIG.format(folder=folder, port=self.port, root=self.root, extra=self.extra, user=user))


def load(port, path, connections, seconds):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"http://127.0.0.1:{port}{path}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"(\d+) requests in", run.stdout)
    bad = re.search(r"(Socket errors.*|Non-2xx.*)", run.stdout)
    if run.returncode or not found or bad or int(found[1]) == 0:
        raise Failed(f"wrk: {bad[1] if bad else run.stdout + run.stderr}")
    return int(found[1])


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(server, body, path, options):
    """Microseconds of CPU per request, requests per second, and the client's microseconds."""
    with tempfile.TemporaryDirectory(prefix="donmaz-bench-") as folder:
        server.start(folder, path, body)
        try:
            load(server.port, path, options.connections, 1)
            before, begin, client = server.cpu(), time.monotonic(), children_cpu()
            requests = load(server.port, path, options.connections, options.seconds)
            used, took = server.cpu() - before, time.monotonic() - begin
            client = children_cpu() - client
            if fetch(server.port, path).partition(b"\r\n\r\n")[2] != body:
                raise Failed(f"{server.name}: the file is not what it was")
            server.check_alive()
        finally:
            server.stop()
    return used / requests * 1e6, requests / took, client / requests * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of load a server, size and round")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--sizes", default=",".join(SIZES), help=f"of {', '.join(SIZES)}")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise Failed("wrk is not installed (make deps)")
    program = os.path.join(os.path.abspath(options.build), "examples", "files")
    missed = False
    with tempfile.TemporaryDirectory(prefix="donmaz-bench-files-") as root:
        os.chmod(root, 0o755)
        servers = [
            Server("donmaz", [program, "--root", root, "--host", "127.0.0.1", "--port", "{port}", "--quiet"]),
            Nginx("nginx, sendfile", root),
            Nginx("nginx, sendfile, tcp_nopush", root, "tcp_nopush on;"),
            Nginx("nginx, sendfile, open_file_cache", root, OPEN_FILE_CACHE)]
        print(proc.machine())
        print(f"{options.rounds} rounds of {options.seconds} s, {options.connections} connections, keep-alive, "
              "wrk on the same machine\n")
        print(f"{'file':8} {'server':34} {'us CPU/request':>14} {'x nginx':>8} {'min':>6} {'max':>6} {'req/s':>8} {'us client':>10}")
        for size in options.sizes.split(","):
            body = os.urandom(SIZES[size])
            with open(os.path.join(root, "file.bin"), "wb") as file:
                file.write(body)
            rounds = []
            for number in range(options.rounds):
                rounds.append({})
                for server in servers if number % 2 == 0 else reversed(servers):
                    rounds[-1][server.name] = measure(server, body, "/file.bin", options)
            for server in servers:
                cpu = statistics.median(r[server.name][0] for r in rounds)
                rps = statistics.median(r[server.name][1] for r in rounds)
                client = statistics.median(r[server.name][2] for r in rounds)
                ratios = [r[server.name][0] / r["nginx, sendfile"][0] for r in rounds]
                ratio = statistics.median(ratios)
                print(f"{size:8} {server.name:34} {cpu:14.1f} {ratio:8.2f} {min(ratios):6.2f} {max(ratios):6.2f} "
                      f"{rps:8.0f} {client:10.1f}", flush=True)
                if server.name == "donmaz" and size == JUDGED and ratio > 1:
                    missed = True
    if JUDGED in options.sizes:
        print(f"\n{JUDGED}: donmaz at most nginx's CPU per request: {'MISSED' if missed else 'holds'}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        print(f"bench: {failed}", file=sys.stderr)
        sys.exit(3)
