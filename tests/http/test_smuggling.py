"""Bytes that two programs could read differently, sent to donmaz alone and through nginx to donmaz:
none may be two requests to one of them and one request to the other."""
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

import wire
from wire import get

PROGRAM = "tests/http/http-test-server"
INNER = b"GET /bytes/7 HTTP/1.1\r\nHost: inner\r\n\r\n"

CONF = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 64; }}
http {{
  log_format seen '$upstream_status';
  access_log {folder}/seen seen; lingering_close off;
  proxy_ignore_client_abort on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream donmaz {{ server 127.0.0.1:{port}; keepalive 4; }}
  server {{
    listen unix:{folder}/socket;
    location / {{ proxy_pass http://donmaz; proxy_http_version 1.1; proxy_set_header Connection "";
                 proxy_request_buffering {buffering}; }}
  }}
}}
"""


def post(*fields, body=b"", version=b"HTTP/1.1"):
    return b"\r\n".join([b"POST /read/10 " + version, b"Host: outer", *fields]) + b"\r\n\r\n" + body


def ambiguous():
    """What is sent first; a plain request follows it on the same connection."""
    length = b"Content-Length: %d" % len(INNER)
    zero = b"0\r\n\r\n"
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(INNER), INNER)
    coding = b"Transfer-Encoding: chunked"
    for both in ((length, coding), (coding, length), (b"Content-Length: 0", coding)):
        yield post(*both, body=zero + INNER)
        yield post(*both, body=whole)
    for odd in (b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked",
                b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity",
                b"Transfer-Encoding: identity, chunked", b"Transfer-Encoding: gzip, chunked",
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding: \"chunked\"",
                b"X: y\nTransfer-Encoding: chunked", b"X: y\rTransfer-Encoding: chunked",
                b"Transfer_Encoding: chunked", b" Transfer-Encoding: chunked",
                b"Transfer-Encoding\x00: chunked", b"Transfer-Encoding: chunked;q=1",
                b"Transfer-Encoding: CHUNKED", b"Transfer-Encoding:chunked\t"):
        yield post(odd, body=zero + INNER)
        yield post(length, odd, body=zero + INNER)
        yield post(odd, length, body=zero + INNER)
    for number in (b"+0", b"-0", b"0x0", b"0, 0", b"00", b" 0", b"0 0", b"0;", b"0\t", b"\x0b0",
                   b"18446744073709551616", b"0.0", b"1e1", b""):
        yield post(b"Content-Length: " + number, body=INNER)
    yield post(b"Content-Length: 0", length, body=INNER)
    yield post(length, b"Content-Length: 0", body=INNER)
    yield post(b"Content-Length: 0", b"Content-Length: 0", body=INNER)
    yield post(b"Content-Length : 0", length, body=INNER)
    yield post(b"Content-Length: 0\r\n ,%d" % len(INNER), body=INNER)
    for size in (b"0x0", b"+0", b"-0", b" 0", b"0 ", b"00", b"0;x", b"0;x\ny", b"0\n", b"0\r",
                 b"10000000000000000", b"", b"g"):
        yield post(coding, body=size + b"\r\n\r\n" + INNER)
    for end in (b"\n", b"\r", b"", b"\r\r\n", b"xx"):
        yield post(coding, body=b"1\r\na" + end + zero + INNER)
    yield post(coding, body=b"0\r\nContent-Length: %d\r\n\r\n" % len(INNER) + INNER)
    yield post(coding, body=b"0\r\nX: y\n\n" + INNER)
    yield post(coding, body=b"0\n\n" + INNER)
    yield post(coding, body=zero + INNER, version=b"HTTP/1.0")
    yield post(length, body=INNER, version=b"HTTP/1.0")
    yield post(length, body=INNER, version=b"HTTP/1.2")
    yield b"GET /bytes/1 HTTP/1.1\r\nHost: a\r\n" + length + b"\r\n\r\n" + INNER
    yield b"GET /bytes/1 HTTP/1.1\r\nHost: a\r\n" + coding + b"\r\n\r\n" + zero + INNER
    yield b"GET /bytes/1 HTTP/1.1\nHost: a\n\n" + INNER
    yield b"GET /bytes/1\r\n\r\n" + INNER
    yield b"GET /bytes/1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + INNER
    yield b"GET  /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n" + INNER


def talk(sock, data):
    """Everything that comes back until the end."""
    got = b""
    with sock:
        sock.settimeout(wire.DEADLINE)
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while more := sock.recv(65536):
                got += more
        except OSError:
            pass  # it refused before it had read all
    return got


class Nginx:
    def __init__(self, port, buffering):
        self.folder = tempfile.mkdtemp(prefix="dz-nginx-")
        conf = os.path.join(self.folder, "conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write(CONF.format(folder=self.folder, port=port, buffering=buffering))
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
        assert program, "nginx is not installed (scripts/deps)"
        self.process = subprocess.Popen([program, "-p", self.folder, "-c", conf],
                                        stderr=subprocess.DEVNULL)
        wire.wait_until(self.answers, "nginx listens")

    def connect(self):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(os.path.join(self.folder, "socket"))
        except OSError:
            sock.close()
            raise
        return sock

    def answers(self):
        try:
            self.connect().close()
            return True
        except OSError:
            assert self.process.poll() is None, "nginx did not start"
            return False

    def passed_on(self):
        """How many requests it has sent to donmaz: it logs each when it is over."""
        with open(os.path.join(self.folder, "seen"), encoding="ascii") as file:
            return sum(line.strip() not in ("", "-") for line in file)

    def stop(self):
        self.process.terminate()
        self.process.wait(wire.DEADLINE)
        shutil.rmtree(self.folder)


class Smuggling(unittest.TestCase):
    def handled(self, server):
        with server.connect() as c:
            return int(c.get("/requests").body)

    def alone(self, server, data):
        before = self.handled(server)
        talk(socket.create_connection(("127.0.0.1", server.port)), data)
        return self.handled(server) - before

    def behind(self, server, nginx, data):
        """(requests that nginx passed on, requests that donmaz saw of them)"""
        before, seen = self.handled(server), nginx.passed_on()
        talk(nginx.connect(), data)
        return nginx.passed_on() - seen, self.handled(server) - before

    def test_nginx_and_donmaz_see_the_same_requests(self):
        disagreed = []
        with wire.Server(PROGRAM) as server:
            for buffering in ("on", "off"):
                nginx = Nginx(server.port, buffering)
                self.addCleanup(nginx.stop)
                # It works at all: two requests are two to everybody.
                plain = get("/bytes/1") + get("/bytes/2")
                self.assertEqual(self.alone(server, plain), 2)
                self.assertEqual(self.behind(server, nginx, plain), (2, 2))
                for first in ambiguous():
                    data = first + get("/bytes/3")
                    alone, (passed, seen) = self.alone(server, data), self.behind(server, nginx, data)
                    if seen > passed or (alone > 1 and passed > 1 and alone != passed) \
                            or (alone > passed > 0):
                        disagreed.append((buffering, first, alone, passed, seen))
        self.assertEqual(disagreed, [])


if __name__ == "__main__":
    unittest.main()
