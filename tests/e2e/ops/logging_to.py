"""Where a service's log lines go, and what is in them."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

from service import SERVER, DEADLINE, Service, children, main, messages, read_lines, wait_until


def run(*arguments):
    """A service that ends by itself."""
    return subprocess.run([SERVER, "--port", "0", *arguments], capture_output=True, text=True,
                          timeout=DEADLINE, check=False)


class Destination(unittest.TestCase):
    def test_a_file_gets_everything_and_the_terminal_nothing(self):
        with Service("--request-log") as service:
            self.assertEqual(service.get("/")[0], 200)
            self.assertEqual(service.stop(), 0)
            self.assertEqual(service.text(service.out) + service.text(service.errors), "")
            self.assertIn("request completed", messages(service.log))

    def test_stderr_is_the_default_and_stdout_can_be_had(self):
        with Service("--log", "stderr", admin=False) as service:
            service.port(service.errors)
            self.assertEqual(service.stop(), 0)
            self.assertEqual(service.text(service.out), "")
        with Service("--log", "stdout", admin=False) as service:
            service.port(service.out)
            self.assertEqual(service.stop(), 0)
            self.assertEqual(service.text(service.errors), "")
            self.assertIn("stopping", service.text(service.out))

    def test_off_and_a_high_level_say_nothing(self):
        for arguments in (["--log", "off"], ["--log", "stderr", "--log-level", "off"],
                          ["--log", "stderr", "--log-level", "warn"]):
            with Service("--request-log", *arguments, admin=False) as service:
                # Nothing tells that it is up, but its threads.
                wait_until(lambda: os.path.exists(f"/proc/{service.pid}/task") and
                           len(os.listdir(f"/proc/{service.pid}/task")) >= 3, "its threads")
                self.assertEqual(service.stop(), 0)
                self.assertEqual(service.text(service.out) + service.text(service.errors), "")

    def test_a_file_that_cannot_be_opened_ends_it_with_the_reason(self):
        ended = run("--log", "/nonexistent/folder/log")
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, "^.*: can't log to /nonexistent/folder/log: No such file")
        self.assertEqual(len(ended.stderr.splitlines()), 1)
        self.assertEqual(ended.stdout, "")

    def test_a_bad_level_is_an_unusable_argument(self):
        ended = run("--log-level", "loud")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--log-level can't be 'loud'", ended.stderr)

    def test_a_full_disk_costs_lines_which_are_counted(self):
        with Service("--request-log", "--log", "/dev/full") as service:
            # Its log can't tell the ports, so the kernel does.
            ports = wait_until(lambda: len(listening_ports(service.pid)) == 2 and
                               listening_ports(service.pid), "listening sockets")
            ports.sort(key=lambda port: service.get("/metrics", port=port)[0])
            admin, port = ports  # 200 and 404
            for _ in range(20):
                self.assertEqual(service.get("/", port=port)[0], 200)
            wait_until(lambda: lost_lines(service, admin) >= 20, "lost lines to be counted")
            self.assertEqual(service.stop(), 0)

    def test_a_reader_that_left_costs_lines_which_are_counted(self):
        reader, writer = os.pipe()
        with Service("--request-log", "--log", "stdout",
                     stdout=os.fdopen(writer, "wb")) as service:
            port, admin = told_ports(reader)
            os.close(reader)
            for _ in range(20):
                self.assertEqual(service.get("/", port=port)[0], 200)
            wait_until(lambda: lost_lines(service, admin) >= 20,
                       "lost lines to be counted")
            self.assertEqual(service.stop(), 0)

    def test_a_reader_that_stands_still_costs_lines_and_holds_up_nobody(self):
        """The pipe and the buffers are filled; every request is still answered."""
        reader, writer = os.pipe()
        with Service("--request-log", "--log-query", "--log", "stdout",
                     stdout=os.fdopen(writer, "wb")) as service:
            port, admin = told_ports(reader)
            connection = service.connect(port)

            def dropped():
                for n in range(50):
                    connection.request("GET", f"/note?n={n}" + "x" * 4000)
                    self.assertEqual(connection.getresponse().read(), b"noted")
                return log_figure(service, admin, "donmaz_log_dropped_total")
            wait_until(dropped, "dropped lines to be counted")
            self.assertEqual(log_figure(service, admin, "donmaz_log_lost_total"), 0)
            # Read on: what was kept comes whole, and the log says what is missing.
            rest = []
            drain = threading.Thread(target=lambda: rest.extend(os.fdopen(reader, "rb")))
            drain.start()
            self.assertEqual(service.stop(), 0)
            drain.join()
            lines = [json.loads(line) for line in rest]  # only whole ones
            missing = [line for line in lines if line["msg"] == "log lines are missing here"]
            self.assertGreater(sum(line["dropped"] for line in missing), 0)

    def test_the_library_alone_prints_nothing(self):
        reader, writer = os.pipe()
        def give_port():
            os.dup2(writer, 3)
        process = subprocess.Popen([SERVER, "--library"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   pass_fds=[3, writer], preexec_fn=give_port)
        os.close(writer)
        port = int(os.read(reader, 64))
        os.close(reader)
        with Service(admin=False) as other:  # only for its client
            for path in ("/", "/absent", "/note?n=1", "/compute/a", "/compute/b", "/secrets"):
                other.get(path, port=port)
        out, errors = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, out, errors), (0, b"", b""))


def told_ports(reader):
    """Those of the service and of its metrics, from the log that the descriptor reads."""
    text = b""
    while not (found := re.search(rb'listening on http://[^"]*:(\d+)".*metrics on http://[^"]*:(\d+)/',
                                  text, re.DOTALL)):
        text += os.read(reader, 4096)
    return map(int, found.groups())


def log_figure(service, admin_port, name):
    text = service.get("/metrics", port=admin_port)[1].decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def lost_lines(service, admin_port):
    return log_figure(service, admin_port, "donmaz_log_lost_total")


def listening_ports(pid):
    """The ports of the process's listening TCP sockets."""
    inodes, ports = set(), []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.append(int(fields[1].split(":")[1], 16))
    return ports


