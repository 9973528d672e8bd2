#!/usr/bin/env python3
"""The bookstore as its clients see it."""
import base64
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from wire import BUILD, DEADLINE, MEMORY_IS_EXACT, Server, wait_until  # noqa: E402
from processes import wait_refused  # noqa: E402

SECRET = "a secret of at least thirty-two bytes"
HEADER = "isbn;title;author;price;stock\n"
DUNE = "9780441172719;Dune;Frank Herbert;12.99;7\n"
PATH = "/api/catalog/validate"
os.environ["BOOKSTORE_JWT_SECRET"] = SECRET
if not MEMORY_IS_EXACT:  # the sanitizers' own needs have no limit
    os.environ["DONMAZ_POOL_MEMORY"] = "0"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(role="StoreStaff", secret=SECRET, alg="HS256", **claims):
    head = encode(json.dumps({"alg": alg, "typ": "JWT"}).encode())
    body = encode(json.dumps({"sub": "1", "role": role, **claims}).encode())
    digest = {"HS256": hashlib.sha256, "HS512": hashlib.sha512}.get(alg)
    sign = hmac.new(secret.encode(), f"{head}.{body}".encode(), digest).digest() if digest else b""
    return f"{head}.{body}.{encode(sign)}"


def catalogue(rows, bad):
    return subprocess.run([os.path.join(BUILD, "examples/make-catalogue"), "--rows", str(rows),
                           "--bad", str(bad)], check=True, capture_output=True, timeout=60).stdout


