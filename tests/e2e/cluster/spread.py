"""Connections are spread over the workers evenly, however few they are."""
import collections
import json
import unittest

from service import Service, main, wait_until


class Spread(unittest.TestCase):
    def assert_alternate(self, pids):
        for first, second in zip(pids[::2], pids[1::2]):
            self.assertNotEqual(first, second, pids)

    def test_two_connections_an_endpoint_land_on_two_processes(self):
        with Service() as service:
            connections = [service.connect() for _ in range(4)]
            pids = [connection.pid() for connection in connections]
            self.assertEqual(set(pids), set(service.workers()))
            self.assert_alternate(pids)

    def test_the_same_with_several_loops_a_process_and_each_loop_gets_one(self):
        # Without rescue a loop stays on its thread, which then tells the loops apart.
        with Service("--loops", "2", "--rescue-after", "0") as service:
            connections = [service.connect() for _ in range(4)]
            places = []
            for connection in connections:
                connection.send("/pid")
                answer = json.loads(connection.receive()[2])
                places.append((answer["pid"], answer["thread"]))
            self.assert_alternate([pid for pid, _ in places])
            self.assertEqual(len(set(places)), 4, places)

    def test_many_connections_differ_by_one_at_most(self):
        with Service(processes=3) as service:
            connections = [service.connect() for _ in range(100)]
            counts = collections.Counter(connection.pid() for connection in connections)
            self.assertEqual(sorted(counts.values()), [33, 33, 34])

    def test_a_worker_that_lost_connections_gets_the_next_ones(self):
        with Service() as service:
            connections = [service.connect() for _ in range(8)]
            by_pid = collections.defaultdict(list)
            for connection in connections:
                by_pid[connection.pid()].append(connection)
            poor, (one, two, three, stays) = next(iter(by_pid.items()))
            for connection in (one, two, three):
                connection.close()
            wait_until(lambda: self.server_sockets(service.port()) == 5, "three closings")
            # Closing and counting are one step of the loop, which answers after it.
            self.assertEqual(stays.pid(), poor)
            self.assertEqual([service.connect().pid() for _ in range(3)], [poor] * 3)

    @staticmethod
    def server_sockets(port):
        """How many connections the service holds: ESTABLISHED, or closed by the client only."""
        with open("/proc/self/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
        return sum(row[1].endswith(f":{port:04X}") and row[3] in ("01", "08") for row in rows)

    def test_a_connection_is_not_counted_before_all_workers_are_up(self):
        with Service(processes=4) as service:
            self.assertEqual(len({service.connect().pid() for _ in range(4)}), 4)


if __name__ == "__main__":
    main()
