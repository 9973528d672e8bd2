"""Certificates that `donmaz load` must not accept, each refused in one line, unless -k says so."""
import os
import ssl
import subprocess

from load_support import OK, LoadTest, counting_server, load, load_json, main

CONFIG = """[ca]
default_ca = own
[own]
database = {folder}/index
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Certificates(LoadTest):
    """An authority of our own, which --ca makes load trust, and what it signed."""

    def setUp(self):
        self.place = self.folder()
        self.ca, self.ca_key = self.path("ca.crt"), self.path("ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days", "30000", "-subj", "/CN=test authority", "-keyout", self.ca_key, "-out", self.ca)
        for name, text in (("index", ""), ("serial", "01\n"),
                           ("config", CONFIG.format(folder=self.place))):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(text)

    def path(self, name):
        return os.path.join(self.place, name)

    def server(self, start, end, name="DNS:localhost,IP:127.0.0.1"):
        key, request, cert = self.path("s.key"), self.path("s.csr"), self.path("s.crt")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                "/CN=s", "-addext", f"subjectAltName={name}", "-keyout", key, "-out", request)
        openssl("ca", "-batch", "-notext", "-config", self.path("config"), "-cert", self.ca,
                "-keyfile", self.ca_key, "-startdate", start, "-enddate", end, "-in", request,
                "-out", cert)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server = counting_server(OK, wrap=lambda s: context.wrap_socket(s, server_side=True))
        self.addCleanup(server.close)
        return server.url(scheme="https"), server

    def refused(self, url, server, why):
        result = load("--ca", self.ca, "-d", "200ms", url)
        self.assertEqual(result.status, 3)
        self.assertRegex(result.err, rf"can't speak TLS with 127.0.0.1 port \d+: "
                                     rf"certificate not accepted: (?i:{why})")
        self.assertEqual(server.requests, [])
        unchecked = load_json("-k", "-a", 3, "-c", 1, url)
        self.assertEqual(unchecked.status, 0, unchecked.err)

    def test_one_that_is_right_is_accepted(self):
        url, _ = self.server("20000101000000Z", "20900101000000Z")
        result = load_json("--ca", self.ca, "-a", 3, "-c", 1, url)
        self.assertEqual(result.status, 0, result.err)

    def test_an_expired_one_is_refused(self):
        self.refused(*self.server("20000101000000Z", "20010101000000Z"), "certificate has expired")

    def test_one_of_the_future_is_refused(self):
        self.refused(*self.server("20850101000000Z", "20900101000000Z"),
                     "certificate is not yet valid")

    def test_one_for_another_name_is_refused(self):
        self.refused(*self.server("20000101000000Z", "20900101000000Z", "DNS:other.test"),
                     "ip address mismatch")

    def test_one_of_an_unknown_authority_is_refused(self):
        url, server = self.server("20000101000000Z", "20900101000000Z")
        result = load("-d", "200ms", url)
        self.assertEqual(result.status, 3)
        self.assertRegex(result.err, "certificate not accepted: ")
        self.assertEqual(server.requests, [])


if __name__ == "__main__":
    main()
