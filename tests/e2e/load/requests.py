"""What `donmaz load` sends, and how often."""
import json
import os
import re
import time

from load_support import OK, LoadTest, again_on_a_busy_machine, answering, load, load_json, main


class Requests(LoadTest):
    def one(self, *args, path="/"):
        """The single request that these arguments send."""
        server = self.serve_counting()
        result = load_json("-a", 1, *args, server.url(path))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(len(server.requests), 1)
        return server.requests[0]

    def test_the_server_counts_exactly_the_amount(self):
        for args in (["-c", 100, "-p", 10, "-a", 1234], ["-c", 7, "-p", 3, "-a", 50],
                     ["-c", 10, "-a", 3], ["-c", 9, "-w", 4, "-p", 2, "-a", 101],
                     ["-c", 4, "-D", 3, "-a", 25], ["-c", 4, "-R", 400, "-a", 100],
                     ["-c", 4, "--no-keepalive", "-a", 30]):
            with self.subTest(args=args):
                server = self.serve_counting()
                result = load_json(*args, server.url())
                amount = args[-1]
                self.assertEqual(result.status, 0, result.err)
                self.assertEqual(len(server.requests), amount)
                self.assertEqual(result.json["requests"]["total"], amount)
                self.assertEqual(result.json["requests"]["sent"], amount)
                self.assertEqual(result.json["latency"]["totalCount"], amount)
                self.assertEqual(result.json["2xx"], amount)
                self.assertEqual(result.json["errors"], 0)

    def test_connections_are_exactly_as_many_as_asked_for(self):
        for args, wanted in ((["-c", 13, "-w", 4], 13), (["-c", 1], 1)):
            server = self.serve_counting()
            load_json(*args, "-a", 10 * wanted, server.url())
            self.assertEqual(server.connections, wanted)

    def test_urls_can_have_connections_of_their_own(self):
        server = self.serve_counting()
        result = load_json("-c", 5, "-a", 100, server.url("/fast@2"), server.url("/slow@3"),
                           server.url("/rest"))
        self.assertEqual(server.connections, 10)
        self.assertEqual([(e["path"], e["connections"]) for e in result.json["endpoints"]],
                         [("/fast", 2), ("/slow", 3), ("/rest", 5)])
        seen = {request.path for request in server.requests}
        self.assertEqual(seen, {"/fast", "/slow", "/rest"})
        self.assertEqual(sum(e["requests"] for e in result.json["endpoints"]),
                         result.json["requests"]["total"])

    def test_a_header_splits_at_the_first_colon_else_the_first_equals_sign(self):
        request = self.one("-H", "X-A: a=b", "-H", "X-B=c=d", "-H", "X-C=e: f", "-H", "Host: other")
        self.assertEqual(request.headers["x-a"], "a=b")
        self.assertEqual(request.headers["x-b"], "c=d")
        self.assertEqual(request.headers["x-c"], "e: f")
        self.assertEqual([v for n, v in request.fields if n.lower() == "host"], ["other"])

    def test_a_header_that_is_none_is_refused(self):
        for bad in ("no separator", ": x", "a b: c", "x: a\r\nb: c"):
            result = load("-H", bad, "http://127.0.0.1:1/")
            self.assertEqual(result.status, 2)
            self.assertIn("donmaz load: -H wants 'Name: value', not", result.err)

    def test_the_body_is_sent_as_typed(self):
        for body in ("1", "", '{"a": {"b": 1}}', "{{unknown}} {{ seq", "ä€"):
            request = self.one("-m", "POST", "-b", body)
            self.assertEqual(request.body, body.encode())
            self.assertEqual(request.headers["content-length"], str(len(body.encode())))

    def test_the_body_comes_from_a_file(self):
        path = os.path.join(self.folder(), "body.bin")
        data = bytes(range(256)) * 1000
        with open(path, "wb") as file:
            file.write(data)
        request = self.one("-m", "PUT", "-i", path)
        self.assertEqual(request.body, data)

    def test_a_form_is_multipart(self):
        path = os.path.join(self.folder(), "upload.txt")
        with open(path, "w") as file:
            file.write("file content")
        form = {"a": {"type": "text", "value": "v 1"},
                "b": {"type": "file", "path": path, "options": {"filename": "named.txt"}}}
        request = self.one("-m", "POST", "-F", json.dumps(form))
        boundary = re.fullmatch(r"multipart/form-data; boundary=(\S+)",
                                request.headers["content-type"])[1].encode()
        parts = request.body.split(b"--" + boundary)
        self.assertEqual(parts[1], b'\r\nContent-Disposition: form-data; name="a"\r\n\r\nv 1\r\n')
        self.assertIn(b'name="b"; filename="named.txt"', parts[2])
        self.assertTrue(parts[2].endswith(b"\r\n\r\nfile content\r\n"))
        self.assertEqual(parts[3], b"--\r\n")

    def test_a_get_has_no_content_length_and_the_host_of_the_url(self):
        request = self.one(path="/a?b=c#gone")
        self.assertEqual(request.line, "GET /a?b=c HTTP/1.1")
        self.assertNotIn("content-length", request.headers)
        self.assertRegex(request.headers["host"], r"^127\.0\.0\.1:\d+$")

    def test_templates_change_from_request_to_request(self):
        rows = os.path.join(self.folder(), "users.csv")
        with open(rows, "w") as file:
            file.write('user,word\nann,"a, b"\nbob,"say ""x"""\n')
        server = self.serve_counting()
        result = load_json("-a", 4, "-c", 1, "--data", rows, "-m", "POST",
                           "-H", "X-Id: {{uuid}}", "-b", "{{word}}|{{random 5 7}}",
                           server.url("/{{seq}}/{{user}}"))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual([r.path for r in server.requests],
                         ["/1/ann", "/2/bob", "/3/ann", "/4/bob"])
        self.assertEqual([r.body.split(b"|")[0] for r in server.requests],
                         [b"a, b", b'say "x"', b"a, b", b'say "x"'])
        for request in server.requests:
            self.assertIn(request.body.split(b"|")[1], (b"5", b"6", b"7"))
        ids = {r.headers["x-id"] for r in server.requests}
        self.assertEqual(len(ids), 4)
        for one in ids:
            self.assertRegex(one, r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

    def test_templates_can_be_left_alone(self):
        self.assertEqual(self.one("--no-templates", "-m", "POST", "-b", "{{seq}}").body, b"{{seq}}")

    def test_id_replacement(self):
        request = self.one("-I", "-m", "POST", "-b", "id=[<id>]", path="/items/[<id>]")
        self.assertRegex(request.path, r"^/items/[0-9a-f-]{36}$")
        self.assertRegex(request.body.decode(), r"^id=[0-9a-f-]{36}$")

    def test_data_that_would_break_the_head_is_refused(self):
        path = os.path.join(self.folder(), "rows.csv")
        with open(path, "w", newline="") as file:
            file.write('name,line\nann,"1\r\nX-Injected: 1"\nbob smith,2\n')
        url = "http://127.0.0.1:1/"
        for args, why in ((["-H", "X-Line: {{line}}", url], "row 1 .*control byte.*'line'.*header"),
                          ([url + "{{line}}"], "row 1 .*'line'.*the path"),
                          ([url + "{{name}}"], "row 2 .*blank.*'name'.*the path")):
            result = load("--data", path, *args)
            self.assertEqual(result.status, 2)
            self.assertRegex(result.err, why)
        server = self.serve_counting()
        result = load("-a", 2, "-c", 1, "--data", path, "-m", "POST", "-H", "X-Name: {{name}}",
                      "-b", "{{line}}", server.url("/"))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual([(r.headers["x-name"], r.body) for r in server.requests],
                         [("ann", b"1\r\nX-Injected: 1"), ("bob smith", b"2")])
        with open(path, "wb") as file:
            file.write(b"name\na\0b\n")
        result = load("--data", path, url)
        self.assertEqual(result.status, 2)
        self.assertIn("NUL", result.err)

    def test_a_ragged_data_file_is_refused_with_its_line(self):
        path = os.path.join(self.folder(), "bad.csv")
        with open(path, "w") as file:
            file.write("a,b\n1,2\n3\n")
        result = load("--data", path, "http://127.0.0.1:1/")
        self.assertEqual(result.status, 2)
        self.assertIn("line 3 has 1 fields, the first line 2", result.err)

    def test_requests_per_connection_are_limited(self):
        server = self.serve_counting()
        result = load_json("-c", 3, "-M", 5, "-d", "20s", server.url())
        self.assertEqual(len(server.requests), 15)
        self.assertEqual(server.connections, 3)
        self.assertLess(result.json["duration"], 15)

    def test_requests_in_all_are_limited(self):
        server = self.serve_counting()
        result = load_json("-c", 3, "-O", 16, "-d", "20s", server.url())
        self.assertEqual(len(server.requests), 16)
        self.assertLess(result.json["duration"], 15)

    def test_reconnecting_after_so_many_requests(self):
        server = self.serve_counting()
        load_json("-c", 1, "-D", 4, "-a", 20, "-p", 3, server.url())
        self.assertEqual(len(server.requests), 20)
        self.assertEqual(server.connections, 5)

    def test_without_keep_alive_each_request_has_its_own_connection(self):
        server = self.serve_counting()
        result = load_json("-c", 2, "-a", 12, "--no-keepalive", server.url())
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual((len(server.requests), server.connections), (12, 12))
        self.assertEqual({r.headers["connection"].lower() for r in server.requests}, {"close"})
        self.assertEqual(result.json["errors"], 0)

    @again_on_a_busy_machine
    def test_a_rate_for_each_connection(self):
        server = self.serve_counting()
        result = load_json("-c", 3, "-r", 20, "-d", "1s", server.url())
        self.assertEqual(result.status, 0, result.err)
        # 20 each, due at 0, 50, ... 950 ms; the last may still be under way, and on a slow machine
        # more of them.
        self.assertLessEqual(result.json["requests"]["sent"], 60)
        self.assertGreaterEqual(result.json["requests"]["sent"], 30)

    def test_a_head_request_expects_no_body(self):
        server = self.serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"))
        result = load_json("-m", "HEAD", "-a", 10, "-c", 1, server.url())
        self.assertEqual(result.json["requests"]["total"], 10)
        self.assertEqual(result.json["errors"], 0)

    def test_chunked_and_close_delimited_bodies_and_interim_responses(self):
        chunked = (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                   b"4;a=b\r\nwxyz\r\n2\r\n!!\r\n0\r\nTrailer: t\r\n\r\n")
        server = self.serve(answering(chunked))
        result = load_json("-a", 20, "-c", 2, "-p", 4, "-E", "wxyz!!", server.url())
        self.assertEqual(result.json["requests"]["total"], 20)
        self.assertEqual(result.json["mismatches"], 0)
        self.assertEqual(result.json["statusCodeStats"], {"200": {"count": 20}})

        def until_close(connection):
            connection.request()
            connection.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")

        server = self.serve(until_close)
        result = load_json("-a", 5, "-c", 1, "-E", "all of it", server.url())
        self.assertEqual(result.json["requests"]["total"], 5)
        self.assertEqual(result.json["errors"] + result.json["mismatches"], 0)

    def test_unexpected_bodies_and_statuses_never_enter_the_latency(self):
        def alternating(request):
            alternating.n += 1
            return OK if alternating.n % 2 else OK.replace(b"ok", b"no").replace(b"200", b"503")

        alternating.n = 0
        server = self.serve(answering(alternating))
        result = load_json("-a", 10, "-c", 1, "-E", "ok", server.url())
        self.assertEqual(result.json["mismatches"], 5)
        self.assertEqual(result.json["latency"]["totalCount"], 5)
        self.assertEqual(result.json["errorClasses"], {"BODY_MISMATCH": 5})
        result = load_json("-a", 10, "-c", 1, "--expectStatus", 200, server.url())
        self.assertEqual(result.json["errorClasses"], {"STATUS": 5})
        self.assertEqual(result.json["latency"]["totalCount"], 5)
        result = load_json("-a", 10, "-c", 1, "-x", server.url())
        self.assertEqual(result.json["non2xx"], 5)
        self.assertEqual(result.json["latency"]["totalCount"], 5)
        self.assertEqual(result.json["throughput"]["total"], 5 * len(OK))

    @again_on_a_busy_machine
    def test_warm_up_is_loaded_but_not_counted(self):
        server = self.serve_counting()
        result = load_json("-c", 1, "--warmup", "200ms", "-a", 10, server.url())
        self.assertEqual(result.json["requests"]["total"], 10)
        self.assertGreater(len(server.requests), 10)
        self.assertEqual(result.json["warmup_s"], 0.2)
        self.assertEqual(server.connections, 1)
        result = load_json("-c", 1, "--warmup", "[", "-c", 1, "-d", "0.1", "]", "-a", 5, server.url())
        self.assertEqual(result.json["warmup_s"], 0.1)
        self.assertEqual(result.json["requests"]["total"], 5)


class Timing(LoadTest):
    @again_on_a_busy_machine
    def test_each_pipelined_response_is_timed_from_its_own_send(self):
        delay = 0.02
        begin = []

        def one_by_one(connection):
            while connection.request():
                begin.append(time.monotonic())
                time.sleep(delay)
                connection.send(OK)

        server = self.serve(one_by_one)
        result = load_json("-c", 1, "-p", 4, "-a", 50, server.url())
        latency, whole = result.json["latency"], (time.monotonic() - begin[0]) * 1000
        # The first four wait 1 to 4 delays; each that follows is sent when one before it is done.
        self.assertGreaterEqual(latency["min"], delay * 1000)
        self.assertGreaterEqual(latency["p50"], 3 * delay * 1000)
        # Counted from an earlier one's send, it would become nearly the whole run.
        self.assertLess(latency["p90"], whole / 2)

    @again_on_a_busy_machine
    def test_waiting_for_ones_turn_is_never_service_time(self):
        server = self.serve_counting()
        for extra in ([], ["--open"]):
            result = load_json("-c", 50, "-R", 40, "-d", "1s", *extra, server.url())
            self.assertIn(result.json["requests"]["total"], range(1, 42))
            # 50 connections at 40 a second: one sends every 1.25 s, and none waits.
            self.assertLess(result.json["latencyUncorrected"]["p50"], 500)
            self.assertLess(result.json["latency"]["p50"], 500)

    @again_on_a_busy_machine
    def test_open_loop_counts_a_stall_that_closed_loop_hides(self):
        """A server that answers nothing for the middle half of the run."""
        begin = []

        def stalling(connection):
            while connection.request():
                begin.append(time.monotonic())
                passed = time.monotonic() - begin[0]
                if 0.5 < passed < 1.5:
                    time.sleep(1.5 - passed)
                connection.send(OK)

        server = self.serve(stalling)
        result = load_json("--open", "-R", 100, "-c", 1, "-d", "2s", server.url())
        due, sent = result.json["latency"], result.json["latencyUncorrected"]
        self.assertTrue(result.json["openLoop"])
        # Half of the requests fell due in the stall: they waited from 0 to 1 s, evenly.
        self.assertGreater(due["p75"], 300)
        self.assertLess(due["p25"], due["p75"] / 2)
        self.assertGreater(due["p90"], 600)
        self.assertLess(sent["p90"], due["p90"] / 2)  # of those actually sent, only one waited
        self.assertGreater(sent["max"], 800)


if __name__ == "__main__":
    main()
