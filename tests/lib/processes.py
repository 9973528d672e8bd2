"""Waiting for conditions, and looking at processes. What every Python test shares.

Nothing here sleeps as synchronisation: wait_until polls a condition until a deadline."""
import functools
import os
import queue
import random
import signal
import socket
import sys
import time

# Seconds for anything that must happen. Generous, because the machine may be busy and the program
# sanitized: it only ends a hanging test.
DEADLINE = float(os.environ.get("DONMAZ_TEST_DEADLINE", "60"))
# For a service's environment: limits that a test does not set itself must not pass while it gets no
# core.
PATIENT = {f"DONMAZ_{name}_TIMEOUT": "10m" for name in ("HEADER", "IDLE", "BODY", "WRITE")}


def wait_until(condition, what):
    """The first true value of condition(), which is polled."""
    until = time.monotonic() + DEADLINE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"did not happen within {DEADLINE:.0f} s: {what}")
        time.sleep(0.002)


def again_on_a_busy_machine(test):
    """For tests whose subject is time: what others do to one run proves nothing (a limit of the
    program's own may pass while this test gets no core), so it is made again; a fault of ours is in
    every run. The test makes all that it needs anew, and uses no subTest, which would note the
    failure."""

    @functools.wraps(test)
    def tried(*args, **kwargs):
        for _ in range(4):
            try:
                return test(*args, **kwargs)
            except (AssertionError, OSError, queue.Empty) as error:
                print(f"again: {type(error).__name__}: {error}", file=sys.stderr)
        return test(*args, **kwargs)

    return tried


_held = []


def free_ports(count):
    """Ports for programs that can't choose their own, or that come back at the same one. Below those
    that the kernel gives to whoever asks for any; and held until the test ends, by sockets that do
    not listen, so that no other test takes them (who sets SO_REUSEADDR can still listen there)."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    ports = []
    for port in random.sample(range(end // 2, end), end - end // 2):
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _held.append(holder)
        ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError("no free ports")


def wait_refused(port):
    """Until nobody listens at that port of the loopback. (A port that was given up may be somebody
    else's for a while, and a connection to it may meet itself.)"""
    def refused():
        try:
            socket.create_connection(("127.0.0.1", port), DEADLINE).close()
        except ConnectionRefusedError:
            return True
        except OSError:  # it met the closing of the socket; now it is closed
            pass
        return False
    wait_until(refused, f"port {port} refuses connections")


def stop_process(pid):
    """SIGSTOP, and until it stands still: the signal alone is only a request."""
    os.kill(pid, signal.SIGSTOP)

    def stands():
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
        return True
    wait_until(stands, f"process {pid} stands still")


def cpu_seconds(pid):
    """What it has used so far, its threads together."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def alive(pid):
    """Neither gone nor a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
