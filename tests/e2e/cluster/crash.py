"""Workers that die are replaced; those that can't start end the service."""
import os
import re
import signal
import subprocess
import sys
import unittest

from service import DEADLINE, Service, alive, main, wait_until


class Crash(unittest.TestCase):
    def test_a_crash_costs_only_the_connections_of_its_worker(self):
        with Service() as service:
            victim, other = service.connect(), service.connect()
            dead, survivor = victim.pid(), other.pid()
            victim.send("/abort")
            self.assertIsNone(victim.receive())
            self.assertEqual(other.pid(), survivor)
            service.wait_said("worker 1 is ready")
            workers = service.workers()
            self.assertEqual(len(workers), 2)
            self.assertNotIn(dead, workers)
            line = service.said("was killed by")
            self.assertEqual(len(line), 1)
            self.assertRegex(line[0], rf"^worker 1 \(pid {dead}\) was killed by signal 6 "
                             r"\(SIGABRT\) after \d+\.\d{3} s: starting another now$")
            self.assertEqual({service.connect().pid() for _ in range(2)}, set(workers))

    def test_a_worker_killed_from_outside_is_replaced(self):
        with Service() as service:
            pid = service.connect().pid()
            os.kill(pid, signal.SIGKILL)
            service.wait_said("is ready")
            self.assertTrue(service.said(f"(pid {pid}) was killed by signal 9 (SIGKILL)"))
            self.assertEqual(len(service.workers()), 2)

    def test_a_worker_that_exits_is_replaced(self):
        with Service() as service:
            connection = service.connect()
            pid = connection.pid()
            connection.send("/exit")
            self.assertIsNone(connection.receive())
            service.wait_said("is ready")
            self.assertTrue(service.said(f"(pid {pid}) exited with code 7"))

    def test_one_that_keeps_dying_waits_longer_each_time_and_others_serve(self):
        with Service() as service:
            other = service.connect()  # of worker 1
            survivor = other.pid()
            for ready in (1, 2, 3):
                victim = next(pid for pid in service.workers() if pid != survivor)
                os.kill(victim, signal.SIGKILL)
                self.assertEqual(other.pid(), survivor)
                service.wait_said("worker 2 is ready", ready)
            ends = [line.rpartition(": ")[2] for line in service.said("was killed by")]
            self.assertEqual(ends, ["starting another now", "starting another in 100 ms",
                                    "starting another in 200 ms"])

    def test_connections_made_while_no_worker_lives_are_served_by_the_next(self):
        with Service() as service:
            service.port()
            service.create("start-exits")
            for pid in service.workers():
                os.kill(pid, signal.SIGKILL)
            service.wait_said("before it was ready", 2)
            connection = service.connect()
            connection.send("/pid")
            service.remove("start-exits")
            self.assertEqual(connection.receive()[0], 200)

    def test_a_worker_told_to_stop_finishes_its_request_and_is_replaced(self):
        with Service("--drain-timeout", "1h") as service:
            held, other = service.connect(), service.connect()
            stays = other.pid()
            held.send("/hold")
            pid = service.wait_held()[0]
            os.kill(pid, signal.SIGTERM)
            service.wait_said("is ready")
            self.assertTrue(alive(pid))
            fresh = [service.connect().pid() for _ in range(4)]
            self.assertNotIn(pid, fresh)
            service.create("release")
            status, headers, _ = held.receive()
            self.assertEqual((status, headers["connection"]), (200, "close"))
            wait_until(lambda: not alive(pid), "its end")
            self.assertEqual(other.pid(), stays)
            self.assertFalse(service.said("exited") + service.said("killed"))
            self.assertEqual(len(service.workers()), 2)
            self.assertEqual(service.signs("stop"), [pid])


class Start(unittest.TestCase):
    def test_on_start_that_fails_ends_the_service_with_one_line(self):
        with Service("--start", "fails", processes=3) as service:
            self.assertEqual(service.wait(), 1)
            text = service.text()
            self.assertEqual(text.count("could not start: service not available"), 1, text)
            self.assertEqual(len(text.splitlines()), 1, text)
            self.assertFalse([pid for pid in service.signs("start") if alive(pid)])

    def test_workers_that_exit_before_they_are_ready_end_the_service(self):
        with Service("--start", "exits") as service:
            self.assertEqual(service.wait(), 1)
            self.assertEqual(len(re.findall(
                r"no worker could be started: the last one exited with code 3 before it was ready",
                service.text())), 1, service.text())
            self.assertFalse(service.said("listening"))

    def test_a_worker_that_cannot_come_back_leaves_the_others_serving(self):
        with Service() as service:
            connection = service.connect()
            survivor = connection.pid()
            service.create("start-fails")
            victim = next(pid for pid in service.workers() if pid != survivor)
            os.kill(victim, signal.SIGKILL)
            service.wait_said("could not start: service not available", 6)  # more than the tries
            self.assertEqual(connection.pid(), survivor)
            service.remove("start-fails")
            service.wait_said("is ready")
            self.assertEqual(len(service.workers()), 2)

    def test_a_port_in_use_is_said_before_any_worker_starts(self):
        with Service() as first:
            command = [sys.argv[1], "--port", str(first.port()), "--processes", "2",
                       "--dir", first.dir]
            second = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=DEADLINE,
                                    check=False)
            self.assertEqual(second.returncode, 1)
            self.assertIn("another program listens there", second.stderr)
            self.assertEqual(len(first.signs("start")), 2)


if __name__ == "__main__":
    main()
