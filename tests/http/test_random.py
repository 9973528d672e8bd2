"""Random conversations from fixed seeds: whatever a client pipelines, however it is cut and however
it ends, every complete request gets exactly its own reply, in order."""
import random
import threading
import unittest

import wire
from wire import chunked, get, head, post

PROGRAM = "tests/http/http-test-server"
CONVERSATIONS, THREADS = 60, 4
GARBAGE = [b"\0", b"GET", b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", b"\r\n" * 6, b"x" * 9000,
           b"POST /read/9 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
           head(b"POST /read/9 HTTP/1.1", b"Transfer-Encoding: chunked") + b"zz\r\n",
           head(b"POST /read/9 HTTP/1.1", b"Content-Length: 1", b"Content-Length: 2") + b"ab"]


def reading(body):
    return f"{len(body)} bytes, sum {sum(body)}".encode()


def any_request(rng):
    """A request, whether it is a HEAD, and the body of its reply."""
    kind = rng.randrange(8)
    body = bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 60, 3000))))
    size = rng.choice((1, 7, 4096))
    if kind == 0:
        return get(f"/sleep/{rng.randrange(5)}"), False, b"slept"
    if kind == 1:
        return get(f"/compute/{rng.randrange(8)}"), False, b"computed"
    if kind == 2:
        n = rng.choice((0, 1, 100, 40000))
        return get(f"/bytes/{n}"), False, b"x" * n
    if kind == 3:
        n = rng.choice((0, 1, 100000))
        return get(f"/stream/{n}"), False, b"x" * n
    if kind == 4:
        return head(b"HEAD /bytes/5 HTTP/1.1"), True, b""
    if kind == 5:
        return post(f"/read/{size}", body), False, reading(body)
    if kind == 6:
        cuts = sorted(rng.randrange(len(body) + 1) for _ in range(3))
        chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)]) if a < b]
        line = f"POST /read/{size} HTTP/1.1".encode()
        return head(line, b"Transfer-Encoding: chunked") + chunked(*chunks), False, reading(body)
    return post("/unread", body), False, b"unread"


def pieces(rng, data):
    """data cut at up to five points."""
    cuts = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(6)))
    return [part for a, b in zip([0, *cuts], [*cuts, len(data)]) if (part := data[a:b])]


def converse(server, seed):
    rng = random.Random(seed)
    requests = [any_request(rng) for _ in range(rng.randrange(1, 12))]
    data = b"".join(request for request, _, _ in requests)
    end = rng.choice(("close", "half-close", "garbage", "reset", "vanish"))
    if end == "garbage":
        data += rng.choice(GARBAGE)
    with server.connect() as c:
        # Written by another thread: the replies must be read meanwhile, or both sides wait.
        stuck = []
        writer = threading.Thread(target=write,
                                  args=(c, pieces(rng, data), end == "half-close", stuck))
        writer.start()
        if end in ("reset", "vanish"):
            requests = requests[:rng.randrange(len(requests) + 1)]
        try:
            for number, (_, is_head, body) in enumerate(requests):
                response = c.read_response(is_head)
                if (response.status, response.body) != (200, body):
                    return f"seed {seed}, request {number}: {response}, not {body[:60]!r}"
            if end == "half-close":
                c.closed()
        except (AssertionError, OSError) as error:
            return f"seed {seed}: {error!r}"
        finally:
            if end == "vanish":
                c.vanish()
            if end == "reset":
                c.reset()
            writer.join()
    return f"seed {seed}: {stuck[0]!r}" if stuck else None


def write(connection, parts, half_close, stuck):
    try:
        connection.send(*parts)
        if half_close:
            connection.half_close()
    except OSError:
        pass  # refused, or the reader has left
    except AssertionError as error:
        stuck.append(error)


class Random(unittest.TestCase):
    def play(self, *options):
        with wire.Server(PROGRAM, *options) as server:
            failures = []

            def work(first):
                for seed in range(first, first + CONVERSATIONS):
                    if failure := converse(server, seed):
                        failures.append(failure)
            workers = [threading.Thread(target=work, args=(i * CONVERSATIONS,))
                       for i in range(THREADS)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            self.assertEqual(failures, [])

    def test_with_rescue(self):
        self.play("--rescue-after", "1ms")

    def test_without_rescue(self):
        self.play("--rescue-after", "0")

    def test_with_two_loops(self):
        self.play("--loops", "2")


if __name__ == "__main__":
    unittest.main()