class Bookstore(unittest.TestCase):
    kind = "threads"

    @classmethod
    def setUpClass(cls):
        cls.server = Server("examples/bookstore", "--pool", cls.kind, "--pool-workers", "2")
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def ask(self, method, path, body=None, auth=None, type="text/csv", server=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", (server or self.server).port,
                                                timeout=DEADLINE)
        if auth is None:
            auth = "Bearer " + token()
        if auth:
            headers["Authorization"] = auth
        if body is not None:
            headers["Content-Type"] = type
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response, data

    def status(self, *args, **kwargs):
        return self.ask(*args, **kwargs)[0].status

    def metric(self, line):
        text = self.ask("GET", "/metrics", auth="")[1].decode()
        for each in text.splitlines():
            if each.startswith(line + " "):
                return float(each.split()[-1])
        self.fail(f"no {line} in {text}")

    def test_only_store_staff_may_upload(self):
        now = int(time.time())
        for auth in ("", "Basic eDp5", "Bearer", "Bearer x", "Bearer " + token()[:-3],
                     "Bearer " + token(secret="another secret of thirty-two bytes !"),
                     "Bearer " + token(alg="none"), "Bearer " + token(alg="HS512"),
                     "Bearer " + token(exp=now - 10), "Bearer " + token(exp=-1),
                     "Bearer " + token(exp="never"), "Bearer " + token(nbf=now + 1000)):
            response, data = self.ask("POST", PATH, HEADER + DUNE, auth=auth)
            self.assertEqual(response.status, 401, auth)
            self.assertTrue(response.getheader("WWW-Authenticate").startswith("Bearer"))
            self.assertFalse(json.loads(data)["ok"])
        self.assertEqual(self.status("POST", PATH, HEADER, auth="Bearer " + token("Customer")), 403)
        self.assertEqual(self.status("POST", "/api/catalog/records", HEADER, auth=""), 401)
        good = "bearer " + token(exp=now + 1000, nbf=now - 1000)
        self.assertEqual(self.status("POST", PATH, HEADER + DUNE, auth=good), 200)

    def test_a_valid_catalogue_is_summed_up(self):
        response, data = self.ask("POST", PATH, catalogue(20000, 50))
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Content-Type"), "application/json")
        summary = json.loads(data)
        self.assertEqual((summary["ok"], summary["imported"], summary["skipped"]),
                         (True, 19950, 50))
        self.assertEqual(len(summary["errors"]), 20)
        self.assertEqual(set(summary["errors"][0]), {"line", "column", "reason"})
        self.assertGreater(summary["parseMs"], 0)

    def test_a_wrong_header_is_a_format_error_as_data(self):
        for query in ("", "?progress=1"):
            for body in ("isbn,title\n", "", DUNE):
                response, data = self.ask("POST", PATH + query, body)
                self.assertEqual(response.status, 400)
                self.assertIn("first line", json.loads(data)["reason"])
        self.assertEqual(self.status("POST", "/api/catalog/records", "wrong\n"), 400)

    def test_only_csv_is_taken(self):
        for type in ("application/json", "text/csvx", "text/plain", ""):
            self.assertEqual(self.status("POST", PATH, HEADER, type=type), 415)
        for type in ("text/csv; charset=utf-8", "TEXT/CSV"):
            self.assertEqual(self.status("POST", PATH, HEADER + DUNE, type=type), 200)
        self.assertEqual(self.status("GET", PATH), 405)

    def test_too_large_a_file_is_refused_before_it_is_sent(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=DEADLINE) as raw:
            raw.sendall((f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token()}\r\n"
                         f"Content-Type: text/csv\r\nContent-Length: {(64 << 20) + 1}\r\n\r\n").encode())
            self.assertIn(b" 413 ", raw.recv(4096).split(b"\r\n")[0])

    def test_too_large_a_file_of_unknown_length_is_refused_on_the_way(self):
        piece = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=DEADLINE) as raw:
            raw.sendall((f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token()}\r\n"
                         "Content-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
            for _ in range(64):
                raw.sendall(piece)
            try:
                raw.sendall(b"1\r\nx\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass  # the answer is there already
            self.assertIn(b" 413 ", raw.recv(4096).split(b"\r\n")[0])

    def test_progress_is_streamed_as_events(self):
        response, data = self.ask("POST", PATH + "?progress=1", catalogue(250000, 5))
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream")
        events = [dict(line.split(": ", 1) for line in event.split("\n"))
                  for event in data.decode().strip().split("\n\n")]
        self.assertEqual([event["event"] for event in events], ["progress", "progress", "result"])
        self.assertEqual([json.loads(event["data"]).get("rows") for event in events[:2]],
                         [100000, 200000])
        self.assertEqual(json.loads(events[2]["data"])["imported"], 249995)

    def test_records_hold_the_valid_books(self):
        response, data = self.ask("POST", "/api/catalog/records", HEADER + DUNE + "bad\n")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Content-Type"), "application/octet-stream")
        magic, size, count, text, length = struct.unpack_from("<8sIIQQ", data)
        self.assertEqual((magic, size, count, text + length), (b"DZBOOKS1", 32, 1, len(data)))
        isbn, cents, stock, title, author, title_len, author_len, zero = \
            struct.unpack_from("<QIIIIHHI", data, 32)
        self.assertEqual((isbn, cents, stock, zero), (9780441172719, 1299, 7, 0))
        self.assertEqual(data[text + title:text + title + title_len], b"Dune")
        self.assertEqual(data[text + author:text + author + author_len], b"Frank Herbert")

    def test_a_client_that_leaves_stops_its_task(self):
        body = catalogue(300000, 0)
        cancelled = 'donmaz_pool_tasks_total{pool="catalog",result="cancelled"}'
        before = self.metric(cancelled)

        def leave():
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=DEADLINE) as raw:
                raw.sendall((f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token()}"
                             f"\r\nContent-Type: text/csv\r\nContent-Length: {len(body)}\r\n\r\n"
                             ).encode())
                raw.sendall(body)
            # A task that was done before the client left proves nothing: try again.
            wait_until(lambda: self.metric('donmaz_pool_running{pool="catalog"}') == 0
                       and self.metric('donmaz_pool_queued{pool="catalog"}') == 0, "the pool rests")
            return self.metric(cancelled) > before
        wait_until(leave, "a task is cancelled")
        self.assertEqual(self.status("POST", PATH, HEADER + DUNE), 200)

    def test_health_and_metrics_need_no_token(self):
        self.assertEqual(self.ask("GET", "/health", auth="")[1], b'{"ok":true}')
        self.assertEqual(self.metric('donmaz_pool_workers_max{pool="catalog"}'), 2)

    def test_what_no_worker_can_take_is_told_to_retry(self):
        body = catalogue(200000, 0)
        with Server("examples/bookstore", "--pool", self.kind, "--pool-workers", "1",
                    "--max-queue", "0") as server:
            def upload(_):
                return self.ask("POST", PATH, body, server=server)[0]

            def refused():
                with concurrent.futures.ThreadPoolExecutor(4) as clients:
                    answers = list(clients.map(upload, range(4)))
                self.assertLessEqual({answer.status for answer in answers}, {200, 503})
                return [answer for answer in answers if answer.status == 503]
            # How uploads meet at the worker is chance; that some do, soon, is not.
            answers = wait_until(refused, "two uploads meet at the one worker")
            self.assertEqual(answers[0].getheader("Retry-After"), "1")
            self.assertEqual(self.status("GET", "/health", server=server), 200)
            # The worker that has just answered may not be waiting for work yet.
            wait_until(lambda: self.status("POST", PATH, HEADER + DUNE, server=server) == 200,
                       "the worker takes uploads again")

    def test_an_upload_under_way_is_finished_before_the_end(self):
        server = Server("examples/bookstore", "--pool", self.kind, "--drain-timeout", "60")
        body = (HEADER + DUNE).encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as raw:
            raw.sendall((f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token()}\r\n"
                         f"Content-Type: text/csv\r\nContent-Length: {len(body)}\r\n"
                         "Expect: 100-continue\r\n\r\n").encode())
            self.assertIn(b"100 Continue", raw.recv(100))
            raw.sendall(body[:-1])
            os.kill(server.pid, signal.SIGTERM)
            wait_refused(server.port)
            raw.sendall(body[-1:])
            data = b""
            while chunk := raw.recv(4096):
                data += chunk
        self.assertIn(b" 200 ", data.split(b"\r\n")[0])
        self.assertIn(b'"imported":1', data)
        self.assertEqual(server.process.wait(DEADLINE), 0)