class Content(unittest.TestCase):
    def test_no_secret_gets_into_the_log(self):
        with Service("--request-log", "--log-query") as service:
            secret = "geheim"
            headers = {"Authorization": f"Bearer {secret}", "Cookie": f"sid={secret}"}
            self.assertEqual(service.get(f"/secrets?token={secret}&a=1&API_KEY={secret}",
                                         headers)[0], 200)
            service.get(f"/absent?password={secret}", headers)
            self.assertEqual(service.stop(), 0)
            text = service.text(service.log)
            self.assertNotIn(secret, text)
            self.assertIn("/secrets?token=[Redacted]&a=1&API_KEY=[Redacted]", text)

    def test_the_query_is_left_out_unless_asked_for(self):
        with Service("--request-log") as service:
            service.get("/?anything=geheim")
            self.assertEqual(service.stop(), 0)
            self.assertNotIn("geheim", service.text(service.log))

    def test_the_list_of_secrets_can_be_added_to_and_replaced(self):
        for rules, shown in (("+?mine", ["token"]), ("?mine", [])):
            with Service("--request-log", "--log-query", "--log-redact", rules) as service:
                service.get("/?mine=geheim&token=open")
                self.assertEqual(service.stop(), 0)
                text = service.text(service.log)
                self.assertNotIn("geheim", text)
                self.assertEqual("open" in text, not shown)


class Loss(unittest.TestCase):
    def test_a_clean_exit_loses_nothing(self):
        # Without rescue it is one thread that logs, and its lines are in order.
        with Service("--request-log", "--rescue-after", "0") as service:
            connection = service.connect()
            for n in range(500):
                connection.request("GET", f"/note?n={n}")
                connection.getresponse().read()
            self.assertEqual(service.stop(), 0)
            lines = read_lines(service.log)
            self.assertEqual([line["n"] for line in lines if line["msg"] == "noted"],
                             [str(n) for n in range(500)])
            self.assertEqual(len([1 for line in lines if line["msg"] == "request completed"]), 500)

    def test_a_kill_loses_only_what_was_logged_just_before(self):
        """What a busy machine delays is delayed here, too: so it is the best run that shows what is
        lost by design."""
        def loses_little():
            with Service("--rescue-after", "0", admin=False) as service:
                connection, answered = service.connect(), []
                for n in range(60):
                    connection.request("GET", f"/note?n={n}")
                    connection.getresponse().read()
                    answered.append(time.monotonic())
                    time.sleep(0.0005)
                killed = time.monotonic()
                service.process.kill()
                service.process.wait()
                kept = [int(line["n"]) for line in read_lines(service.log)
                        if line["msg"] == "noted"]
                self.assertEqual(kept, list(range(len(kept))))
                lost = answered[len(kept):]
                return not lost or killed - lost[0] <= 0.01 and len(lost) < 0.75 * len(answered)
        wait_until(loses_little, "a run that loses no more than 10 ms")


