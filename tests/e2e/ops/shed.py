"""Overload protection of several loops and several processes: whose the limits are, who says that
it is not ready, and what /metrics shows."""
import os
import select
import unittest

from service import Service, main, wait_until

import prometheus  # in tests/lib, which service.py adds to the path
from prometheus import value


class Case(unittest.TestCase):
    def protected(self, in_flight, *arguments):
        """A service whose connections are never closed because of pressure."""
        service = Service("--shed", "fixed", "--shed-in-flight-max", str(in_flight),
                          "--shed-close-every", "0", *arguments)
        self.addCleanup(service.__exit__)
        self.release_file = os.path.join(service.dir, "release")
        return service

    def connect(self, service):
        connection = service.connect(self.port)
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, path="/"):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()

    def park(self, connection):
        """A request that stays in flight; whoever sent it can read its response later."""
        connection.request("GET", f"/park?until={self.release_file}")

    def release(self):
        with open(self.release_file, "w", encoding="ascii"):
            pass

    def scrape(self, service):
        return prometheus.parse(service.metrics())

    def is_unready(self, refused, other):
        """A refusal, and right after it what readiness says; it says so for a second."""
        self.assertEqual(self.ask(refused)[0], 503)
        return self.ask(other, "/readyz")[0] == 503


class Loops(Case):
    def test_the_limit_is_shared_out_and_readiness_is_the_processs(self):
        service = self.protected(4, "--loops", "2")
        self.port = service.port()
        connections = [self.connect(service) for _ in range(24)]
        for connection in connections:  # the kernel decides which loop gets which
            self.park(connection)

        def counts():
            families = self.scrape(service)
            refused = value(families, "donmaz_shed_refused_total", reason="in_flight")
            return (value(families, "donmaz_shed_admitted_total"),
                    value(families, "donmaz_shed_in_flight"), refused)

        wait_until(lambda: sum(counts()[::2]) == 24, "all were let in or refused")
        admitted, in_flight, refused = counts()
        self.assertEqual(admitted, in_flight)
        self.assertLessEqual(in_flight, 4)  # two of each loop
        self.assertGreaterEqual(in_flight, 2)
        # Those that were refused can be asked again; their loop is full.
        def those_answered():
            readable = select.select([c.sock for c in connections], [], [], 0)[0]
            return len(readable) == refused and [c for c in connections if c.sock in readable]
        answered = wait_until(those_answered, "the refusals arrive")
        for connection in answered:
            response = connection.getresponse()
            self.assertEqual((response.status, response.getheader("Retry-After")), (503, "1"))
            response.read()
        # Not ready on whatever loop one asks, alive on each.
        for _ in range(8):
            other = self.connect(service)
            wait_until(lambda: self.is_unready(answered[0], other), "it says that it is not ready")
            self.assertEqual(self.ask(other, "/livez")[0], 200)
        self.release()
        for connection in connections:
            if connection not in answered:
                self.assertEqual(connection.getresponse().read(), b"parked")
        wait_until(lambda: self.ask(answered[0])[0] == 200, "it serves again")
        wait_until(lambda: self.ask(answered[0], "/readyz")[0] == 200, "it is ready again")
        self.assertEqual(service.stop(), 0)


class Processes(Case):
    def of_each_worker(self, service, count):
        """{pid: connections}, at least so many of each of two workers."""
        found = {}

        def enough():
            connection = self.connect(service)
            found.setdefault(self.ask(connection, "/pid")[1], []).append(connection)
            return len(found) == 2 and min(map(len, found.values())) >= count
        wait_until(enough, "connections of both workers")
        return found

    def test_each_has_limits_of_its_own(self):
        service = self.protected(2, "--processes", "2")
        self.port = service.port()
        full, free = self.of_each_worker(service, 4).values()
        self.park(full[0])
        self.park(full[1])
        wait_until(lambda: value(self.scrape(service), "donmaz_shed_in_flight") == 2, "two in flight")
        for _ in range(5):
            self.assertEqual(self.ask(full[2])[0], 503)
            self.assertEqual(self.ask(free[2])[0], 200)
        # One is not ready, the other is.
        wait_until(lambda: self.is_unready(full[2], full[3]), "the full one is not ready")
        self.assertEqual(self.ask(free[3], "/readyz")[0], 200)
        self.assertEqual(self.ask(full[3], "/livez")[0], 200)
        families = self.scrape(service)
        by_worker = [(value(families, "donmaz_shed_in_flight", worker=worker),
                      value(families, "donmaz_shed_refused_total", worker=worker, reason="in_flight"))
                     for worker in ("1", "2")]
        refused = value(families, "donmaz_shed_refused_total")
        self.assertEqual(sorted(by_worker), [(0, 0), (2, refused)])
        self.assertGreaterEqual(refused, 5)
        self.release()
        for connection in full[:2]:
            self.assertEqual(connection.getresponse().read(), b"parked")
        wait_until(lambda: self.ask(full[2])[0] == 200, "it serves again")
        self.assertEqual(service.stop(), 0)


main()
