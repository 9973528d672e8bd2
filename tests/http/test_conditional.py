"""Conditional requests: what a client has already is not sent again, and what it has not seen is not
overwritten (RFC 9110 13)."""
import unittest

import wire
from wire import get, head, post

PROGRAM = "tests/http/http-content-server"
DATE = b"Sun, 06 Nov 1994 08:49:37 GMT"
BEFORE = b"Sun, 06 Nov 1994 08:49:36 GMT"
AFTER = b"Sun, 06 Nov 1994 08:49:38 GMT"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = wire.Server(PROGRAM)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.c = self.server.connect()
        self.addCleanup(self.c.close)

    def status(self, path, *fields):
        return self.c.get(path, *fields).status


class Reading(Case):
    def test_the_order_of_preconditions(self):
        """RFC 9110 13.2.2: each row decides at another step."""
        for status, fields in (
                (200, []),
                (200, [b'If-Match: "x"']),
                (200, [b"If-Match: *"]),
                (412, [b'If-Match: "y"']),
                (412, [b'If-Match: W/"x"']),  # strong comparison
                (200, [b'If-Match: "y", "x"']),
                (412, [b'If-Match: "y"', b'If-None-Match: "x"']),  # If-Match goes first
                (200, [b'If-Match: "x"', b"If-Unmodified-Since: " + BEFORE]),  # and hides the date
                (412, [b"If-Unmodified-Since: " + BEFORE]),
                (200, [b"If-Unmodified-Since: " + DATE]),
                (200, [b"If-Unmodified-Since: a fine day"]),
                (412, [b"If-Unmodified-Since: " + BEFORE, b'If-None-Match: "x"']),
                (304, [b'If-Match: "x"', b'If-None-Match: "x"']),
                (304, [b'If-None-Match: "x"']),
                (304, [b'If-None-Match: W/"x"']),  # weak comparison
                (304, [b'If-None-Match: "a,b" ,, "x"']),
                (304, [b"If-None-Match: *"]),
                (200, [b'If-None-Match: "y"']),
                (200, [b'If-None-Match: "y"', b"If-Modified-Since: " + DATE]),  # the tag hides it
                (304, [b"If-Modified-Since: " + DATE]),
                (304, [b"If-Modified-Since: " + AFTER]),
                (304, [b"If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"]),
                (200, [b"If-Modified-Since: " + BEFORE]),
                (200, [b"If-Modified-Since: yesterday"]),
                (304, [b'If-None-Match: "y"', b'If-None-Match: "x"'])):  # one list (5.3)
            with self.subTest(fields=fields):
                self.assertEqual(self.status("/tag/x", *fields), status)

    def test_a_weak_tag_matches_if_none_match_alone(self):
        self.assertEqual(self.c.get("/weak/x").get("ETag"), 'W/"x"')
        self.assertEqual(self.status("/weak/x", b'If-None-Match: "x"'), 304)
        self.assertEqual(self.status("/weak/x", b'If-Match: "x"'), 412)
        self.assertEqual(self.status("/weak/x", b'If-Match: W/"x"'), 412)

    def test_304_has_the_fields_of_the_200_but_for_the_body_s(self):
        self.c.send(get("/tag/x", b'If-None-Match: "x"') + get("/tag/x"))
        not_modified, full = self.c.read_response(), self.c.read_response()
        for name in ("ETag", "Cache-Control", "X-Custom"):
            self.assertEqual(not_modified.get(name), full.get(name))
        self.assertIsNotNone(not_modified.get("Date"))
        for name in ("Content-Type", "Content-Length", "Transfer-Encoding", "Last-Modified"):
            self.assertIsNone(not_modified.get(name), name)
        self.assertEqual(full.body, b"the body")

    def test_head_is_answered_as_get_without_a_body(self):
        for fields, status in (([], 200), ([b'If-None-Match: "x"'], 304)):
            response = self.c.request(head(b"HEAD /tag/x HTTP/1.1", *fields), head=True)
            self.assertEqual((response.status, response.get("ETag")), (status, '"x"'))
        hashed = self.c.request(head(b"HEAD /hash/5000 HTTP/1.1"), head=True)
        self.assertEqual(hashed.get("ETag"), self.c.get("/hash/5000").get("ETag"))

    def test_a_computed_tag_is_the_body_s(self):
        small, large = self.c.get("/hash/10"), self.c.get("/hash/50000")
        self.assertEqual(len({small.get("ETag"), large.get("ETag"), self.c.get("/hash/0").get("ETag")}), 3)
        self.assertRegex(small.get("ETag"), '^"[0-9a-f]{32}"$')
        self.assertEqual(self.c.get("/hash/10").get("ETag"), small.get("ETag"))
        self.assertEqual(self.status("/hash/50000", b"If-None-Match: " + large.get("ETag").encode()), 304)
        self.assertEqual(self.c.get("/hashweak/10").get("ETag"), "W/" + small.get("ETag"))

    def test_a_response_that_is_no_success_is_left_alone(self):
        self.assertEqual(self.status("/missing", b'If-None-Match: "gone"'), 404)
        self.assertEqual(self.status("/missing", b'If-Match: "other"'), 404)

    def test_the_middleware_does_not_judge_other_methods(self):
        """The handler has acted by then; only dz_preconditions can stop it before."""
        response = self.c.request(post("/hash/10", b"", b"If-Match: \"y\""))
        self.assertEqual((response.status, response.get("ETag")), (200, None))

    def test_a_stream_counts_only_with_a_tag_of_the_handler(self):
        self.assertIsNone(self.c.get("/plainstream").get("ETag"))
        self.assertEqual(self.status("/plainstream", b'If-None-Match: "streamed"'), 200)
        self.assertEqual(self.c.get("/tagstream").body, b"a piece of it\n" * 10)
        for fields, status in (([b'If-None-Match: "streamed"'], 304), ([b'If-Match: "x"'], 412)):
            response = self.c.get("/tagstream", *fields)
            self.assertEqual(response.status, status)
            self.assertIsNone(response.get("Transfer-Encoding"))
        self.assertEqual(self.c.get("/tagstream").status, 200)  # the connection is in step

    def test_a_malformed_list_ends_where_it_is_malformed(self):
        for value, status in ((b'"y", nonsense, "x"', 200), (b'"x", nonsense', 304), (b"", 200),
                              (b'"x', 200), (b"x", 200)):
            with self.subTest(value=value):
                self.assertEqual(self.status("/tag/x", b"If-None-Match: " + value), status)


class Writing(Case):
    def send(self, method, *fields, body=b"text"):
        return self.c.request(post("/doc", body, *fields).replace(b"POST", method, 1))

    def test_a_lost_update_is_refused_before_it_happens(self):
        self.send(b"DELETE")
        created = self.send(b"PUT", b"If-None-Match: *", body=b"one")
        self.assertEqual(created.status, 201)
        self.assertEqual(self.send(b"PUT", b"If-None-Match: *", body=b"two").status, 412)
        tag = created.get("ETag").encode()
        self.assertEqual(self.send(b"PUT", b"If-Match: " + tag, body=b"three").status, 200)
        refused = self.send(b"PUT", b"If-Match: " + tag, body=b"four")  # somebody was faster
        self.assertEqual((refused.status, refused.body), (412, b'{"error":"Precondition Failed"}\n'))
        self.assertEqual(self.c.get("/doc").body, b"three")
        self.assertEqual(self.send(b"DELETE", b"If-Match: " + tag).status, 412)
        self.assertEqual(self.send(b"DELETE", b"If-Match: *").status, 204)
        self.assertEqual(self.send(b"PUT", b"If-Match: *").status, 412)  # there is nothing


if __name__ == "__main__":
    unittest.main(verbosity=2)
