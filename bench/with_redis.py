#!/usr/bin/env python3
"""Runs a command beside a private Redis that holds the 100 KB document of redis-json.

    bench/with_redis.py COMMAND [ARG...]      REDIS_URL and DONMAZ_REDIS are set for it

The command takes this process's place, so that its CPU time is its own; Redis is a process of its
own session, kept by one that ends it when the command ends. With REDIS_PID_FILE in the environment
Redis' process id is written there."""
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DOC_BYTES = 102400


def document():
    """JSON of exactly DOC_BYTES, the same each time."""
    letters = random.Random(42)
    items, size = [], len('{"items":[]}')
    while size < DOC_BYTES:
        item = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=60))
        items.append(item)
        size += len(item) + 3
    items[-1] = items[-1][:len(items[-1]) - (size - 1 - DOC_BYTES)]
    text = json.dumps({"items": items}, separators=(",", ":"))
    assert len(text) == DOC_BYTES, len(text)
    return text.encode()


def command(path, *args, deadline=10):
    """One Redis command over a connection of its own; the first line of the answer."""
    end = time.monotonic() + deadline
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(deadline)
                s.connect(path)
                wire = b"*%d\r\n" % len(args)
                for arg in args:
                    wire += b"$%d\r\n%s\r\n" % (len(arg), arg)
                s.sendall(wire)
                return s.recv(4096).split(b"\r\n")[0]
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def start(folder, **popen):
    """A redis-server with the document, as the reference has it: no persistence, 512 MB."""
    path = os.path.join(folder, "sock")
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
         "--maxmemory", "512mb", "--dir", folder],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **popen)
    answer = command(path, b"SET", b"doc", document())
    if answer != b"+OK":
        server.kill()
        raise RuntimeError(f"redis-server answered {answer!r}")
    return server, path


def keep(watched, report):
    """In a process of its own: Redis until the watched process ends."""
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that what follows is cleaned up
    folder = tempfile.mkdtemp(prefix="donmaz-bench-")
    server = None
    try:
        server, path = start(folder)
        os.write(report, f"{server.pid} {path}".encode())
        os.close(report)
        select.select([watched], [], [])
    finally:
        if server:
            server.terminate()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not shutil.which("redis-server"):
        sys.exit("with_redis.py: redis-server is not installed: apt-get install redis-server")
    watched = os.pidfd_open(os.getpid())
    out, report = os.pipe()
    if os.fork() == 0:  # twice, so that the keeper is nobody's child
        if os.fork() == 0:
            os.close(out)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            keep(watched, report)
        os._exit(0)
    os.wait()
    os.close(report)
    told = os.read(out, 4096).decode()
    os.close(out)
    if not told:
        sys.exit("with_redis.py: redis-server did not start")
    pid, path = told.split(" ", 1)
    if "REDIS_PID_FILE" in os.environ:
        with open(os.environ["REDIS_PID_FILE"], "w", encoding="utf-8") as file:
            file.write(pid)
    os.environ["REDIS_URL"] = os.environ["DONMAZ_REDIS"] = "unix://" + path
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"with_redis.py: {sys.argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main()
