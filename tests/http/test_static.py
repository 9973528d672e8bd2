"""Files over the wire: what is served, what never is, and what happens when a file or its reader
misbehaves."""
import email.utils
import gzip
import os
import random
import tempfile
import time
import unittest

import wire
from wire import get, head, post

PROGRAM = "tests/http/http-content-server"
BIG = random.Random(7).randbytes(8 << 20)
OLD = 1_000_000_000  # a time long past: the files' validators are strong


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        outside = os.path.join(cls.folder.name, "outside")
        cls.root = os.path.join(cls.folder.name, "root")
        for path in (outside, cls.root, cls.root + "/dir", cls.root + "/dir/deep", cls.root + "/empty.d",
                     cls.root + "/.hidden", cls.root + "/.well-known", cls.root + "/b c&d"):
            os.mkdir(path)
        cls.write("/../outside/secret.txt", b"secret")
        cls.write("/index.html", b"<p>start")
        cls.write("/dir/index.html", b"<p>dir")
        cls.write("/dir/deep/x.txt", b"deep")
        cls.write("/a.txt", b"0123456789")
        cls.write("/app.js", b"let plain = 1;" * 2000)
        cls.write("/empty.txt", b"")
        cls.write("/big.bin", BIG)
        cls.write("/.hidden/x.txt", b"hidden")
        cls.write("/.env", b"hidden")
        cls.write("/.well-known/token", b"token")
        cls.write("/.well-known/.env", b"hidden")
        os.symlink("a.txt", cls.root + "/inside.txt")
        os.symlink("../outside/secret.txt", cls.root + "/out.txt")
        os.symlink(outside, cls.root + "/outdir")
        os.symlink("loop", cls.root + "/loop")
        os.symlink("/proc/self/root" + outside + "/secret.txt", cls.root + "/magic.txt")
        os.mkfifo(cls.root + "/fifo")
        cls.server = wire.Server(PROGRAM, "--root", cls.root)
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def write(cls, path, data, mtime=OLD):
        with open(cls.root + path, "wb") as file:
            file.write(data)
        os.utime(cls.root + path, (mtime, mtime))

    def setUp(self):
        self.c = self.server.connect()
        self.addCleanup(self.c.close)

    def get(self, path, *fields):
        return self.c.get(path, *fields)


