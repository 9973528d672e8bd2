#!/usr/bin/env python3
"""Bundles the report pages: one script and one style sheet a page, from npm packages by pinned
versions (package-lock.json holds their hashes).

usage: build.py SOURCE_DIR WORK_DIR OUT_DIR PAGE...

npm is asked only when the lock file has changed since the last time, so later builds need no
network. Without npm, or when it can't install, the pages are still built, from our own sources
alone: tables, bars and downloads work, and the page says which charts are missing and why.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys


def install(source, work):
    """None, or why the npm packages can't be had."""
    os.makedirs(work, exist_ok=True)
    names = ("package.json", "package-lock.json", ".npmrc")
    digest = hashlib.sha256()
    for name in names:
        with open(os.path.join(source, name), "rb") as file:
            digest.update(file.read())
    stamp = os.path.join(work, "installed")
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            if file.read() == digest.hexdigest():
                return None
    if not shutil.which("npm"):
        return "npm is not installed"
    for name in names:
        shutil.copy(os.path.join(source, name), work)
    run = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
                         cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if run.returncode:
        return "npm could not install the packages of web/package-lock.json"
    with open(stamp, "w", encoding="ascii") as file:
        file.write(digest.hexdigest())
    return None


def bundle(source, work, out, page):
    esbuild = os.path.join(work, "node_modules", ".bin", "esbuild")
    env = dict(os.environ, NODE_PATH=os.path.join(work, "node_modules"))
    subprocess.run([esbuild, os.path.join(source, page + ".js"), "--bundle", "--minify",
                    "--format=iife", "--target=es2020", "--charset=utf8", "--log-level=warning",
                    "--legal-comments=inline", f"--outfile={os.path.join(out, page + '.js')}"],
                   env=env, check=True)


def join(source, out, page):
    """The page from our own modules only: what npm would give is null in them. Works because no two
    of a page's modules use one top-level name for two things."""
    scripts, styles, seen = [], [], set()

    def take(path):
        path = os.path.normpath(path)
        if path in seen:
            return
        seen.add(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".css"):
            styles.append(text)
            return
        lines = []
        for line in text.split("\n"):
            found = re.fullmatch(r"import (?:(.+) from )?'(.+)';", line)
            if not found:
                lines.append(re.sub(r"^export (?=(async )?(function|const|class))", "", line))
            elif found[2].startswith("."):
                take(os.path.join(os.path.dirname(path), found[2]))
            elif found[1]:
                names = re.findall(r"\w+", re.sub(r"\* as |\w+ as ", "", found[1]))
                lines += [f"const {name} = null;" for name in names]
        scripts.append("\n".join(lines))

    take(os.path.join(source, page + ".js"))
    with open(os.path.join(out, page + ".js"), "w", encoding="utf-8") as file:
        file.write("(() => {'use strict';\n" + "\n".join(scripts) + "\n})();\n")
    with open(os.path.join(out, page + ".css"), "w", encoding="utf-8") as file:
        file.write("\n".join(styles))


def make_embeddable(out, page):
    """The script stands inside the page: nothing in it may look like its end."""
    path = os.path.join(out, page + ".js")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def main():
    source, work, out, *pages = sys.argv[1:]
    work, out = os.path.abspath(work), os.path.abspath(out)
    problem = install(source, work)
    if problem:
        print(f"web: {problem}: the report pages are built without charts that need npm packages;\n"
              "web: install npm, touch web/package.json and build again to have them",
              file=sys.stderr)
    for page in pages:
        if problem:
            join(source, out, page)
        else:
            bundle(source, work, out, page)
        make_embeddable(out, page)


if __name__ == "__main__":
    main()
