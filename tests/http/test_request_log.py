"""The request log says what the client sent, though its line is written after the connection has used
the head's memory for later requests."""
import json
import threading
import unittest

import wire
from wire import get

PROGRAM = "tests/http/http-test-server"


def logged(server, count):
    """The lines about the first `count` requests, in the order of their urls: two threads may have
    written them, and then theirs is chance."""
    def lines():
        found = [line for line in server.output().splitlines() if '"responseTime"' in line]
        return found if len(found) >= count else None
    found = [json.loads(line) for line in wire.wait_until(lines, f"{count} lines")]
    return sorted(found, key=lambda line: line["req"]["url"])


class RequestLog(unittest.TestCase):
    def test_pipelined_replies_that_wait_for_a_slow_reader(self):
        """The kernel's buffers fill up, so replies wait while the requests behind them are read into
        the same memory."""
        count, size = 300, 40000
        wanted = [(f"id-{i}", f"/bytes/{size}?n={i}") for i in range(count)]
        requests = [get(url, f"X-Request-Id: {name}".encode(), b"X-Pad: " + b"x" * (i * 37 % 900))
                    for i, (name, url) in enumerate(wanted)]
        with wire.Server(PROGRAM, "--request-log", "--log-query", "--log-block") as server:
            with server.connect(receive_buffer=4096) as c:
                writer = threading.Thread(target=c.send, args=(b"".join(requests),))
                writer.start()
                wire.wait_until(lambda: server.output().count('"responseTime"') > 0, "a first line")
                for _ in range(count):
                    self.assertEqual(len(c.read_response().body), size)
                writer.join()
            self.assertEqual([(line["reqId"], line["req"]["url"]) for line in logged(server, count)],
                             sorted(wanted, key=lambda pair: pair[1]))

    def test_a_target_whose_query_does_not_follow_a_path(self):
        with wire.Server(PROGRAM, "--request-log", "--log-query", "--log-block") as server:
            for target in (b"http://host?x=1", b"http://host", b"http://host/a?", b"/b?y"):
                server.exchange(b"GET " + target + b" HTTP/1.1\r\nHost: host\r\n\r\n")
            server.exchange(b"OPTIONS * HTTP/1.1\r\nHost: host\r\n\r\n")
            self.assertEqual([line["req"]["url"] for line in logged(server, 5)],
                             sorted(["/?x=1", "/", "/a?", "/b?y", "*"]))


if __name__ == "__main__":
    unittest.main()