class WithProcesses(Bookstore):
    kind = "processes"


class Starting(unittest.TestCase):
    def run_with(self, *args, secret=None):
        env = {key: value for key, value in os.environ.items() if key != "BOOKSTORE_JWT_SECRET"}
        if secret is not None:
            env["BOOKSTORE_JWT_SECRET"] = secret
        return subprocess.run([os.path.join(BUILD, "examples/bookstore"), "--port", "0", *args],
                              env=env, capture_output=True, timeout=DEADLINE, check=False)

    def test_without_a_good_secret_it_does_not_start(self):
        with tempfile.NamedTemporaryFile() as short:
            short.write(b"short\n")
            short.flush()
            for result in (self.run_with(), self.run_with(secret="short"),
                           self.run_with("--jwt-secret-file", short.name)):
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(b"--jwt-secret-file", result.stderr)
        result = self.run_with("--jwt-secret-file", "/nonexistent/secret")
        self.assertIn(b"/nonexistent/secret: No such file", result.stderr)

    def test_the_secret_may_come_from_a_file(self):
        secret = "another secret of at least thirty-two bytes"
        with tempfile.NamedTemporaryFile() as file:
            file.write(secret.encode() + b"\n")
            file.flush()
            with Server("examples/bookstore", "--jwt-secret-file", file.name) as server:
                for used, status in ((secret, 200), (SECRET, 401)):  # it goes before the environment
                    connection = http.client.HTTPConnection("127.0.0.1", server.port,
                                                            timeout=DEADLINE)
                    connection.request("POST", PATH, HEADER + DUNE, {
                        "Authorization": "Bearer " + token(secret=used),
                        "Content-Type": "text/csv"})
                    self.assertEqual(connection.getresponse().status, status)
                    connection.close()

    def test_unusable_options_are_told(self):
        for args in (("--pool", "fibers"), ("--pool-workers", "0"), ("--max-queue", "x")):
            result = self.run_with(*args, secret=SECRET)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(args[0].encode(), result.stderr)


if __name__ == "__main__":
    unittest.main()
