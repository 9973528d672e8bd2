#!/usr/bin/env python3
"""How evenly few connections are spread over two processes, by three ways to share a port; and what
the third one costs.

    bench/spread.py build

SO_REUSEPORT: a listening socket a process, the kernel picks one by hash. EPOLLEXCLUSIVE: one
listening socket, which of the waiting processes wakes is up to the kernel. Supervisor: donmaz's
--processes 2. Each trial opens four connections one after the other, as a load generator with two a
route does, and is even when the first two are on different processes and the last two as well."""
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys

TRIALS = 300


def serve(index, listener, exclusive):
    """Accepts, tells each client which process it is on, and holds on until the client closes."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN | (select.EPOLLEXCLUSIVE if exclusive else 0))
    clients = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                try:
                    client, _ = listener.accept()
                except BlockingIOError:
                    continue
                clients[client.fileno()] = client
                poll.register(client, select.EPOLLIN)
                client.send(bytes([index]))
            else:
                poll.unregister(fd)
                clients.pop(fd).close()


def listen(port=0):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(512)
    listener.setblocking(False)
    return listener


def start_pair(reuseport):
    first = listen()
    port = first.getsockname()[1]
    listeners = [first, listen(port) if reuseport else first]
    pids = []
    for index, listener in enumerate(listeners):
        pid = os.fork()
        if pid == 0:
            signal.alarm(120)
            try:
                serve(index, listener, not reuseport)
            finally:
                os._exit(1)
        pids.append(pid)
    for listener in set(listeners):
        listener.close()
    return port, pids


def ask_pair(connection):
    return connection.recv(1)


def ask_donmaz(connection):
    connection.sendall(b"GET /pid HTTP/1.1\r\nHost: b\r\n\r\n")
    return json.loads(connection.recv(4096).partition(b"\r\n\r\n")[2])["pid"]


def measure(port, ask):
    even = one = 0
    for _ in range(TRIALS):
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        on = [ask(connection) for connection in connections]
        even += on[0] != on[1] and on[2] != on[3]
        one += len(set(on)) == 1
        for connection in connections:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):  # until the server has closed it too
                pass
            connection.close()
    return f"{100 * even / TRIALS:5.1f}% even   {100 * one / TRIALS:5.1f}% all on one process"


class Donmaz:
    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([program, "--port", "0", *arguments],
                                        stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)\"", self.process.stderr.readline()).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()


def cpu_us(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def cost(build, processes):
    """CPU per connection with one request each, of the first process and of all."""
    with Donmaz(f"{build}/examples/hello", "--processes", str(processes)) as server:
        top = server.process.pid
        with open(f"/proc/{top}/task/{top}/children", encoding="ascii") as file:
            pids = [top, *map(int, file.read().split())]
        before = [cpu_us(pid) for pid in pids]
        out = subprocess.run(["wrk", "-t1", "-c16", "-d4", "-H", "Connection: close",
                              f"http://127.0.0.1:{server.port}/"],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
        used = [cpu_us(pid) - start for pid, start in zip(pids, before)]
        count = int(re.search(r"(\d+) requests in", out).group(1))
        return count, used[0] / count, sum(used) / count


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    for name, reuseport in (("SO_REUSEPORT", True), ("EPOLLEXCLUSIVE", False)):
        port, pids = start_pair(reuseport)
        try:
            print(f"{name:15} {measure(port, ask_pair)}", flush=True)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    with Donmaz(f"{build}/tests/e2e/cluster/cluster-server", "--processes", "2") as server:
        print(f"{'supervisor':15} {measure(server.port, ask_donmaz)}", flush=True)
    if not shutil.which("wrk"):
        print("cost: wrk is not installed")
        return
    for _ in range(2):
        for processes in (1, 2):
            count, first, everything = cost(build, processes)
            print(f"--processes {processes}: {count / 4:.0f} connections/s, CPU per connection "
                  f"{everything:.1f} us in all, {first:.1f} us in the process that was started")


main()