class Names(Case):
    def test_files_with_their_types(self):
        for path, kind, body in (("/a.txt", "text/plain; charset=utf-8", b"0123456789"),
                                 ("/app.js", "text/javascript; charset=utf-8", b"let plain = 1;" * 2000),
                                 ("/empty.txt", "text/plain; charset=utf-8", b""),
                                 ("/big.bin", "application/octet-stream", BIG),
                                 ("/inside.txt", "text/plain; charset=utf-8", b"0123456789"),
                                 ("/dir/", "text/html; charset=utf-8", b"<p>dir"),
                                 ("/", "text/html; charset=utf-8", b"<p>start"),
                                 ("/dir/../a%2Etxt", "text/plain; charset=utf-8", b"0123456789"),
                                 ("//dir//deep/./x.txt", "text/plain; charset=utf-8", b"deep")):
            with self.subTest(path=path):
                response = self.get("/files" + path)
                self.assertEqual((response.status, response.get("Content-Type")), (200, kind))
                self.assertTrue(response.body == body)
                self.assertEqual(response.get("Cache-Control"), "public, max-age=3600, immutable")
                self.assertEqual(response.get("Accept-Ranges"), "bytes")
                headed = self.c.request(head(b"HEAD /files" + path.encode() + b" HTTP/1.1"), head=True)
                drop = ("Date",)
                self.assertEqual([h for h in headed.headers if h[0] not in drop],
                                 [h for h in response.headers if h[0] not in drop])
        self.write("/x.OWN", b"own")
        self.assertEqual(self.get("/files/x.OWN").get("Content-Type"), "application/x-own")

    def test_nothing_outside_the_folder_or_hidden(self):
        for path in ("/../outside/secret.txt", "/%2e%2e/outside/secret.txt", "/dir/%2E%2E/%2e./outside/secret.txt",
                     "/..%2foutside%2fsecret.txt", "/..%5coutside%5csecret.txt", "/dir/../../outside/secret.txt",
                     "/a.txt%00", "/a.txt%00.html", "/%", "/%zz", "/out.txt", "/outdir/secret.txt", "/outdir/",
                     "/magic.txt", "/loop", "/fifo", "/.env", "/%2eenv", "/dir/../.env", "/.hidden/x.txt",
                     "/.hidden/", "/.", "/a.txt/", "/a.txt/b", "/missing", "/empty.d/", "/" + "a" * 300,
                     "/" + "a/" * 2500, "/.well-known/token", "/dir/deep/"):
            with self.subTest(path=path), self.server.connect() as c:
                response = c.get("/files" + path)
                expected = (200,) if path == "/." else (400, 404)
                self.assertIn(response.status, expected)
                self.assertNotIn(b"secret", response.body)
                self.assertNotIn(b"hidden", response.body)
        for raw in (b"/files/..\\outside\\secret.txt", b"/files/\x00"):
            with self.server.connect() as c:
                self.assertEqual(c.request(head(b"GET " + raw + b" HTTP/1.1")).status, 400)

    def test_well_known_is_served_where_asked_for(self):
        self.assertEqual(self.get("/app/.well-known/token").body, b"token")
        for path in ("/app/.well-known/.env", "/app/.env", "/app/dir/.well-known/token", "/app/.well-knownx"):
            self.assertEqual(self.get(path).status, 404)

    def test_a_folder_is_redirected_to_its_slash(self):
        for path, where in (("/files", "/files/"), ("/files/dir", "/files/dir/"),
                            ("/files/dir?q=1&r", "/files/dir/?q=1&r"), ("/app/dir", "/app/dir/"),
                            ("/files//dir", "/files/dir/"), ("/files/b%20c&d", "/files/b%20c&d/"),
                            ("/files/x/../dir", "/files/dir/")):
            with self.subTest(path=path):
                response = self.get(path)
                self.assertEqual((response.status, response.get("Location")), (301, where))

    def test_a_redirect_never_names_another_host(self):
        os.makedirs(self.root + "/evil.example", exist_ok=True)
        with wire.Server("examples/files", "--root", self.root) as server, server.connect() as c:
            for path in ("//evil.example", "/%2e//evil.example", "//evil.example/../evil.example"):
                self.assertEqual(c.get(path).get("Location"), "/evil.example/")
            self.assertEqual(c.get("/").body, b"<p>start")
            self.assertEqual(c.get("/health").body, b'{"ok":true}')  # other routes go first

    def test_other_methods_are_405(self):
        for method in (b"POST", b"PUT", b"DELETE"):
            for path in (b"/files/a.txt", b"/files/"):
                response = self.c.request(post("", b"x").replace(b"POST ", method + b" " + path, 1))
                self.assertEqual((response.status, response.get("Allow")), (405, "GET, HEAD, OPTIONS"))

    def test_a_page_that_is_missing_falls_back_and_a_file_does_not(self):
        self.assertEqual(self.get("/app/users/7").body, b"<p>start")
        self.assertEqual(self.get("/app/users/7").get("Content-Type"), "text/html; charset=utf-8")
        self.assertEqual(self.get("/app/missing.js").status, 404)

    def test_a_handler_sends_a_file(self):
        response = self.get("/send/dir/deep/x.txt")
        self.assertEqual((response.status, response.body, response.get("Content-Type"),
                          response.get("Content-Disposition"), response.get("Cache-Control")),
                         (200, b"deep", "application/x-own", "attachment", "private"))
        for path in ("/send/../a.txt", "/send/dir%2f..%2fa.txt", "/send/%2e%2e%2foutside%2fsecret.txt", "/send/dir",
                     "/send/dir/", "/send/.env", "/send/missing"):
            response = self.get(path)
            self.assertEqual(response.status, 404, path)
            self.assertIsNone(response.get("Content-Disposition"))

    def test_a_root_that_is_no_folder_is_refused_at_start(self):
        with self.assertRaises(AssertionError) as failed:
            wire.Server("examples/files", "--root", self.root + "/nowhere").stop()
        self.assertIn("No such file or directory", str(failed.exception))


