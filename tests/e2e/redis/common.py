"""What the Redis tests share: a scripted Redis that does exactly what it is told, and real ones."""
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../http"))
import wire
from processes import free_ports, stop_process  # in tests/lib, which wire adds to the path

PROGRAM = "tests/e2e/redis/redis-test-server"


def stats(connection):
    return json.loads(connection.get("/stats").body)


class Speaker:
    """Accepts connections at `listener` and hands each command to _command(connection, words), on a
    thread of its connection's own."""

    def __init__(self, listener):
        self.listener, self.commands, self.connections = listener, queue.Queue(), []
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection.makefile("rb") as file:
                while line := file.readline():
                    words = []
                    for _ in range(int(line[1:])):
                        size = int(file.readline()[1:])
                        words.append(file.read(size + 2)[:-2])
                    self._command(connection, words)
        except (OSError, ValueError):
            pass

    def _command(self, connection, words):
        raise NotImplementedError

    def next(self):
        """The next (connection, words) that a test is to answer."""
        return self.commands.get(timeout=wire.DEADLINE)

    def stop_listening(self):
        """From here on nobody can connect, and `connections` holds all that did. The place stays
        taken until close()."""
        try:
            self.listener.shutdown(2)  # wakes the thread that accepts
        except OSError:
            pass
        self.acceptor.join()

    def close(self):
        self.stop_listening()
        for connection in self.connections:
            connection.close()
        self.listener.close()


class Scripted(Speaker):
    """A unix socket that talks RESP. Handshakes are answered; each other command waits in
    `commands` as (connection, [words]) for the test to answer."""

    def __init__(self, hello=True, tracking=b"+OK\r\n", greeting=None):
        self.tracking, self.hello, self.greeting = tracking, hello, greeting
        self.greetings = []
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "sock")
        self.url = "unix://" + self.path
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen()
        super().__init__(listener)

    def _greet(self, words):
        if self.greeting:
            return self.greeting(words)
        if words[0] == b"HELLO":
            return b"%1\r\n+proto\r\n:3\r\n" if self.hello else b"-ERR unknown command 'HELLO'\r\n"
        return self.tracking if words[0] == b"CLIENT" else b"+OK\r\n"

    def _command(self, connection, words):
        if words[0] in (b"HELLO", b"CLIENT", b"AUTH", b"SELECT", b"PING"):
            self.greetings.append(words)
            connection.sendall(self._greet(words))
        else:
            self.commands.put((connection, words))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self.folder.cleanup()


def bulk(value):
    return b"$%d\r\n%s\r\n" % (len(value), value)


def invalidate(key):
    return b">2\r\n+invalidate\r\n*1\r\n" + bulk(key)


HAVE_REDIS = shutil.which("redis-server") is not None


class Real:
    """A redis-server that can be killed, paused and started again at the same place."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "sock")
        self.url = "unix://" + self.path
        self.start(*options)

    def start(self, *options):
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
             "--dir", self.folder.name, "--enable-debug-command", "local",
             "--busy-reply-threshold", "50", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wire.wait_until(lambda: self.command(b"PING")[:5] in (b"+PONG", b"-NOAU"), "redis-server answers")

    def command(self, *words):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(wire.DEADLINE)
                s.connect(self.path)
                s.sendall(b"*%d\r\n" % len(words) + b"".join(bulk(word) for word in words))
                return s.recv(65536)
        except OSError:
            return b""

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def pause(self):
        stop_process(self.process.pid)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.folder.cleanup()
