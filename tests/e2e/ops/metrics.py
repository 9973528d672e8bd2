"""/metrics: one process, a cluster, and whoever should not see it."""
import os
import shutil
import signal
import socket
import subprocess
import threading
import unittest

from service import (SERVER, DEADLINE, Service, again_on_a_busy_machine, children, main, stop_process,
                     wait_until)
import prometheus  # in tests/lib, which service.py adds to the path
from prometheus import value


def run(*arguments):
    return subprocess.run([SERVER, "--port", "0", *arguments], capture_output=True, text=True,
                          timeout=DEADLINE, check=False)


class Metrics(unittest.TestCase):
    def scrape_until(self, service, name, expected, **labels):
        """The first scrape with that value: a request is counted when its reply has been sent."""
        def seen():
            families = self.scrape(service)
            known = any(name.startswith(family) for family in families)
            return families if known and value(families, name, **labels) == expected else None
        return wait_until(seen, f"{name}{labels} is {expected}")

    def scrape(self, service):
        text = service.metrics()
        if shutil.which("promtool"):
            check = subprocess.run(["promtool", "check", "metrics"], input=text,
                                   capture_output=True, check=False)
            self.assertEqual((check.returncode, check.stderr), (0, b""), text.decode())
        return prometheus.parse(text)

    @unittest.skipUnless(shutil.which("redis-server"), "redis-server is not installed")
    @again_on_a_busy_machine  # on which adaptive protection rightly refuses some
    def test_everything_at_once(self):
        """Pool of processes, Redis with a cache, overload protection, rescue, several loops, several
        processes: one text, and each part counts."""
        with Service("--everything", "--shed", "adaptive", "--rescue-after", "1ms", "--processes",
                     "2", "--loops", "2", "--request-log") as service:
            port = service.port()
            for path in ("/task", "/value", "/value", "/absent", "/compute/it"):
                for _ in range(4):
                    self.assertIn(service.get(path, port=port)[0], (200, 404), path)
            wait_until(lambda: value(self.scrape(service), "donmaz_log_lines_total") >= 20, "the log")
            families = self.scrape_until(service, "donmaz_http_requests_total", 4, route="/task",
                                         status="200")
            self.assertEqual(value(families, "donmaz_worker_up"), 2)
            self.assertEqual(value(families, "donmaz_pool_tasks_total", pool="jobs"), 4)
            self.assertEqual(value(families, "donmaz_redis_cache_hits_total", redis="values") +
                             value(families, "donmaz_redis_cache_misses_total", redis="values"), 8)
            self.assertGreater(value(families, "donmaz_redis_commands_total", redis="values"), 0)
            self.assertGreaterEqual(value(families, "donmaz_shed_admitted_total"), 16)
            for name in ("donmaz_loop_lag_seconds", "donmaz_loop_stall_seconds",
                         "donmaz_route_rescues_total", "donmaz_shed_limit", "process_threads"):
                self.assertIn(name, families)
            for worker in ("1", "2"):
                for loop in ("0", "1"):
                    self.assertGreaterEqual(value(families, "donmaz_loop_ticks_total",
                                                  worker=worker, loop=loop), 1)
            self.assertEqual(service.stop(), 0)

    @again_on_a_busy_machine  # on which adaptive protection rightly refuses some
    def test_overload_protection_is_shown_when_it_is_on(self):
        with Service("--shed", "adaptive") as service:
            for _ in range(5):
                service.get("/")
            families = self.scrape(service)
            self.assertEqual(value(families, "donmaz_shed_admitted_total"), 5)
            self.assertGreater(value(families, "donmaz_shed_limit"), 0)
            for reason in ("in_flight", "queue_wait", "loop_lag", "memory"):
                self.assertEqual(value(families, "donmaz_shed_refused_total", reason=reason), 0)
        with Service() as service:
            self.assertNotIn("donmaz_shed_limit", self.scrape(service))

    def test_one_process(self):
        with Service() as service:
            for _ in range(5):
                service.get("/")
            service.get("/absent")
            self.scrape_until(service, "donmaz_http_requests_total", 5, method="GET", route="/",
                              status="200")
            self.scrape_until(service, "donmaz_http_requests_total", 1, route="(no route)",
                              status="404")
            families = self.scrape_until(service, "donmaz_http_request_duration_seconds_count", 5,
                                         route="/")
            self.assertEqual(value(families, "donmaz_loop_delay_seconds", loop="0") >= 0, True)
            for name in ("process_cpu_seconds_total", "process_resident_memory_bytes",
                         "process_open_fds", "process_start_time_seconds",
                         "donmaz_http_connections_accepted_total", "donmaz_log_lines_total"):
                self.assertGreater(value(families, name), 0, name)
            for name in ("donmaz_loop_lag_seconds", "donmaz_loop_stall_seconds",
                         "donmaz_route_rescues_total", "donmaz_route_class",
                         "donmaz_pool_queued", "donmaz_pool_wait_seconds"):
                self.assertIn(name, families)
            self.assertEqual(service.stop(), 0)

    @again_on_a_busy_machine  # on which the route may be known for what it is before a rescue
    def test_rescues_are_counted_by_route(self):
        with Service("--rescue-after", "1ms") as service:
            port, done = service.port(), threading.Event()
            def ask():
                connection = service.connect(port)
                while not done.is_set():
                    connection.request("GET", "/compute/it")
                    connection.getresponse().read()
                connection.close()
            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                # It is learned, and then runs on a worker.
                wait_until(lambda: value(self.scrape(service), "donmaz_route_class",
                                         route="/compute/:what") > 0, "the route's class")
                self.assertGreater(value(self.scrape(service), "donmaz_route_rescues_total",
                                         route="/compute/:what"), 0)
            finally:
                done.set()
                for thread in threads:
                    thread.join()
            families = self.scrape(service)
            self.assertEqual(value(families, "donmaz_route_rescues_total", route="/"), 0)
            self.assertGreater(value(families, "donmaz_loop_rescues_total"), 0)

    def test_one_scrape_sees_all_processes_of_a_cluster(self):
        with Service("--processes", "3") as service:
            port = service.port()
            for _ in range(12):
                self.assertEqual(service.get("/", port=port)[0], 200)
            for _ in range(4):  # whichever worker answers
                families = self.scrape_until(service, "donmaz_http_requests_total", 12, route="/",
                                             status="200")
                for worker in ("1", "2", "3"):
                    self.assertEqual(value(families, "donmaz_worker_up", worker=worker), 1)
                    self.assertGreater(value(families, "process_resident_memory_bytes",
                                             worker=worker), 0)
                    self.assertGreater(value(families, "donmaz_http_requests_total",
                                             worker=worker), 0)
            self.assertEqual(service.stop(), 0)

    def test_a_worker_that_hangs_or_is_replaced_does_not_hide_the_others(self):
        with Service("--processes", "2") as service:
            service.port()
            self.assertEqual(value(self.scrape(service), "donmaz_worker_up"), 2)
            victim = children(service.pid)[0]
            stop_process(victim)
            try:
                def seen():
                    try:  # the stopped one may have the connection
                        return self.scrape_soon(service)
                    except (TimeoutError, socket.timeout):
                        return None
                families = wait_until(seen, "an answer of the other")
                self.assertEqual(value(families, "donmaz_worker_up"), 1)
            finally:
                os.kill(victim, signal.SIGCONT)
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: len(children(service.pid)) == 2 and
                       victim not in children(service.pid), "its replacement")
            wait_until(lambda: value(self.scrape(service), "donmaz_worker_up") == 2, "both up")
            os.kill(service.pid, signal.SIGHUP)
            wait_until(lambda: service.text(service.log).count("is ready") >= 3, "a renewal")
            wait_until(lambda: value(self.scrape(service), "donmaz_worker_up") == 2, "both up")
            self.assertEqual(service.stop(), 0)

    def scrape_soon(self, service):
        connection = service.connect(service.admin_port())
        connection.timeout = 3
        try:
            connection.request("GET", "/metrics")
            body = connection.getresponse().read()
        finally:
            connection.close()
        return prometheus.parse(body)

    def test_it_answers_while_every_loop_is_stuck(self):
        with Service("--rescue-after", "0") as service:
            until = os.path.join(service.dir, "until")
            thread = threading.Thread(target=service.get, args=(f"/block?until={until}",))
            thread.start()
            try:
                wait_until(lambda: value(self.scrape(service),
                                         "donmaz_http_requests_in_flight") == 1, "the request")
                wait_until(lambda: value(self.scrape(service),
                                         "donmaz_loop_delay_seconds") > 0.2, "the delay")
            finally:
                with open(until, "w", encoding="ascii"):
                    pass
                thread.join()
            self.assertEqual(service.stop(), 0)


