"""How a cluster ends, and what SIGHUP does."""
import contextlib
import os
import signal
import unittest

from service import Service, alive, main, stop_process, wait_refused, wait_until

# For what is to be finished: a busy machine must not make the drain too short.
PATIENTLY = ("--drain-timeout", "1h")


class Drain(unittest.TestCase):
    def one_in_each(self, service, workers):
        """Idle connections, at least one to each worker."""
        idle, seen = [], set()

        def done():
            idle.append(service.connect())
            seen.add(idle[-1].pid())
            return seen == set(workers)
        wait_until(done, "a connection to each worker")
        return idle

    def drain(self, stop, **popen):
        """A request in flight, a stop, and what must come of it."""
        with Service(*PATIENTLY, **popen) as service:
            port = service.port()
            held = service.connect()
            held.send("/hold")
            service.wait_held()
            workers = service.workers()
            idle = self.one_in_each(service, workers)
            stop(service, workers)
            service.wait_said("stopping")
            wait_refused(port)
            for connection in idle:  # so the worker of the request in flight drains, too
                self.assertIsNone(connection.receive())
            service.create("release")
            status, headers, _ = held.receive()
            self.assertEqual((status, headers["connection"]), (200, "close"))
            self.assertIsNone(held.receive())
            self.assertEqual(service.wait(), 0, service.text())
            self.assertFalse([pid for pid in workers if alive(pid)])
            self.assertEqual(sorted(service.signs("stop")), sorted(workers))
            self.assertEqual(service.signs("main-returns"), [service.pid])
            self.assertEqual(len(service.said("stopping")), 1)
            self.assertFalse(service.said("starting another"), service.text())

    def test_sigterm_lets_the_request_in_flight_finish(self):
        self.drain(lambda service, _: service.signal(signal.SIGTERM))

    def test_control_c_reaches_the_whole_group_and_drains_once(self):
        self.drain(lambda service, _: os.killpg(service.pid, signal.SIGINT),
                   start_new_session=True)

    def test_sigterm_to_every_process_drains_once(self):
        def stop(service, workers):
            service.signal(signal.SIGTERM)
            for pid in workers * 2:
                with contextlib.suppress(ProcessLookupError):  # it had nothing to finish
                    os.kill(pid, signal.SIGTERM)
        self.drain(stop)

    def test_a_connection_made_before_the_stop_is_served(self):
        with Service() as service:
            service.port()
            stop_process(service.pid)  # the next one waits in the backlog
            connection = service.connect()
            connection.send("/pid")
            service.signal(signal.SIGTERM)
            service.signal(signal.SIGCONT)
            self.assertEqual(connection.receive()[0], 200)
            self.assertEqual(service.wait(), 0)

    def test_a_worker_that_hangs_in_on_start_is_killed(self):
        with Service("--start", "hangs", "--drain-timeout", "0") as service:
            wait_until(lambda: len(service.signs("start")) == 2, "the workers' start")
            workers = service.workers()
            service.signal(signal.SIGTERM)
            self.assertEqual(service.wait(), 1)
            self.assertEqual(len(service.said("did not end after --drain-timeout: killed")), 2)
            self.assertFalse([pid for pid in workers if alive(pid)])


class End(unittest.TestCase):
    def test_a_second_signal_ends_at_once(self):
        with Service(*PATIENTLY) as service:
            held = service.connect()
            held.send("/hold")
            service.wait_held()
            workers = service.workers()
            service.signal(signal.SIGTERM)
            service.wait_said("stopping")
            service.signal(signal.SIGINT)
            self.assertEqual(service.wait(), 1)
            self.assertFalse([pid for pid in workers if alive(pid)])
            self.assertIsNone(held.receive())

    def test_a_handler_that_computes_on_is_cut_after_the_drain_timeout(self):
        with Service("--drain-timeout", "100ms") as service:
            held = service.connect()
            held.send("/compute")
            service.wait_held()
            service.signal(signal.SIGTERM)
            self.assertEqual(service.wait(), 1)
            self.assertTrue(service.said("handlers still compute after --drain-timeout"))

    def test_the_same_when_it_holds_the_loop(self):
        with Service("--drain-timeout", "100ms", "--rescue-after", "0") as service:
            held = service.connect()
            held.send("/compute")
            service.wait_held()
            service.signal(signal.SIGTERM)
            self.assertEqual(service.wait(), 1)
            self.assertTrue(service.said("handlers still compute after --drain-timeout"))

    def test_a_worker_that_does_not_react_is_killed(self):
        with Service("--drain-timeout", "100ms") as service:
            pid = service.connect().pid()
            stop_process(pid)
            service.signal(signal.SIGTERM)
            self.assertEqual(service.wait(), 1)
            self.assertFalse(alive(pid))
            self.assertEqual(len(service.said(
                f"(pid {pid}) did not end after --drain-timeout: killed")), 1)


class Orphans(unittest.TestCase):
    def test_a_killed_supervisor_leaves_no_worker(self):
        with Service(processes=3) as service:
            for _ in range(3):
                service.connect().pid()
            workers = service.workers()
            service.process.kill()
            service.wait()
            wait_until(lambda: not [pid for pid in workers if alive(pid)], "the workers' end")
            self.assertEqual(sorted(service.signs("stop")), sorted(workers))

    def test_its_workers_finish_their_requests_first(self):
        with Service(*PATIENTLY) as service:
            held = service.connect()
            held.send("/hold")
            pid = service.wait_held()[0]
            service.workers()
            service.process.kill()
            service.wait()
            service.create("release")
            self.assertEqual(held.receive()[0], 200)
            wait_until(lambda: not alive(pid), "the worker's end")

    def test_nor_one_whose_handler_holds_the_loop(self):
        with Service("--drain-timeout", "100ms", "--rescue-after", "0") as service:
            service.connect().send("/compute")
            service.wait_held()
            workers = service.workers()
            service.process.kill()
            service.wait()
            wait_until(lambda: not [pid for pid in workers if alive(pid)], "the workers' end")

    def test_nor_one_that_is_still_starting(self):
        with Service("--start", "hangs") as service:
            wait_until(lambda: len(service.signs("start")) == 2, "the workers' start")
            workers = service.workers()
            service.process.kill()
            service.wait()
            wait_until(lambda: not [pid for pid in workers if alive(pid)], "the workers' end")


class Renew(unittest.TestCase):
    def test_sighup_replaces_all_workers_without_losing_a_request(self):
        with Service(*PATIENTLY) as service:
            held = service.connect()
            held.send("/hold")
            service.wait_held()
            before = service.workers()
            service.signal(signal.SIGHUP)
            service.wait_said("is ready", 2)
            fresh = {service.connect().pid() for _ in range(4)}
            self.assertFalse(fresh & set(before))
            self.assertEqual(len(fresh), 2)
            service.create("release")
            self.assertEqual(held.receive()[0], 200)
            wait_until(lambda: not [pid for pid in before if alive(pid)], "the old workers' end")
            self.assertEqual(set(service.workers()), fresh)
            self.assertFalse(service.said("was killed"), service.text())

    def test_a_replacement_that_fails_leaves_the_old_worker_serving(self):
        with Service() as service:
            connection = service.connect()
            pid = connection.pid()
            before = service.workers()
            service.create("start-fails")
            service.signal(signal.SIGHUP)
            service.wait_said("the one it should replace goes on")
            self.assertEqual(connection.pid(), pid)
            self.assertEqual(service.workers(), before)
            service.remove("start-fails")
            service.signal(signal.SIGHUP)
            service.wait_said("is ready", 2)
            self.assertIsNone(connection.receive())


if __name__ == "__main__":
    main()
