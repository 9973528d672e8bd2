#!/usr/bin/env python3
"""The generated catalogue keeps its promises: make_catalogue.py PATH_OF_MAKE_CATALOGUE."""
import csv
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""


def make(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, timeout=60, check=False)


def is_valid(row, seen):
    """An independent reading of the rules in examples/bookstore/catalogue.h."""
    if len(row) != 5 or any('"' in field for field in row[:1] + row[2:]):
        return False
    isbn, title, author, price, stock = row
    digits = isbn.isascii() and isbn.isdigit() and len(isbn) == 13
    if not digits or sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(isbn)) % 10:
        return False
    whole, point, cents = price.partition(".")
    return bool(isbn not in seen and title and author and point and whole.isdigit()
                and cents.isdigit() and len(cents) == 2 and stock.isdigit() and '12"' not in title)


class MakeCatalogue(unittest.TestCase):
    def test_bad_rows_are_as_many_as_asked(self):
        for rows, bad in ((5000, 100), (1000, 0), (10, 10), (1, 1), (0, 0), (3001, 7)):
            result = make("--rows", str(rows), "--bad", str(bad), "--seed", "9")
            self.assertEqual(result.returncode, 0)
            lines = list(csv.reader(result.stdout.decode().splitlines(), delimiter=";"))
            self.assertEqual(lines[0], ["isbn", "title", "author", "price", "stock"])
            self.assertEqual(len(lines) - 1, rows)
            seen, good = set(), 0
            for row in lines[1:]:
                if is_valid(row, seen):
                    good += 1
                    seen.add(row[0])
            self.assertEqual(rows - good, bad)

    def test_a_seed_gives_the_same_bytes_and_another_seed_others(self):
        one = make("--rows", "1000", "--seed", "1").stdout
        self.assertEqual(one, make("--rows", "1000").stdout)
        self.assertNotEqual(one, make("--rows", "1000", "--seed", "2").stdout)

    def test_unusable_arguments_are_refused(self):
        for args in (["--rows", "x"], ["--rows", "-1"], ["--rows", "10", "--bad", "11"], ["extra"],
                     ["--what"]):
            self.assertEqual(make(*args).returncode, 2)

    def test_output_that_cannot_be_written_is_an_error(self):
        def allow_little():  # a file that can't grow, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        with tempfile.TemporaryFile() as small:
            result = subprocess.run([PROGRAM], stdout=small, stderr=subprocess.PIPE, timeout=60,
                                    check=False, preexec_fn=allow_little)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"File too large", result.stderr)


if __name__ == "__main__":
    unittest.main()
