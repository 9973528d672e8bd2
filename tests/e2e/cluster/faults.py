"""What the supervisor does when the system has no more of something.

argv: the ordinary test service, and the one with faults linked in (server_faults.c)."""
import errno
import os
import resource
import select
import sys
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


if __name__ == "__main__":
    main()
