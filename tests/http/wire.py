"""What the wire tests share: servers as child processes, and connections that see every byte."""
import errno
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from processes import DEADLINE, PATIENT, again_on_a_busy_machine, cpu_seconds, wait_until  # noqa: E402,F401

BUILD = os.environ["DONMAZ_BUILD"]
# The address sanitizer keeps freed memory for a while: then how much there is proves nothing.
MEMORY_IS_EXACT = os.environ.get("DONMAZ_SANITIZE", "none") == "none"
HOST = b"Host: test\r\n"


def listening_sockets():
    """(port, inode) of IPv4 sockets that listen."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        for fields in map(str.split, file):
            if fields[3] == "0A":
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


class SocketDiag:
    """Asks the kernel for one TCP socket of the loopback (sock_diag(7)): reading all of them from
    /proc takes long on a machine where load tests have left thousands behind."""
    REQUEST, ERROR, BY_FAMILY = 1, 2, 20
    INFO = 2  # the attribute that holds a struct tcp_info
    BYTES_RECEIVED = 128  # where in it
    BEGINNING = (3, 12)  # TCP_SYN_RECV, TCP_NEW_SYN_RECV

    def __init__(self):
        self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4)
        self.lock = threading.Lock()  # a question and its answer belong together

    def has_read(self, local, peer, sent):
        """Whether the program of the socket at port `local` connected to port `peer` has read the
        `sent` bytes; or there is no such socket. (What was sent may still be on its way: with nothing
        in its queue the socket need not have got anything.)"""
        loopback = socket.inet_aton("127.0.0.1") + bytes(12)
        sockid = struct.pack("!HH", local, peer) + loopback * 2 + struct.pack("=III", 0, *[2**32 - 1] * 2)
        body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 1 << self.INFO - 1, 0,
                           2**32 - 1) + sockid
        with self.lock:
            self.netlink.send(struct.pack("=IHHII", 16 + len(body), self.BY_FAMILY, self.REQUEST, 0, 0)
                              + body)
            answer = self.netlink.recv(4096)
        if struct.unpack_from("=H", answer, 4)[0] == self.ERROR:
            code = -struct.unpack_from("=i", answer, 16)[0]
            if code == errno.ENOENT:
                return True
            raise OSError(code, os.strerror(code))
        waiting = struct.unpack_from("=I", answer, 16 + 4 + 48 + 4)[0]
        return waiting == 0 and self._received(answer) >= sent

    def _received(self, answer):
        """tcpi_bytes_received: none while the connection is only being made, and no end of them once
        the program has closed it."""
        at = 16 + 72
        while at + 4 <= len(answer):
            length, kind = struct.unpack_from("=HH", answer, at)
            if kind == self.INFO:
                return struct.unpack_from("=Q", answer, at + 4 + self.BYTES_RECEIVED)[0]
            at += (length + 3) & ~3
        return 0 if answer[17] in self.BEGINNING else float("inf")


DIAG = SocketDiag()


class Server:
    """`program` of the build folder on a free port; a context manager that ends it and checks that
    it left in order."""

    def __init__(self, program, *args, files=None):
        self.log = tempfile.TemporaryFile()
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) \
            if files else None
        self.process = subprocess.Popen(
            [os.path.join(BUILD, program), "--host", "127.0.0.1", "--port", "0", *args],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=limit,
            env={**PATIENT, **os.environ})
        self.pid, self.told = self.process.pid, False
        try:
            self.port = wait_until(self._listening_port, f"{program} listens")
        except BaseException:
            self.process.kill()
            self.process.wait()
            print(self.output(), file=sys.stderr)
            raise

    def _listening_port(self):
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}: {self.output()}")
        try:
            links = self.fd_links()
        except (FileNotFoundError, PermissionError):
            return None  # it has just ended: the next look sees how
        for port, inode in listening_sockets():
            if f"socket:[{inode}]" in links:
                return port
        return None

    def fd_links(self):
        """What its descriptors are; those it closes meanwhile are left out."""
        links = []
        for fd in self.fds():
            try:
                links.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return links

    def fds(self):
        return os.listdir(f"/proc/{self.pid}/fd")

    def output(self):
        # Not by seek and read: the server writes at the same offset.
        return os.pread(self.log.fileno(), 1 << 24, 0).decode(errors="replace")

    def cpu_seconds(self):
        return cpu_seconds(self.pid)

    def rss_kb(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def connect(self, **options):
        return Connection(self.port, **options)

    def exchange(self, data):
        """Everything the server sends on a connection that sends `data` and then nothing more."""
        with self.connect() as c:
            c.send(data)
            c.half_close()
            return c.rest()

    def terminate(self):
        """Tells it to stop, once: a second signal ends it at once."""
        if not self.told:
            self.told = True
            self.process.terminate()

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not stop when told to: {self.output()}") from None
        finally:
            text = self.output()
            self.log.close()
        if code != 0:
            raise AssertionError(f"exit code {code}: {text}")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind:
            print(self.output(), file=sys.stderr)
            self.process.kill()
            self.process.wait()
            self.log.close()
        else:
            self.stop()


class Response:
    def __init__(self, head):
        lines = head.split("\r\n")
        self.version, status, self.reason = lines[0].split(" ", 2)
        self.status = int(status)
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        self.body = b""

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def get(self, name):
        """The one value of that field; None when absent."""
        values = self.all(name)
        if len(values) > 1:
            raise AssertionError(f"{name} {len(values)} times")
        return values[0] if values else None

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.headers} {self.body[:200]!r}>"


class Connection:
    def __init__(self, port, receive_buffer=None):
        self.socket = socket.socket()
        self.socket.settimeout(DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.port, self.server_port = self.socket.getsockname()[1], port
        self.sent = 0  # by send()
        self.left = False  # reads no more, so the server may have to stop reading, too
        self.got = bytearray()  # received and not yet taken

    def send(self, *pieces):
        """Sends each piece; the server reads one before it gets the next."""
        for i, piece in enumerate(pieces):
            if i:
                self.wait_read()
            self.socket.sendall(piece)
            self.sent += len(piece)

    def wait_read(self):
        """Until the server has read all that was sent, or has no such connection any more; no longer
        than this end is there to read the replies."""
        wait_until(lambda: self.left or DIAG.has_read(self.server_port, self.port, self.sent),
                   "the server reads what was sent")

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def vanish(self):
        """Neither reads nor writes any more, and keeps the socket."""
        self.left = True
        self.socket.shutdown(socket.SHUT_RDWR)

    def reset(self):
        """Closes so that the server gets a RST."""
        self.left = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def _more(self):
        piece = self.socket.recv(65536)
        self.got += piece
        return bool(piece)

    def _take(self, count):
        while len(self.got) < count:
            if not self._more():
                raise AssertionError(f"closed in mid-response after {self.got!r}")
        taken = bytes(self.got[:count])
        del self.got[:count]
        return taken

    def _take_line(self):
        while b"\r\n" not in self.got:
            if not self._more():
                raise AssertionError(f"closed in mid-line after {self.got!r}")
        return self._take(self.got.index(b"\r\n") + 2)[:-2]

    def _take_chunks(self):
        body = bytearray()
        while True:
            size = int(self._take_line(), 16)
            body += self._take(size)
            if self._take_line() != b"":
                raise AssertionError("no CRLF after a chunk (or trailers)")
            if size == 0:
                return bytes(body)

    def read_response(self, head=False):
        """The next response; `head`: it answers a HEAD request, so it has no body."""
        lines = []
        while True:
            line = self._take_line()
            if not line:
                break
            lines.append(line.decode("latin-1"))
        response = Response("\r\n".join(lines))
        if head or response.status < 200 or response.status in (204, 304):
            return response
        if response.get("Transfer-Encoding") == "chunked":
            response.body = self._take_chunks()
        elif response.get("Content-Length") is not None:
            response.body = self._take(int(response.get("Content-Length")))
        else:
            response.body = self.rest()
        return response

    def request(self, data, head=False):
        self.send(data)
        return self.read_response(head)

    def get(self, path, *fields):
        return self.request(get(path, *fields))

    def rest(self):
        """All further bytes until the server closes."""
        while self._more():
            pass
        taken, self.got = bytes(self.got), bytearray()
        return taken

    def closed(self):
        """Waits for the end of the connection; fails when anything comes before it."""
        try:
            rest = self.rest()
        except ConnectionResetError:
            return True
        if rest:
            raise AssertionError(f"expected the end, got {rest!r}")
        return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def head(line, *fields):
    """A request head from its line and fields, each bytes without CRLF."""
    return b"\r\n".join([line, b"Host: test", *fields]) + b"\r\n\r\n"


def get(path, *fields):
    return head(b"GET " + path.encode() + b" HTTP/1.1", *fields)


def post(path, body, *fields):
    length = b"Content-Length: %d" % len(body)
    return head(b"POST " + path.encode() + b" HTTP/1.1", length, *fields) + body


def chunked(*chunks):
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])


def split_everywhere(data):
    """The two parts of data at each point inside it."""
    return ((data[:at], data[at:]) for at in range(1, len(data)))