class Validators(Case):
    def test_304_and_412(self):
        full = self.get("/files/a.txt")
        tag, date = full.get("ETag").encode(), full.get("Last-Modified").encode()
        self.assertEqual(date, b"Sun, 09 Sep 2001 01:46:40 GMT")
        for fields, status in (([b"If-None-Match: " + tag], 304), ([b"If-Modified-Since: " + date], 304),
                               ([b"If-None-Match: \"x\""], 200), ([b"If-Match: \"x\""], 412),
                               ([b"If-Match: " + tag], 200), ([b"If-None-Match: " + tag, b"Range: bytes=0-1"], 304),
                               ([b"If-Match: \"x\"", b"Range: bytes=0-1"], 412)):
            with self.subTest(fields=fields):
                response = self.get("/files/a.txt", *fields)
                self.assertEqual(response.status, status)
                if status == 304:
                    self.assertEqual(response.get("ETag"), full.get("ETag"))
                    self.assertEqual(response.get("Vary"), "Accept-Encoding")
                    self.assertEqual(response.get("Cache-Control"), full.get("Cache-Control"))
                    self.assertIsNone(response.get("Content-Type"))
        self.write("/a.txt", b"9876543210", OLD + 1)
        self.assertEqual(self.get("/files/a.txt", b"If-None-Match: " + tag).body, b"9876543210")
        self.write("/a.txt", b"0123456789")

    def test_a_file_changed_just_now_has_a_weak_tag_and_no_date_in_the_future(self):
        """Its time may not tell the next change apart yet."""
        self.write("/new.txt", b"x" * 100, time.time() + 1000)
        response = self.get("/files/new.txt")
        self.assertTrue(response.get("ETag").startswith('W/"'))
        self.assertLessEqual(email.utils.parsedate(response.get("Last-Modified")),
                             email.utils.parsedate(response.get("Date")))
        tag = response.get("ETag").encode()
        for validator in (tag, response.get("Last-Modified").encode()):
            partial = self.get("/files/new.txt", b"Range: bytes=0-1", b"If-Range: " + validator)
            self.assertEqual(partial.status, 200)
        self.assertEqual(self.get("/files/new.txt", b"If-None-Match: " + tag).status, 304)


class Ranges(Case):
    def test_one_range(self):
        for field, body, where in ((b"bytes=0-3", b"0123", "0-3"), (b"bytes=4-", b"456789", "4-9"),
                                   (b"bytes=-3", b"789", "7-9"), (b"bytes=-30", b"0123456789", "0-9"),
                                   (b"bytes=9-99", b"9", "9-9"), (b"BYTES=0-0", b"0", "0-0"),
                                   (b"bytes=0-18446744073709551616", b"0123456789", "0-9"),
                                   (b"bytes= 1-2 ,", b"12", "1-2"), (b"bytes=50-60,2-3", b"23", "2-3")):
            with self.subTest(field=field):
                response = self.get("/files/a.txt", b"Range: " + field)
                self.assertEqual((response.status, response.body, response.get("Content-Range")),
                                 (206, body, f"bytes {where}/10"))

    def test_what_can_t_be_satisfied(self):
        for field in (b"bytes=10-", b"bytes=99-100", b"bytes=-0", b"bytes=18446744073709551615-"):
            response = self.get("/files/a.txt", b"Range: " + field)
            self.assertEqual((response.status, response.get("Content-Range")), (416, "bytes */10"), field)
            self.assertIsNone(response.get("ETag"))

    def test_what_is_no_range_gets_the_whole(self):
        for field in (b"bytes=", b"bytes=a-b", b"bytes=3-1", b"bytes=1", b"lines=0-1", b"bytes=0-1,x", b"bytes=--1",
                      b"bytes 0-1", b"bytes=0-1-2", b",", b"bytes=,", b"bytes=" + b"0-0," * 17,
                      b"bytes=0-9,0-9"):  # more than the whole
            response = self.get("/files/a.txt", b"Range: " + field)
            self.assertEqual((response.status, response.body), (200, b"0123456789"), field)
        self.assertEqual(self.get("/files/empty.txt", b"Range: bytes=0-1").status, 200)
        headed = self.c.request(head(b"HEAD /files/a.txt HTTP/1.1", b"Range: bytes=0-1"), head=True)
        self.assertEqual((headed.status, headed.get("Content-Length")), (200, "10"))

    def test_several_ranges_are_parts(self):
        spans = [(0, 99), (5_000_000, 5_999_999), (len(BIG) - 7, len(BIG) - 1), (200, 200)]
        field = b"Range: bytes=" + b",".join(b"%d-%d" % span for span in spans)
        self.c.send(get("/files/big.bin", field) + get("/files/a.txt"))
        response = self.c.read_response()
        self.assertEqual(response.status, 206)
        self.assertIsNone(response.get("Content-Range"))
        boundary = response.get("Content-Type").removeprefix("multipart/byteranges; boundary=").encode()
        first, *parts, end = (b"\r\n" + response.body).split(b"\r\n--" + boundary)
        self.assertEqual((first, end, len(parts)), (b"", b"--\r\n", 4))
        for (start, last), part in zip(spans, parts):
            fields, _, body = part.partition(b"\r\n\r\n")
            self.assertIn(f"Content-Range: bytes {start}-{last}/{len(BIG)}".encode(), fields.split(b"\r\n"))
            self.assertIn(b"Content-Type: application/octet-stream", fields.split(b"\r\n"))
            self.assertTrue(body == BIG[start:last + 1])
        self.assertEqual(self.c.read_response().body, b"0123456789")

    def test_if_range(self):
        full = self.get("/files/a.txt")
        tag, date = full.get("ETag").encode(), full.get("Last-Modified").encode()
        for value, status in ((tag, 206), (date, 206), (b"W/" + tag, 200), (b'"x"', 200), (tag + b', "x"', 200),
                              (b"Sun, 09 Sep 2001 01:46:41 GMT", 200), (b"", 200), (b"nonsense", 200)):
            with self.subTest(value=value):
                self.assertEqual(self.get("/files/a.txt", b"Range: bytes=0-1", b"If-Range: " + value).status, status)

    def test_a_file_beyond_4_gib(self):
        size = 5 << 30
        with open(self.root + "/sparse", "wb") as file:
            file.truncate(size)
            file.seek((4 << 30) + 10)
            file.write(b"here")
        response = self.get("/files/sparse", b"Range: bytes=4294967304-4294967310")
        self.assertEqual((response.status, response.body, response.get("Content-Range")),
                         (206, b"\0\0here\0", f"bytes 4294967304-4294967310/{size}"))
        headed = self.c.request(head(b"HEAD /files/sparse HTTP/1.1"), head=True)
        self.assertEqual(headed.get("Content-Length"), str(size))
        self.assertEqual(self.get("/files/sparse", b"Range: bytes=-30000").body, bytes(30000))
        self.assertEqual(self.get("/files/sparse", b"Range: bytes=%d-" % size).status, 416)


