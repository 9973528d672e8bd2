"""What `make install` puts there: headers for C and C++, pages, and libraries to build against.

installed.py BUILD-FOLDER C-COMPILER"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, CC = sys.argv.pop(1), sys.argv.pop(1)
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.root)
        cls.library = cls.find("libdonmaz.so").parent
        cls.env = dict(os.environ, PKG_CONFIG_PATH=str(cls.library / "pkgconfig"),
                       PKG_CONFIG_SYSROOT_DIR=str(cls.root), LD_LIBRARY_PATH=str(cls.library))

    @classmethod
    def find(cls, name):
        found = list(cls.root.rglob(name))
        if len(found) != 1:
            raise AssertionError(f"{name}: {found}")
        return found[0]

    def headers(self):
        folder = self.find("donmaz.h").parent
        return folder, sorted(path.relative_to(folder) for path in folder.rglob("*.h"))

    def compile_each_header(self, compiler, language):
        folder, headers = self.headers()
        self.assertGreater(len(headers), 10)
        for header in headers:
            run(compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", folder, "-x", language,
                "-", input=f"#include <{header}>\n")

    def test_each_header_compiles_alone_in_c(self):
        self.compile_each_header(CC, "c")

    def test_each_header_compiles_alone_in_cpp(self):
        compiler = shutil.which("g++") or shutil.which("clang++")
        self.assertTrue(compiler, "no C++ compiler")
        self.compile_each_header(compiler, "c++")

    def test_cpp_links_what_is_written_in_c(self):
        compiler = shutil.which("g++") or shutil.which("clang++")
        source = self.folder / "from_cpp.cc"
        source.write_text("#include <donmaz.h>\nint main() { return dz_strerror(0) ? 0 : 1; }\n")
        program = self.folder / "from_cpp"
        folder = self.find("donmaz.h").parent
        # Its own runtime is not needed, and may not be there.
        run(compiler, "-nostdlib++" if "clang" in compiler else "-O1", "-I", folder, source,
            "-L", self.library, "-ldonmaz", "-o", program)
        run(program, env=self.env)

    def test_exactly_the_public_functions_are_exported(self):
        folder, headers = self.headers()
        declared = set()
        for header in headers:
            text = re.sub(r"/\*.*?\*/", "", (folder / header).read_text(), flags=re.S)
            declared |= set(re.findall(r"^DZ_API\b[^;{(]*?\b(dz_\w+)\s*\(", text, flags=re.M))
        lines = run("nm", "-D", "--defined-only", self.library / "libdonmaz.so").splitlines()
        exported = {line.split()[2].partition("@")[0] for line in lines}
        self.assertGreater(len(declared), 100)
        self.assertEqual(exported - declared, set(), "exported, but not public")
        self.assertEqual(declared - exported, set(), "public, but not exported")

    def build(self, *extra, static=False):
        flags = run("pkg-config", "--cflags", "--libs", *extra, "donmaz", env=self.env).split()
        if static:
            flags = ["-l:libdonmaz.a" if flag == "-ldonmaz" else flag for flag in flags]
        program = self.folder / ("static" if static else "shared")
        run(CC, SOURCE / "examples" / "hello.c", *flags, "-o", program)
        return program

    def test_an_example_builds_against_the_shared_library(self):
        program = self.build()
        self.assertIn("--port", run(program, "--help", env=self.env))
        self.assertIn("libdonmaz.so", run("ldd", program, env=self.env))

    def test_an_example_builds_against_the_static_library(self):
        program = self.build("--static", static=True)
        self.assertIn("--port", run(program, "--help"))
        self.assertNotIn("libdonmaz", run("ldd", program))

    def test_the_command_and_a_page_for_each_of_its_own_are_there(self):
        command = next(path for path in self.root.rglob("bin/donmaz"))
        names = re.findall(r"^  (load|doctor|flame|lab)\b", run(command, "--help"), flags=re.M)
        self.assertEqual(sorted(names), ["doctor", "flame", "lab", "load"])
        for name in ["donmaz", *(f"donmaz-{name}" for name in names)]:
            self.assertTrue(self.find(f"{name}.1").read_text().startswith(".TH"), name)


if __name__ == "__main__":
    unittest.main()
