"""rediss:// against redis-server's TLS port, with an authority made here."""
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

import common
import wire
from common import free_ports, stats


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder, and what it signed."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.cert, self.key = self.path(f"{name}.crt"), self.path(f"{name}.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-keyout", self.key, "-out", self.cert, "-days", "2",
                "-subj", f"/CN=authority {name}")

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, alt, *validity):
        """(certificate, key) for `alt`, such as DNS:localhost; for two days unless told."""
        cert, key, request = (self.path(f"{name}.{kind}") for kind in ("crt", "key", "csr"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extensions = self.path("extensions")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={alt}\n")
        if validity:  # openssl x509 can't, openssl ca can
            index, serial = self.path("index"), self.path("serial")
            with open(index, "w", encoding="ascii"):
                pass
            with open(serial, "w", encoding="ascii") as file:
                file.write("02\n")
            config = self.path("ca.cnf")
            with open(config, "w", encoding="ascii") as file:
                file.write(f"[ca]\ndefault_ca=x\n[x]\ndatabase={index}\nserial={serial}\n"
                           f"new_certs_dir={self.folder}\ndefault_md=sha256\npolicy=p\n"
                           "[p]\ncommonName=supplied\n")
            openssl("ca", "-batch", "-config", config, "-in", request, "-out", cert, "-notext",
                    "-cert", self.cert, "-keyfile", self.key, "-extfile", extensions,
                    "-startdate", validity[0], "-enddate", validity[1])
        else:
            openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                    "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", cert)
        return cert, key


class TlsRedis:
    """redis-server with a TLS port (and, for the tests' own commands, a unix socket)."""

    def __init__(self, authority, cert, key, clients="no", *more):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "sock")
        self.port = free_ports(1)[0]
        self.options = [
            "--port", "0", "--tls-port", str(self.port), "--unixsocket", self.path, "--save", "",
            "--dir", self.folder.name, "--bind", "127.0.0.1", "--tls-cert-file", cert,
            "--tls-key-file", key, "--tls-ca-cert-file", authority.cert,
            "--tls-auth-clients", clients, *more]
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", *self.options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        wire.wait_until(lambda: self.command(b"PING") == b"+PONG\r\n", "redis-server answers")

    command = common.Real.command
    kill = common.Real.kill
    __enter__ = common.Real.__enter__
    __exit__ = common.Real.__exit__


class Fake:
    """A TCP server whose connections a function serves."""

    def __init__(self, serve):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.serve, self.connections = serve, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def until_closed(connection):
    while connection.recv(65536):
        pass


