"""A kernel or a container without the newer system calls: each is answered with ENOSYS, or with EPERM
as some filters do (but clone3, for which the C library takes nothing but ENOSYS), and a service does all the same. The filter (seccomp(2)) is set for a process that
then starts the services."""
import ctypes
import errno
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import wire
from wire import chunked, head, post

SERVICE, CONTENT, HELLO, COUNTER = (
    "tests/http/http-test-server", "tests/http/http-content-server", "examples/hello",
    "examples/counter")
# x86_64, aarch64
CALLS = {
    "sched_setattr": (314, 274), "getrandom": (318, 278), "memfd_create": (319, 279),
    "copy_file_range": (326, 285), "preadv2": (327, 286), "pwritev2": (328, 287),
    "statx": (332, 291), "rseq": (334, 293), "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425), "pidfd_open": (434, 434), "clone3": (435, 435),
    "close_range": (436, 436), "openat2": (437, 437), "epoll_pwait2": (441, 441),
}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def forbid(error, names):
    """From now on this process and all that it starts get `error` from these calls."""
    column, arch = MACHINES[os.uname().machine]
    numbers = sorted(CALLS[name][column] for name in names
                     if error == errno.ENOSYS or name != "clone3")
    load, equal, ret = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 4), (equal, 0, len(numbers) + 1, arch), (load, 0, 0, 0)]
    for i, number in enumerate(numbers):
        program.append((equal, len(numbers) - i, 0, number))
    program += [(ret, 0, 0, 0x7FFF0000), (ret, 0, 0, 0x00050000 | error)]
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    memory = ctypes.create_string_buffer(code)
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(memory)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, by_filter = 38, 22, 2
    zero = ctypes.c_ulong(0)
    assert libc.prctl(no_new_privileges, ctypes.c_ulong(1), zero, zero, zero) == 0
    assert libc.prctl(set_seccomp, ctypes.c_ulong(by_filter), filter_, zero, zero) == 0, \
        os.strerror(ctypes.get_errno())


class Inside(unittest.TestCase):
    """Runs in a process of its own, behind the filter."""

    def test_the_filter_is_there(self):
        with self.assertRaises(OSError):
            os.memfd_create("x")

    def test_requests_are_answered_on_the_loop_on_workers_and_after_rescue(self):
        with wire.Server(SERVICE) as server, server.connect() as c:
            self.assertEqual(c.get("/bytes/3").body, b"xxx")
            self.assertEqual(c.get("/compute/30").body, b"computed")
            self.assertEqual(c.get("/task/1").body, b"tasked")
            self.assertEqual(c.get("/sleep/1").body, b"slept")
            self.assertEqual(len(c.get("/stream/300000").body), 300000)
            self.assertEqual(c.request(post("/read/10", b"y" * 5000)).status, 200)
            c.send(head(b"POST /read/10 HTTP/1.1", b"Transfer-Encoding: chunked") + chunked(b"abc"))
            self.assertEqual(c.read_response().status, 200)

    def test_files_are_served_and_nothing_outside_of_them(self):
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            os.mkdir(root)
            for name, size in (("small.txt", 100), ("big.txt", 500000), ("../secret.txt", 10)):
                with open(os.path.join(root, name), "wb") as file:
                    file.write(b"f" * size)
            os.symlink("../secret.txt", os.path.join(root, "out.txt"))
            with wire.Server(CONTENT, "--root", root) as server, server.connect() as c:
                self.assertEqual(len(c.get("/files/small.txt").body), 100)
                self.assertEqual(len(c.get("/files/big.txt").body), 500000)
                self.assertEqual(c.get("/files/big.txt", b"Range: bytes=7-8").body, b"ff")
                self.assertEqual(c.get("/files/out.txt").status, 404)

    def test_processes_are_supervised(self):
        with wire.Server(HELLO, "--processes", "2") as server:
            for _ in range(8):
                with server.connect() as c:
                    self.assertEqual(c.get("/").body, b"hello world")

    def test_a_pool_has_threads(self):
        with wire.Server(COUNTER, "--pool", "threads") as server, server.connect() as c:
            self.assertEqual(c.get("/atomic").status, 200)

    def test_load_measures(self):
        with wire.Server(HELLO) as server:
            run = subprocess.run([os.path.join(wire.BUILD, "donmaz"), "load", "-c", "2", "-a", "50",
                                  f"http://127.0.0.1:{server.port}/"], capture_output=True,
                                 text=True, timeout=wire.DEADLINE, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)


class Filtered(unittest.TestCase):
    def behind(self, error, case="Inside", *names):
        run = subprocess.run([sys.executable, __file__, "--behind", case, str(error),
                              *(names or CALLS)],
                             capture_output=True, text=True, timeout=3 * wire.DEADLINE, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_an_older_kernel(self):
        self.behind(errno.ENOSYS)

    def test_a_filter_that_says_not_permitted(self):
        self.behind(errno.EPERM)

    def test_worker_processes_that_can_t_be_had_are_refused_at_the_start_with_the_reason(self):
        for call in ("pidfd_open", "pidfd_send_signal", "memfd_create"):
            for error in (errno.ENOSYS, errno.EPERM):
                with self.subTest(call, error=errno.errorcode[error]):
                    said = self.behind(error, "start", call)
                    self.assertIn("counter: --pool processes can't be had: "
                                  f"{os.strerror(error)}; see docs/pool.md\n", said)
                    self.assertTrue(said.endswith("\n1\n"), said)


def start_processes():
    """Prints what it says, and its exit code."""
    run = subprocess.run([os.path.join(wire.BUILD, COUNTER), "--port", "0", "--pool", "processes"],
                         stderr=subprocess.PIPE, text=True, timeout=wire.DEADLINE, check=False)
    print(run.stderr, run.returncode, sep="")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--behind"]:
        forbid(int(sys.argv[3]), sys.argv[4:])
        if sys.argv[2] == "start":
            sys.exit(start_processes())
        unittest.main(argv=[sys.argv[0], sys.argv[2]])
    unittest.main(argv=[sys.argv[0], "Filtered"])