class Access(unittest.TestCase):
    def test_it_listens_on_loopback_alone_by_default(self):
        with Service() as service:
            port = service.admin_port()
            self.assertIn("127.0.0.1", service.said(r"metrics on http://([^\"]*)/metrics")[1])
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), timeout=DEADLINE)

    def test_a_name_that_is_not_this_machines_is_refused(self):
        with Service() as service:
            port = service.admin_port()
            for host, status in (("localhost", 200), (f"127.0.0.1:{port}", 200), ("[::1]", 200),
                                 (f"[::1]:{port}", 200), ("evil.example", 403),
                                 (f"evil.example:{port}", 403), ("127.evil.example", 403),
                                 ("localhost.evil.example", 403)):
                self.assertEqual(service.get("/metrics", {"Host": host}, port)[0], status, host)
                self.assertEqual(service.get("/donmaz", {"Host": host}, port)[0], status, host)

    def test_the_services_own_port_does_not_have_it(self):
        with Service() as service:
            for path in ("/metrics", "/donmaz"):
                self.assertEqual(service.get(path)[0], 404)

    def test_another_address_when_asked_for(self):
        with Service("--admin", "0.0.0.0:0", admin=False) as service:
            status, _ = service.get("/metrics", {"Host": "a.name"}, service.admin_port())
            self.assertEqual(status, 200)
        with Service("--admin", "[::1]:0", admin=False) as service:
            self.assertTrue(service.said(r"metrics on http://\[::1\]:\d+/metrics"))

    def test_what_cannot_be_is_said_and_ends_it(self):
        for text in ("x", "127.0.0.1:", ":1", "127.0.0.1:99999", "a:b:c"):
            for processes in ("1", "2"):
                ended = run("--admin", text, "--processes", processes)
                self.assertEqual(ended.returncode, 1, text)
                self.assertIn("--admin", ended.stderr)
                self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            ended = run("--admin", str(taken.getsockname()[1]))
            self.assertEqual(ended.returncode, 1)
            self.assertIn("Address already in use", ended.stderr)

    def test_off_by_default(self):
        with Service(admin=False) as service:
            service.port()
            self.assertNotIn("metrics on", service.text(service.log))


main()