class Rotation(unittest.TestCase):
    def rotate(self, service, number):
        old = service.log + ".1"
        os.rename(service.log, old)
        service.process.send_signal(number)
        wait_until(lambda: os.path.exists(service.log), "a new file")
        return old

    def test_both_signals_open_the_file_anew(self):
        for number in (signal.SIGHUP, signal.SIGUSR1):
            with Service("--request-log") as service:
                port = service.port()
                service.get("/note?n=before", port=port)
                wait_until(lambda: "noted" in messages(service.log), "the first line")
                old = self.rotate(service, number)
                service.get("/note?n=after", port=port)
                self.assertEqual(service.stop(), 0)
                self.assertEqual([line["n"] for line in read_lines(old) if "n" in line],
                                 ["before"])
                self.assertEqual([line["n"] for line in read_lines(service.log) if "n" in line],
                                 ["after"])

    def test_in_a_cluster_usr1_reopens_everywhere_and_replaces_nobody(self):
        with Service("--request-log", "--processes", "2") as service:
            port = service.port()
            workers = sorted(children(service.pid))
            connections = [service.connect(port) for _ in range(2)]
            pids = set()
            for connection in connections:
                connection.request("GET", "/pid")
                pids.add(int(connection.getresponse().read()))
            self.assertEqual(pids, set(workers))
            wait_until(lambda: messages(service.log).count("request completed") == 2, "two lines")
            self.rotate(service, signal.SIGUSR1)
            # Each worker follows for itself: until both are in the new file.
            def both():
                for connection in connections:
                    connection.request("GET", "/note?n=1")
                    connection.getresponse().read()
                return {line["pid"] for line in read_lines(service.log)} >= pids
            wait_until(both, "lines of both workers in the new file")
            self.assertEqual(sorted(children(service.pid)), workers)
            self.assertEqual(service.stop(), 0)
            self.assertIn(service.pid, {line["pid"] for line in read_lines(service.log)})

    def test_in_a_cluster_hup_reopens_and_replaces_the_workers(self):
        with Service("--request-log", "--processes", "2") as service:
            port = service.port()
            before = set(children(service.pid))
            old = self.rotate(service, signal.SIGHUP)
            wait_until(lambda: messages(service.log).count("SIGHUP: replacing the workers, one "
                                                           "after the other") == 1, "the note")
            wait_until(lambda: len(set(children(service.pid)) - before) == 2 and
                       not before & set(children(service.pid)), "new workers")
            self.assertEqual(service.get("/note?n=1", port=port)[0], 200)
            self.assertEqual(service.stop(), 0)
            self.assertIn("noted", messages(service.log))
            self.assertNotIn("noted", messages(old))


class Cluster(unittest.TestCase):
    def test_lines_of_all_processes_stay_whole_even_if_some_are_killed(self):
        with Service("--request-log", "--processes", "3", admin=False) as service:
            port, ending, answered = service.port(), threading.Event(), []
            def ask():
                count = 0
                while not ending.is_set():
                    connection = service.connect(port)
                    try:
                        for _ in range(50):
                            connection.request("GET", "/note?n=" + "x" * 300)
                            if connection.getresponse().read() == b"noted":
                                count += 1
                    except (OSError, http.client.HTTPException):  # cut by the kill
                        pass
                    finally:
                        connection.close()
                answered.append(count)
            threads = [threading.Thread(target=ask) for _ in range(6)]
            for thread in threads:
                thread.start()
            kills = 0
            for _ in range(4):
                victim = wait_until(lambda: children(service.pid), "a worker")[0]
                os.kill(victim, signal.SIGKILL)
                kills += 1
                wait_until(lambda: service.text(service.log).count("is ready") >= kills,
                           "its replacement")
            ending.set()
            for thread in threads:
                thread.join()
            self.assertEqual(service.stop(), 0)
            torn = []
            for line in service.text(service.log).splitlines():
                try:
                    json.loads(line)
                except ValueError:
                    torn.append(line)
            # Whoever was killed in mid-line left that one; nobody else's was joined to it.
            self.assertLessEqual(len(torn), kills, torn)
            for line in torn:
                self.assertEqual(line.count('{"level"'), 1, line)
            self.assertGreater(sum(answered), 100)


main()
