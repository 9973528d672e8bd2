"""Methods and targets that are answered without a handler, or by another method's."""
import re
import unittest

import wire
from wire import get, head, post

HELLO = ECHO = SERVER = None


def setUpModule():
    global HELLO, ECHO, SERVER
    HELLO, ECHO = wire.Server("examples/hello"), wire.Server("examples/echo")
    unittest.addModuleCleanup(HELLO.stop)
    unittest.addModuleCleanup(ECHO.stop)
    SERVER = wire.Server("tests/http/http-test-server")
    unittest.addModuleCleanup(SERVER.stop)


class Examples(unittest.TestCase):
    def test_hello_says_hello(self):
        with HELLO.connect() as c:
            response = c.get("/")
            self.assertEqual((response.status, response.body), (200, b"hello world"))
            self.assertEqual(response.get("Content-Length"), "11")
            self.assertTrue(response.get("Content-Type").startswith("text/plain"))
            self.assertRegex(response.get("Date"),
                             r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
            self.assertEqual(c.get("/json").get("Content-Type"), "application/json")
            self.assertEqual(c.get("/users/a%20b%2Fc?x=1").body, b"a b/c")
            self.assertEqual(c.get("/users/a%zz").status, 400)

    def test_echo_keeps_one_content_type(self):
        with ECHO.connect() as c:
            response = c.request(post("/", b"[]", b"Content-Type: application/json"))
            self.assertEqual(response.get("Content-Type"), "application/json")


class Methods(unittest.TestCase):
    def test_head_is_get_without_the_body(self):
        with HELLO.connect() as c:
            whole = c.get("/")
            response = c.request(head(b"HEAD / HTTP/1.1"), head=True)
            self.assertEqual(response.status, 200)
            self.assertEqual(response.get("Content-Length"), whole.get("Content-Length"))
            self.assertEqual(response.get("Content-Type"), whole.get("Content-Type"))
            self.assertEqual(c.get("/").body, b"hello world")

    def test_options_and_405_name_the_methods(self):
        with HELLO.connect() as c:
            response = c.request(head(b"OPTIONS / HTTP/1.1"))
            self.assertIn(response.status, (200, 204))
            self.assertEqual(set(re.split(r", *", response.get("Allow"))),
                             {"GET", "HEAD", "OPTIONS"})
            response = c.request(head(b"DELETE / HTTP/1.1"))
            self.assertEqual(response.status, 405)
            self.assertIn("GET", response.get("Allow"))
            self.assertEqual(c.request(head(b"BREW / HTTP/1.1")).status, 405)
            self.assertEqual(c.request(head(b"get / HTTP/1.1")).status, 405)
            self.assertEqual(c.get("/").status, 200)

    def test_options_of_the_whole_server(self):
        with HELLO.connect() as c:
            response = c.request(head(b"OPTIONS * HTTP/1.1"))
            self.assertIn(response.status, (200, 204))
            self.assertEqual(c.get("/").status, 200)

    def test_what_is_not_there_is_404_for_every_method(self):
        with HELLO.connect() as c:
            for method in [b"GET", b"DELETE", b"BREW"]:
                self.assertEqual(c.request(head(method + b" /missing HTTP/1.1")).status, 404)
            self.assertEqual(c.request(post("/missing", b"body")).status, 404)
            self.assertEqual(c.request(head(b"HEAD /missing HTTP/1.1"), head=True).status, 404)
            self.assertEqual(c.get("/").body, b"hello world")

    def test_connect_is_refused_and_does_not_become_a_tunnel(self):
        with HELLO.connect() as c:
            response = c.request(head(b"CONNECT a:443 HTTP/1.1"))
            self.assertIn(response.status, (400, 404, 405, 501))


class Targets(unittest.TestCase):
    def test_absolute_form(self):
        with HELLO.connect() as c:
            self.assertEqual(c.request(head(b"GET http://test/users/7?x HTTP/1.1")).body, b"7")
            self.assertEqual(c.request(head(b"GET HTTP://other:80 HTTP/1.1")).body,
                             b"hello world")
            self.assertEqual(c.request(head(b"GET ftp://test/ HTTP/1.1")).status, 400)


class NoBody(unittest.TestCase):
    def test_bodiless_responses_leave_the_connection_in_step(self):
        """Each is followed by a GET on the same connection, sent along with it."""
        for request, is_head in [(head(b"HEAD /missing HTTP/1.1"), True),
                                 (head(b"HEAD /bytes/100 HTTP/1.1"), True),
                                 (head(b"HEAD /stream/100000 HTTP/1.1"), True),
                                 (get("/status/204"), False), (get("/status/304"), False),
                                 (head(b"HEAD /status/204 HTTP/1.1"), True)]:
            with self.subTest(request=request), SERVER.connect() as c:
                c.send(request + get("/bytes/3"))
                response = c.read_response(head=is_head)
                if response.status == 204:
                    self.assertIsNone(response.get("Content-Length"))
                    self.assertIsNone(response.get("Transfer-Encoding"))
                self.assertEqual(c.read_response().body, b"xxx")

    def test_a_header_that_would_split_the_response_is_not_sent(self):
        with SERVER.connect() as c:
            response = c.get("/split")
            self.assertEqual(response.body, b"refused")
            self.assertIsNone(response.get("Set-Cookie"))


if __name__ == "__main__":
    unittest.main()
