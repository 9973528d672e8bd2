#!/usr/bin/env python3
"""Runs pages.mjs with its npm packages, which are installed once into WORK_DIR.

usage: run.py WORK_DIR NODE DONMAZ CHROMIUM SERVERS.mjs
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "web"))
import build  # noqa: E402  (the pages' own bundler installs in the same way)


def main():
    work, node, *args = (os.path.abspath(a) for a in sys.argv[1:])
    build.install(HERE, work)
    shutil.copy(os.path.join(HERE, "pages.mjs"), work)
    sys.exit(subprocess.run([node, os.path.join(work, "pages.mjs"), *args], check=False).returncode)


main()