class Variants(Case):
    def setUp(self):
        super().setUp()
        self.packed = gzip.compress(b"let plain = 1;" * 2000)
        self.write("/app.js.gz", self.packed)
        self.write("/app.js.br", b"brotli bytes")
        self.write("/big.bin.gz", b"never")
        self.write("/dir/deep/x.txt.gz", b"too old", OLD - 10)

    def coding(self, path, accepted):
        response = self.get(path, *([] if accepted is None else [b"Accept-Encoding: " + accepted]))
        return response.get("Content-Encoding")

    def test_the_client_gets_what_it_likes_best(self):
        for accepted, coding in ((None, None), (b"", None), (b"gzip", "gzip"), (b"br", "br"), (b"gzip, br", "br"),
                                 (b"br;q=0.5, gzip", "gzip"), (b"br;q=0, gzip;q=0", None), (b"*", "br"),
                                 (b"*;q=0.5, br;q=0.1", "gzip"), (b"identity, gzip;q=0.5", None), (b"x-gzip", "gzip"),
                                 (b"gzip;q=0.001", "gzip"), (b"gzip;q=nonsense", None), (b"deflate", None),
                                 (b"identity;q=0", None), (b"GZIP;Q=1.000", "gzip")):
            with self.subTest(accepted=accepted):
                self.assertEqual(self.coding("/files/app.js", accepted), coding)
        both = self.get("/files/app.js", b"Accept-Encoding: gzip;q=0.1", b"Accept-Encoding: br")
        self.assertEqual(both.get("Content-Encoding"), "br")

    def test_a_variant_is_the_same_type_with_a_tag_of_its_own(self):
        plain, packed = self.get("/files/app.js"), self.get("/files/app.js", b"Accept-Encoding: gzip")
        self.assertEqual(packed.body, self.packed)
        self.assertEqual(gzip.decompress(packed.body), plain.body)
        self.assertEqual(plain.get("Content-Type"), packed.get("Content-Type"))
        self.assertNotEqual(plain.get("ETag"), packed.get("ETag"))
        self.assertEqual((plain.get("Vary"), packed.get("Vary")), ("Accept-Encoding",) * 2)
        part = self.get("/files/app.js", b"Accept-Encoding: gzip", b"Range: bytes=2-5")
        self.assertEqual((part.status, part.body, part.get("Content-Encoding")), (206, self.packed[2:6], "gzip"))
        tag = packed.get("ETag").encode()
        self.assertEqual(self.get("/files/app.js", b"Accept-Encoding: gzip", b"If-None-Match: " + tag).status, 304)
        self.assertEqual(self.get("/files/app.js", b"If-None-Match: " + tag).status, 200)

    def test_a_variant_older_than_its_file_is_not_sent(self):
        self.assertIsNone(self.coding("/files/dir/deep/x.txt", b"gzip"))

    def test_types_that_gain_nothing_have_no_variants(self):
        response = self.get("/files/big.bin", b"Accept-Encoding: gzip")
        self.assertEqual((response.get("Content-Encoding"), response.get("Vary")), (None, None))


