#!/usr/bin/env python3
"""Bundles the report pages: one script and one style sheet a page, from npm packages by pinned
versions (package-lock.json holds their hashes).

usage: build.py SOURCE_DIR WORK_DIR OUT_DIR PAGE...

npm is asked only when the lock file has changed since the last time, so later builds need no
network.
"""
import hashlib
import os
import shutil
import subprocess
import sys


def install(source, work):
    os.makedirs(work, exist_ok=True)
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join(open(os.path.join(source, n), "rb").read() for n in names))
    stamp = os.path.join(work, "installed")
    if os.path.exists(stamp) and open(stamp).read() == digest.hexdigest():
        return
    for name in names:
        shutil.copy(os.path.join(source, name), work)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
                   cwd=work, check=True, stdin=subprocess.DEVNULL)
    with open(stamp, "w") as f:
        f.write(digest.hexdigest())


def bundle(source, work, out, page):
    esbuild = os.path.join(work, "node_modules", ".bin", "esbuild")
    env = dict(os.environ, NODE_PATH=os.path.join(work, "node_modules"))
    subprocess.run([esbuild, os.path.join(source, page + ".js"), "--bundle", "--minify",
                    "--format=iife", "--target=es2020", "--charset=utf8", "--log-level=warning",
                    "--legal-comments=inline", f"--outfile={os.path.join(out, page + '.js')}"],
                   env=env, check=True)
    script = os.path.join(out, page + ".js")
    text = open(script, encoding="utf-8").read()
    # The script stands inside the page: nothing in it may look like its end.
    with open(script, "w", encoding="utf-8") as f:
        f.write(text.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def main():
    source, work, out, *pages = sys.argv[1:]
    work, out = os.path.abspath(work), os.path.abspath(out)
    install(source, work)
    for page in pages:
        bundle(source, work, out, page)


main()
