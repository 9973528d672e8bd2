"""A handler that overflows its stack is named, and the process ends by the signal."""
import os
import signal
import unittest

import wire
from wire import get

PROGRAM = "tests/e2e/rescue/rescue-server"
# A sanitizer reports the fault itself and exits.
SANITIZED = os.environ.get("DONMAZ_SANITIZE", "none") != "none"


def crash(path, *args):
    """The exit code of a server after a request, and what it printed."""
    server = wire.Server(PROGRAM, *args)
    with server.connect() as c:
        c.send(get(path))
        c.rest()  # the end, without a reply
    code = server.process.wait(wire.DEADLINE)
    text = server.output()
    server.log.close()
    return code, text


class Overflow(unittest.TestCase):
    def test_the_route_is_named_and_the_process_ends_by_the_signal(self):
        for path, label in (("/overflow/7", "GET /overflow/:id"),
                            ("/frame/7", "GET /frame/:id"),  # larger than a page: no stepping over
                            ("/worker/overflow", "GET /worker/overflow")):
            for size in ("32k", "1M"):
                code, text = crash(path, "--stack-size", size)
                if SANITIZED:
                    self.assertNotEqual(code, 0)
                    continue
                self.assertEqual(code, -signal.SIGSEGV, text)
                self.assertIn(f"donmaz: stack overflow in the handler of {label}: use less stack, "
                              "or raise --stack-size; this process ends\n", text)

    def test_another_fault_is_not_called_an_overflow(self):
        code, text = crash("/segv")
        if not SANITIZED:
            self.assertEqual(code, -signal.SIGSEGV, text)
        self.assertNotEqual(code, 0)
        self.assertNotIn("handler of", text)

    @unittest.skipIf(SANITIZED, "the sanitizer's own handler ends the process otherwise")
    def test_a_fault_signal_sent_from_outside_ends_the_process_at_once(self):
        server = wire.Server(PROGRAM)
        os.kill(server.pid, signal.SIGSEGV)
        self.assertEqual(server.process.wait(wire.DEADLINE), -signal.SIGSEGV)
        server.log.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