class Sending(Case):
    def test_pipelined_files_come_in_order(self):
        for paths in (["/files/big.bin", "/files/a.txt"] * 3, ["/files/a.txt", "/files/app.js"] * 10):
            self.c.send(b"".join(get(path) for path in paths))
            for path in paths:
                with open(self.root + path.removeprefix("/files"), "rb") as file:
                    self.assertTrue(self.c.read_response().body == file.read())

    def test_a_slow_reader_costs_no_memory_and_gets_every_byte(self):
        before = self.server.rss_kb()
        slow = [self.server.connect(receive_buffer=4096) for _ in range(20)]
        for c in slow:
            c.send(get("/files/big.bin"))
        for c in slow:
            self.assertEqual(c.socket.recv(15), b"HTTP/1.1 200 OK")
            self.assertEqual(self.get("/files/a.txt").body, b"0123456789")  # others are served
        if wire.MEMORY_IS_EXACT:
            self.assertLess(self.server.rss_kb() - before, 20 * 1024)
        head_end = b"\r\n\r\n"
        rest = b""
        while head_end not in rest:
            rest += slow[0].socket.recv(1000)
        body = bytearray(rest.partition(head_end)[2])
        while len(body) < len(BIG):
            body += slow[0].socket.recv(1 << 20)
        self.assertTrue(body == BIG)
        for c in slow:
            c.close()

    def test_clients_that_leave_in_the_middle_leave_no_descriptor(self):
        for _ in range(20):
            with self.server.connect(receive_buffer=4096) as c:
                c.send(get("/files/big.bin") * 2)
                c.socket.recv(100)
                c.reset()
        wire.wait_until(lambda: not any(link.endswith("big.bin") for link in self.server.fd_links()),
                        "the file is closed")
        self.assertEqual(self.get("/files/a.txt").status, 200)

    def half_sent(self, path):
        """A connection whose client has taken a little of a large file and waits."""
        self.write(path, BIG)
        c = self.server.connect(receive_buffer=4096)
        self.addCleanup(c.close)
        c.send(get("/files" + path))
        wire.wait_until(lambda: any(link.endswith(path) for link in self.server.fd_links()), "it is being sent")
        self.assertEqual(c.socket.recv(15), b"HTTP/1.1 200 OK")
        return c

    def test_a_file_cut_off_while_it_is_sent_ends_the_connection(self):
        c = self.half_sent("/shrinks.bin")
        os.truncate(self.root + "/shrinks.bin", 100)
        c.send(get("/files/a.txt"))  # must not be taken for the rest of the body
        received = 0
        try:
            while piece := c.socket.recv(1 << 20):
                self.assertNotIn(b"0123456789", piece)
                received += len(piece)
        except ConnectionResetError:
            pass
        self.assertLess(received, len(BIG))
        self.assertEqual(self.get("/files/a.txt").body, b"0123456789")

    def test_a_file_that_grows_or_is_replaced_is_sent_as_it_was(self):
        for change in ("grow", "replace", "remove"):
            c = self.half_sent("/changes.bin")
            path = self.root + "/changes.bin"
            if change == "grow":
                with open(path, "ab") as file:
                    file.write(b"more")
            elif change == "replace":
                self.write("/other.bin", b"other" * 1000)
                os.rename(self.root + "/other.bin", path)
            else:
                os.unlink(path)
            c.got += b"HTTP/1.1 200 OK"
            c.send(get("/files/a.txt"))
            self.assertTrue(c.read_response().body == BIG, change)
            self.assertEqual(c.read_response().body, b"0123456789")

    def test_a_file_that_is_not_in_memory_comes_from_the_disk(self):
        for size in (100, 16 << 10, 100_000, 3 << 20):
            self.write("/cold.bin", BIG[:size])
            with open(self.root + "/cold.bin", "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self.assertTrue(self.get("/files/cold.bin").body == BIG[:size])

    def test_half_close_and_http_1_0(self):
        reply = self.server.exchange(get("/files/big.bin"))
        self.assertTrue(reply.endswith(BIG))
        reply = self.server.exchange(b"GET /files/big.bin HTTP/1.0\r\n\r\n")
        self.assertIn(b"Connection: close\r\n", reply[:1000])
        self.assertTrue(reply.endswith(BIG))

    def test_a_stop_finishes_what_is_being_sent(self):
        with wire.Server(PROGRAM, "--root", self.root) as server:
            with server.connect(receive_buffer=4096) as c:
                c.send(get("/files/big.bin"))
                c.got += c.socket.recv(10)
                server.terminate()
                self.assertTrue(c.read_response().body == BIG)


if __name__ == "__main__":
    unittest.main(verbosity=2)
