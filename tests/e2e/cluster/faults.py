"""What the supervisor does when the system has no more of something.

argv: the ordinary test service, and the one with faults linked in (server_faults.c)."""
import errno
import contextlib
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import unittest

from service import DEADLINE, Service, main, wait_until


def faulty(**faults):
    environment = {f"FAULT_{name.upper()}": f"{count}:{error}"
                   for name, (count, error) in faults.items()}
    return Service(program=sys.argv[2], environment=environment)


class Injected(unittest.TestCase):
    def assert_serves(self, service, connections=4):
        pids = [service.connect().pid() for _ in range(connections)]
        self.assertEqual(len(set(pids)), 2)

    def test_fork_is_tried_again_later(self):
        with faulty(fork=(3, errno.EAGAIN)) as service:
            service.wait_said("worker 2 could not be started: Resource temporarily unavailable; "
                              "trying again in 100 ms")
            service.wait_said("worker 1 could not be started", 2)
            service.wait_said("worker 1 is ready")
            self.assert_serves(service)

    def test_accept_without_descriptors_is_tried_again(self):
        with faulty(accept=(3, errno.EMFILE)) as service:
            self.assert_serves(service)
            self.assertIn("Too many open files", service.said("can't accept connections")[0])

    def test_a_connection_that_ended_in_the_backlog_is_passed_over(self):
        with faulty(accept=(3, errno.ECONNABORTED)) as service:
            self.assert_serves(service)
            self.assertFalse(service.said("can't accept"))

    def test_a_full_channel_sends_the_connection_to_another_worker(self):
        with faulty(send=(1, errno.EAGAIN)) as service:
            first, second = service.connect(), service.connect()
            pids = [first.pid(), second.pid()]
            self.assertEqual(sorted(pids), sorted(service.workers()))

    def test_a_connection_no_worker_can_take_is_kept_until_one_can(self):
        for error in (errno.ENOBUFS, errno.ETOOMANYREFS, errno.EAGAIN):
            with self.subTest(errno.errorcode[error]), faulty(send=(7, error)) as service:
                self.assert_serves(service)


class Limits(unittest.TestCase):
    def test_a_supervisor_out_of_descriptors_serves_the_connections_it_has_and_recovers(self):
        with Service() as service:
            served = service.connect()
            pid = served.pid()
            before = resource.prlimit(service.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (3, before[1]))
            waiting = service.connect()
            waiting.send("/pid")
            service.wait_said("can't accept connections: Too many open files")
            self.assertEqual(served.pid(), pid)
            resource.prlimit(service.pid, resource.RLIMIT_NOFILE, before)
            self.assertEqual(waiting.receive()[0], 200)

    def each_gets_an_answer(self, service, count):
        connections = [service.connect() for _ in range(count)]
        for connection in connections:
            connection.send("/pid")
        answered = 0
        waiting = {connection.socket: connection for connection in connections}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], DEADLINE)
            self.assertTrue(ready, f"{answered} of {count} answered")
            for sock in ready:
                connection = waiting.pop(sock)
                self.assertEqual((connection.receive() or [None])[0], 200)
                connection.close()
                answered += 1
        self.assertEqual(answered, count)

    def test_workers_out_of_descriptors_leave_connections_in_the_backlog(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with Service(preexec_fn=few) as service:
            self.each_gets_an_answer(service, 200)

    def test_closed_standard_streams_are_held_so_that_no_socket_gets_their_numbers(self):
        def opened(pid):
            folder = f"/proc/{pid}/fd"
            try:
                return {int(fd): os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}
            except (FileNotFoundError, PermissionError):
                return {}

        def serving():
            found = [opened(pid) for pid in service.workers()]
            ready = [files for files in found if any("socket:" in name for name in files.values())]
            return ready if len(ready) == 2 else None
        with Service(preexec_fn=lambda: os.closerange(0, 3)) as service:
            for files in [*wait_until(serving, "two workers with sockets"), opened(service.pid)]:
                self.assertEqual([files.get(fd) for fd in range(3)], ["/dev/null"] * 3)

    def test_connections_max_leaves_connections_in_the_backlog(self):
        with Service("--connections-max", "3") as service:
            self.each_gets_an_answer(service, 20)


@unittest.skipUnless(os.geteuid() == 0, "takes root, to become a user that nobody else is")
class Threads(unittest.TestCase):
    """A limit of processes (RLIMIT_NPROC), which counts all threads of the user."""
    LIMIT = 30

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.chmod(self.folder.name, 0o777)
        self.program = shutil.copy(sys.argv[1], self.folder.name)
        self.user = random.randrange(1 << 20, 1 << 31)

    def service(self, limit, *arguments):
        def limited():
            resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
        # Without rescue no thread comes or goes once it serves.
        return Service("--rescue-after", "0", "--dir", self.folder.name, *arguments,
                       program=self.program, preexec_fn=limited, user=self.user, extra_groups=[])

    @contextlib.contextmanager
    def held(self, count):
        """So many of the user's threads are taken. By a copy of this program: the user may not be
        allowed to run any."""
        held, holding = os.pipe()
        end, ending = os.pipe()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(Exception):
                os.close(ending)
                os.setgroups([])
                os.setuid(self.user)
                for _ in range(count - 1):
                    threading.Thread(target=os.read, args=(end, 1), daemon=True).start()
                os.write(holding, b"h")
                os.read(end, 1)
                os._exit(0)
            os._exit(1)
        os.close(holding)
        try:
            self.assertEqual(os.read(held, 1), b"h")
            yield
        finally:
            for fd in held, end, ending:
                os.close(fd)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_a_worker_without_a_thread_waits_longer_each_time_and_others_serve(self):
        with self.service(self.LIMIT) as service:
            other = service.connect()
            survivor = other.pid()
            victim = next(pid for pid in service.workers() if pid != survivor)
            threads = {pid: len(os.listdir(f"/proc/{pid}/task"))
                       for pid in (service.pid, survivor, victim)}
            free = self.LIMIT - threads[service.pid] - threads[survivor]
            with self.held(free - 1):  # for the next worker's process, and no thread
                os.kill(victim, signal.SIGKILL)
                service.wait_said("before it was ready: ", 3)
                self.assertEqual(other.pid(), survivor)
            service.wait_said("is ready")
            self.assertEqual(len(service.workers()), 2)
            self.assertEqual(other.pid(), survivor)
            self.assertGreaterEqual(len(service.said("could not start: no thread could be started")),
                                    3)
            ends = [line.rpartition(": ")[2] for line in service.said("starting another")]
            self.assertEqual(ends[:4], ["starting another now", "starting another in 100 ms",
                                        "starting another in 200 ms", "starting another in 400 ms"])

    def test_a_service_without_threads_ends_with_the_reason(self):
        # Enough for all processes, and too little for the threads of any.
        with self.service(8, "--loops", "8") as service:
            self.assertEqual(service.wait(), 1)
            self.assertIn("could not start: no thread could be started", service.text())


if __name__ == "__main__":
    main()
