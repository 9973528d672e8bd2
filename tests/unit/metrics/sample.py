"""The text of a registry reads back, with our strict parser and with promtool where it is there."""
import math
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import prometheus

PROGRAM = sys.argv.pop()


def sample(**env):
    return subprocess.run([PROGRAM], check=True, capture_output=True,
                          env={**os.environ, **env}).stdout


class Text(unittest.TestCase):
    def test_reads_back(self):
        families = prometheus.parse(sample())
        route, method = '/a "b"\\c\nd', "GËT"
        requests = families["requests_total"]
        self.assertEqual(requests.type, "counter")
        self.assertEqual(requests.samples, {
            ("requests_total", (("method", method), ("route", route))): 0,
            ("requests_total", ()): 3})
        self.assertEqual(families["open_connections"].help, "A \\ B\nC")
        self.assertEqual(families["open_connections"].samples[("open_connections", ())], -4)
        value = lambda name: families[name].samples[(name, ())]
        self.assertEqual(value("quarter"), 0.25)
        self.assertEqual(value("vast"), -1.5e300)
        self.assertEqual(value("endless"), math.inf)
        self.assertTrue(math.isnan(value("undefined")))
        wait = families["wait_seconds"].samples
        values, v = [], 1
        while v <= 20000000000:
            values.append(v)
            v = v * 3 // 2 + 1
        labels = (("route", route),)
        self.assertEqual(wait[("wait_seconds_count", labels)], len(values))
        self.assertAlmostEqual(wait[("wait_seconds_sum", labels)], sum(values) * 1e-9, places=6)
        for limit in (0.0005, 0.1, 10):
            least = sum(v <= limit * 1e9 * 0.98 for v in values)
            most = sum(v <= limit * 1e9 * 1.02 for v in values)
            got = wait[("wait_seconds_bucket", (("le", f"{limit:g}"),) + labels)]
            self.assertTrue(least <= got <= most, (limit, least, got, most))

    def test_is_the_same_in_every_locale(self):
        self.assertEqual(sample(LC_ALL="C"), sample(LC_ALL="de_DE.UTF-8"))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_reads_it(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=sample(),
                              capture_output=True)
        # Status 1 is a parse error; 3 is lint advice on names, which the sample picks freely.
        self.assertIn(done.returncode, (0, 3), done.stderr.decode())
        self.assertNotIn(b"error while linting", done.stderr)


class Parser(unittest.TestCase):
    def test_refuses_what_is_not_the_format(self):
        head = "# HELP a x\n# TYPE a counter\n"
        for text in ("a 1\n", head + "a 1", head + "a 1\na 1\n", head + "a -1\n",
                     head + "b 1\n", head + "a{x=\"1\" 1\n", head + "a{x=\"\\q\"} 1\n",
                     head + "a  1\n", head + "a 0,5\n", head + "a one\n", head + head,
                     head + 'a{x="1",x="2"} 1\n',
                     "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\n"
                     "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
                     "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n"):
            with self.assertRaises(prometheus.Malformed, msg=text):
                prometheus.parse(text.encode())


unittest.main()
