#!/usr/bin/env python3
"""csv2json as a user runs it: csv2json.py PATH_OF_CSV2JSON."""
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""


class Csv2Json(unittest.TestCase):
    def run_on(self, text, *options, **kwargs):
        data = text if isinstance(text, bytes) else text.encode()
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(data)
            file.flush()
            self.name = file.name
            return subprocess.run([PROGRAM, file.name, *options], capture_output=True, timeout=60,
                                  check=False, **kwargs)

    def rows(self, result):
        return [json.loads(line) for line in result.stdout.decode().splitlines()]

    def assert_fails_at(self, result, place, *words):
        self.assertEqual(result.returncode, 1)
        message = result.stderr.decode()
        self.assertIn(f"{self.name}:{place}: ", message)
        for word in words:
            self.assertIn(word, message)

    def test_rows_become_arrays_one_a_line(self):
        result = self.run_on('a,"b ""c""\nd",\r\n1,2,\u015f\n\n,,')
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, b"")
        self.assertEqual(self.rows(result),
                         [["a", 'b "c"\nd', ""], ["1", "2", "\u015f"], ["", "", ""]])

    def test_header_makes_objects(self):
        result = self.run_on('\ufeffid;"full ""name"""\n1;"x;y"\n', "--header", "--separator", ";")
        self.assertEqual(self.rows(result), [{"id": "1", 'full "name"': "x;y"}])

    def test_tab_separates(self):
        for name in ("tab", "\t", "\\t"):
            self.assertEqual(self.rows(self.run_on("a\tb,c", "--separator", name)), [["a", "b,c"]])

    def test_empty_input_has_no_rows(self):
        for text in ("", "\n\r\n", "\ufeff", "a,b\n"):
            result = self.run_on(text, "--header")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))

    def test_malformed_input_names_line_and_column(self):
        result = self.run_on('a,b\n"x\ny",z\n1,5" pipe\n')
        self.assert_fails_at(result, "4:4", "quote inside an unquoted field")
        self.assertEqual(self.rows(result), [["a", "b"], ["x\ny", "z"]])
        self.assert_fails_at(self.run_on('a\r\n"b"c'), "2:4", "after a closing quote")
        self.assert_fails_at(self.run_on('a\r"b\n\n'), "2:1", "never closed")
        self.assert_fails_at(self.run_on(b"ok,\xff\n"), "1:4", "UTF-8")

    def test_rows_may_be_ragged_unless_there_is_a_header(self):
        self.assertEqual(self.rows(self.run_on("a,b\nc\nd,e,f")), [["a", "b"], ["c"], ["d", "e", "f"]])
        self.assert_fails_at(self.run_on("a,b\nc\n", "--header"), "2:1", "number of fields")
        self.assert_fails_at(self.run_on("a,b,a\n1,2,3", "--header"), "1:5", "twice")

    def test_lenient_goes_on_and_still_tells(self):
        result = self.run_on('a,5"\n"b"c,d\nok,"x', "--lenient")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(self.rows(result), [["a", '5"'], ['"b"c', "d"], ["ok", '"x']])
        for place in ("1:4", "2:4", "3:4"):
            self.assertIn(f":{place}: ", result.stderr.decode())
        result = self.run_on("a,b\n1\n2,3,4,5\n", "--header", "--lenient")
        self.assertEqual(self.rows(result),
                         [{"a": "1", "b": None}, {"a": "2", "b": "3", "_extra": ["4", "5"]}])
        self.assertEqual(self.rows(self.run_on(b"\xff", "-l")), [["\ufffd"]])
        many = self.run_on('x"\n' * 100, "--lenient")
        self.assertEqual(len(self.rows(many)), 100)
        self.assertEqual(len(many.stderr.splitlines()), 21)
        self.assertIn(b"80 more problems", many.stderr)

    def test_wide_rows_and_large_files_are_kept_whole(self):
        wide = ",".join(str(i) for i in range(5000))
        result = self.run_on("\n".join([wide] * 40))
        self.assertEqual(self.rows(result), [[str(i) for i in range(5000)]] * 40)

    def test_standard_input_is_read_from_a_pipe(self):
        result = subprocess.run([PROGRAM, "-"], input=b"a,b\n" * 200000, capture_output=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout, b'["a","b"]\n' * 200000)

    def test_output_that_cannot_be_written_is_an_error(self):
        def allow_little():  # a file that can't grow, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        with tempfile.TemporaryFile() as small, tempfile.NamedTemporaryFile() as file:
            file.write(b"a,b\n" * 100000)
            file.flush()
            result = subprocess.run([PROGRAM, file.name], stdout=small, stderr=subprocess.PIPE,
                                    timeout=60, check=False, preexec_fn=allow_little)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"stdout: File too large", result.stderr)
            read, write = os.pipe()
            os.close(read)
            result = subprocess.run([PROGRAM, file.name], stdout=write, stderr=subprocess.PIPE,
                                    timeout=60, check=False)
            os.close(write)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"stdout: Broken pipe", result.stderr)

    def test_missing_files_and_arguments_are_told(self):
        def run(*args):
            return subprocess.run([PROGRAM, *args], capture_output=True, timeout=60, check=False)
        result = run("/nonexistent/x.csv")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"/nonexistent/x.csv: No such file", result.stderr)
        self.assertEqual(run("/").returncode, 1)
        for args in ([], ["a", "b"], ["x", "--separator", '"'], ["x", "--separator", "ab"],
                     ["x", "--wrong"]):
            result = run(*args)
            self.assertEqual(result.returncode, 2)
            self.assertNotEqual(result.stderr, b"")
        self.assertIn(b"--lenient", run("--help").stdout)


if __name__ == "__main__":
    unittest.main()