@unittest.skipUnless(common.HAVE_REDIS and shutil.which("openssl"), "redis-server or openssl is missing")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.authority = Authority(cls.folder.name, "right")
        cls.other = Authority(cls.folder.name, "wrong")
        cls.by_name = cls.authority.sign("by-name", "DNS:localhost")
        cls.by_address = cls.authority.sign("by-address", "IP:127.0.0.1")
        cls.expired = cls.authority.sign("expired", "DNS:localhost",
                                         "200101000000Z", "200102000000Z")
        cls.client = cls.authority.sign("client", "DNS:client")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def serve(self, port, *options, host="localhost", timeout=20000):
        return wire.Server(common.PROGRAM, "--redis", f"rediss://{host}:{port}",
                           "--redis-timeout", str(timeout), *options)

    def refused(self, port, *options, host="localhost"):
        """The reason that is told when no connection comes about, which must be at once."""
        with self.serve(port, *options, host=host) as server, server.connect() as c:
            self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            why = c.get("/why").body.decode()
            wire.wait_until(lambda: why in server.output(), "it is told to the service, too")
            return why

    def works(self, server, value=b"v" * 100000):
        with server.connect() as c:
            body = b"PUT /set/k HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(value) + value
            self.assertEqual(c.request(body).status, 200)
            self.assertEqual(c.get("/get/k").body, value)
            self.assertEqual(c.get("/why").body, b"")

    def test_with_the_right_authority(self):
        with TlsRedis(self.authority, *self.by_name) as redis, \
                self.serve(redis.port, "--redis-ca", self.authority.cert) as server:
            self.works(server)
            self.works(server, b"w" * 900000)

    def test_many_at_once_over_several_connections(self):
        with TlsRedis(self.authority, *self.by_name) as redis, \
                self.serve(redis.port, "--redis-ca", self.authority.cert, "--redis-connections", "3",
                           "--redis-cache", "0") as server:
            with server.connect() as c:
                for key in range(20):
                    value = b"%d:" % key + b"x" * (key * 5000)
                    c.request(b"PUT /set/%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                              % (key, len(value)) + value)
            wrong = []

            def read(first):
                with server.connect() as c:
                    for i in range(60):
                        key = (first + i) % 20
                        if c.get(f"/get/{key}").body != b"%d:" % key + b"x" * (key * 5000):
                            wrong.append(key)
            threads = [threading.Thread(target=read, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])

    def test_an_address_is_verified_too(self):
        with TlsRedis(self.authority, *self.by_address) as redis:
            with self.serve(redis.port, "--redis-ca", self.authority.cert, host="127.0.0.1") as server:
                self.works(server)
            self.assertIn("ostname mismatch", self.refused(redis.port, "--redis-ca", self.authority.cert))

    def test_another_name_than_the_certificate_s(self):
        with TlsRedis(self.authority, *self.by_name) as redis:
            ca = ("--redis-ca", self.authority.cert)
            self.assertIn("IP address mismatch", self.refused(redis.port, *ca, host="127.0.0.1"))
            with self.serve(redis.port, *ca, "--redis-name", "localhost", host="127.0.0.1") as server:
                self.works(server)

    def test_a_wrong_authority(self):
        with TlsRedis(self.authority, *self.by_name) as redis:
            why = self.refused(redis.port, "--redis-ca", self.other.cert)
            self.assertRegex(why, r"localhost:\d+: TLS: the server's certificate is not accepted: (unable to get local issuer|self-signed certificate in certificate chain)")
            # Without a file: whom the system trusts, which is not this authority.
            self.assertIn("certificate is not accepted", self.refused(redis.port))
            with self.serve(redis.port, "--redis-insecure") as server:
                self.works(server)

    def test_an_expired_certificate(self):
        with TlsRedis(self.authority, *self.expired) as redis:
            self.assertIn("certificate has expired", self.refused(redis.port, "--redis-ca", self.authority.cert))

    def test_a_client_certificate(self):
        with TlsRedis(self.authority, *self.by_name, clients="yes") as redis:
            ca = ("--redis-ca", self.authority.cert)
            cert, key = self.client
            with self.serve(redis.port, *ca, "--redis-cert", cert, "--redis-key", key) as server:
                self.works(server)
            self.assertRegex(self.refused(redis.port, *ca), "alert certificate required|handshake failure")

    def test_sni_is_sent(self):
        names = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.by_name)
        context.sni_callback = lambda sock, name, ctx: names.append(name)

        def serve(connection):
            with context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1000)
                secure.sendall(b"-ERR no\r\n")
        with Fake(serve) as fake:
            self.assertIn("refused: ERR no", self.refused(fake.port, "--redis-ca", self.authority.cert))
        self.assertEqual(set(names), {"localhost"})

    def test_files_that_are_not_there_or_not_certificates(self):
        empty = os.path.join(self.folder.name, "empty")
        with open(empty, "w", encoding="ascii"):
            pass
        cert, key = self.client
        for options, error in ((("--redis-ca", "/nowhere"), "ENOENT"),
                               (("--redis-ca", empty), "DZ_E_FORMAT"),
                               (("--redis-cert", cert, "--redis-key", self.by_name[1]), "DZ_E_FORMAT"),
                               (("--redis-cert", key), "DZ_E_FORMAT")):
            with self.subTest(options=options), self.assertRaisesRegex(AssertionError, f"open: {error}"):
                self.serve(1, *options).stop()

    def test_a_server_that_dies_during_the_handshake(self):
        def read_and_close(connection):
            connection.recv(5)
        def half_a_hello(connection):
            connection.recv(5000)
            connection.sendall(b"\x16\x03\x03\x00\x7a\x02\x00")
        for serve in (lambda connection: None, read_and_close, half_a_hello):
            with Fake(serve) as fake:
                self.assertRegex(self.refused(fake.port, "--redis-ca", self.authority.cert),
                                 "TLS( handshake)?: (connection closed|Connection reset|unexpected eof)")

    def test_a_server_that_falls_silent_during_the_handshake(self):
        with Fake(until_closed) as fake, \
                self.serve(fake.port, "--redis-ca", self.authority.cert, timeout=200) as server, \
                server.connect() as c:
            self.assertIn(c.get("/get/k").body, (b"DZ_E_UNAVAILABLE", b"DZ_E_TIMEOUT"))
            # Which a busy machine may reach only when it is tried again.
            wire.wait_until(lambda: c.get("/get/k") and
                            b"TLS handshake: timed out (is this a TLS port?)" in c.get("/why").body,
                            "the reason is told")

    def test_a_plain_port_and_plain_to_a_tls_port(self):
        def answer_plainly(connection):
            connection.recv(5000)
            connection.sendall(b"-ERR Protocol error: unexpected byte\r\n")
            until_closed(connection)
        with Fake(answer_plainly) as fake:
            self.assertIn("TLS: wrong version number", self.refused(fake.port, "--redis-insecure"))
        with TlsRedis(self.authority, *self.by_name) as redis, \
                wire.Server(common.PROGRAM, "--redis", f"redis://localhost:{redis.port}") as server, \
                server.connect() as c:
            self.assertEqual(c.get("/get/k").body, b"DZ_E_UNAVAILABLE")
            self.assertIn(b"a TLS port is spoken to with rediss://", c.get("/why").body)

    def test_a_cluster(self):
        """The map has the nodes' TLS ports, and their addresses are what certificates must name."""
        node_options = ("--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", str(free_ports(1)[0]))
        cert, key = self.authority.sign("both", "DNS:localhost,IP:127.0.0.1")
        with TlsRedis(self.authority, cert, key, "no", *node_options) as redis:
            self.assertEqual(redis.command(b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"), b"+OK\r\n")
            wire.wait_until(lambda: b"cluster_state:ok" in redis.command(b"CLUSTER", b"INFO"), "the cluster is up")
            with wire.Server(common.PROGRAM, "--redis", f"rediss+cluster://localhost:{redis.port}",
                             "--redis-ca", self.authority.cert, "--redis-timeout", "20000") as server, \
                    server.connect() as c:
                self.works(server)
                self.assertEqual(c.get("/mget/k,none").body, b"v" * 100000 + b"\n-\n")

    def test_killed_and_started_again(self):
        with TlsRedis(self.authority, *self.by_name) as redis, \
                self.serve(redis.port, "--redis-ca", self.authority.cert) as server, \
                server.connect() as c:
            self.works(server)
            redis.kill()
            wire.wait_until(lambda: c.get("/get/k").status == 503 and
                            b"Connection refused" in c.get("/why").body, "it is noticed")
            redis.start()
            wire.wait_until(lambda: c.get("/get/k").status == 404, "it is found again")
            self.works(server)
            self.assertEqual(stats(c)["waiting"], 0)
            self.assertEqual(stats(c)["waiting_bytes"], 0)

    def test_the_tracking_cache(self):
        with TlsRedis(self.authority, *self.by_name) as redis, \
                self.serve(redis.port, "--redis-ca", self.authority.cert, "--redis-cache", "1000000") as server, \
                server.connect() as c:
            self.works(server)
            self.works(server, b"other")
            hits = stats(c)["hits"]
            wire.wait_until(lambda: c.get("/get/k").body == b"other" and stats(c)["hits"] > hits,
                            "it is in the cache")
            redis.command(b"SET", b"k", b"changed")
            wire.wait_until(lambda: c.get("/get/k").body == b"changed", "the change is seen")


unittest.main()
