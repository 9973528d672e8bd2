#!/usr/bin/env python3
"""Runs donmaz doctor against every Node given: each kind of program, started, attached to
and interrupted.

usage: versions.py DONMAZ NODE...

Fails when a verdict, a named function or the series of a thread is missing. Nodes to try:
peers/install frameworks, then peers/frameworks/node_modules/node*/bin/node.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

LOAD = ["--load", "-c5 -d2 /"]
SLOW = """
function slow() { const end = process.cpuUsage().user + 40000;
  while (process.cpuUsage().user < end) for (let i = 0; i < 2000; i++) Math.sqrt(i); }
"""
SERVE = "http.createServer((q, r) => { slow(); r.end(); }).listen(0, '127.0.0.1', function () { console.log(this.address().port); });"
PROGRAMS = {
    "cjs": ("s.cjs", "const http = require('http');" + SLOW + SERVE),
    "esm": ("s.mjs", "import http from 'node:http';" + SLOW + SERVE),
    "cluster": ("c.cjs", "const http = require('http'), cluster = require('cluster');" + SLOW +
                "if (cluster.isPrimary) { cluster.fork(); cluster.fork(); } else " + SERVE),
    "workers": ("w.cjs", "const http = require('http'), { Worker, isMainThread } = "
                "require('worker_threads');" + SLOW + "if (isMainThread) new Worker(__filename); "
                "else " + SERVE),
    "npm start": ("s.cjs", None),
}
ROLES = {"cjs": {"main"}, "esm": {"main"}, "cluster": {"main", "cluster"},
         "workers": {"main", "worker"}, "npm start": {"main"}}


def doctor(donmaz, folder, arguments, env):
    out = os.path.join(folder, "out.json")
    run = subprocess.run([donmaz, "doctor", "-o", "-", "--json", out, *LOAD, *arguments],
                         cwd=folder, env=env, capture_output=True, text=True, timeout=120,
                         check=False)
    if run.returncode:
        return {"verdict": f"exit {run.returncode}: {run.stderr[-300:]}", "loops": []}
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def wrong(report, program, path):
    found = []
    if report["verdict"] != "blocked-loop":
        found.append(f"verdict {report['verdict']} {report.get('evidence')}")
    culprit = report.get("culprit") or {}
    if (culprit.get("function"), culprit.get("file")) != ("slow", path):
        found.append(f"names {culprit.get('function')} in {culprit.get('file')}")
    roles = {s["role"] for s in report.get("series", {}).get("loops", [])}
    if not ROLES[program] <= roles:
        found.append(f"series of {sorted(roles)} only")
    return found


def attached(donmaz, node, folder, path, env):
    server = subprocess.Popen([node, "--inspect-port=0", path], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, cwd=folder, env=env)
    try:
        server.stdout.readline()
        report = doctor(donmaz, folder, ["--pid", str(server.pid)], env)
        time.sleep(0.1)
        found = wrong(report, "cjs", path)
        if server.poll() is not None:
            found.append("the program ended")
        return found
    finally:
        server.kill()
        server.communicate()


def interrupted(donmaz, node, folder, path, env):
    """Ctrl-C under load: the report must come, whatever Node does at its end."""
    out = os.path.join(folder, "interrupted.json")
    run = subprocess.Popen([donmaz, "doctor", "-o", "-", "--json", out, "--load", "-c5 -d60 /",
                            "--", node, path], cwd=folder, env=env, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        seen = os.path.join(folder, "served")
        deadline = time.monotonic() + 60
        while not os.path.exists(seen) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(run.pid, signal.SIGINT)
        _, err = run.communicate(timeout=60)
    finally:
        run.kill()
    os.unlink(seen)
    if run.returncode:
        return [f"exit {run.returncode}: {err[-300:]}"]
    with open(out, encoding="utf-8") as f:
        return wrong(json.load(f), "cjs", path)


def examine(donmaz, node):
    bad = 0
    env = dict(os.environ, PATH=os.path.dirname(node) + os.pathsep + os.environ["PATH"])
    version = subprocess.run([node, "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as f:
            json.dump({"name": "x", "version": "1.0.0", "scripts": {"start": "node s.cjs"}}, f)
        for program, (name, text) in PROGRAMS.items():
            path = os.path.join(folder, name)
            if text:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            command = ["npm", "start"] if program == "npm start" else [node, path]
            found = wrong(doctor(donmaz, folder, ["--", *command], env), program, path)
            bad += bool(found)
            print(f"{version:10} {program:10} {'; '.join(found) or 'ok'}", flush=True)
        found = attached(donmaz, node, folder, os.path.join(folder, "s.cjs"), env)
        bad += bool(found)
        print(f"{version:10} {'--pid':10} {'; '.join(found) or 'ok'}", flush=True)
        path = os.path.join(folder, "i.cjs")
        with open(path, "w", encoding="utf-8") as f:
            f.write("const http = require('http'); let n = 0;" + SLOW + SERVE.replace(
                "slow();", "slow(); if (++n === 40) require('fs').writeFileSync('served', '');"))
        found = interrupted(donmaz, node, folder, path, env)
        bad += bool(found)
        print(f"{version:10} {'Ctrl-C':10} {'; '.join(found) or 'ok'}", flush=True)
    return bad


def main():
    donmaz, *nodes = map(os.path.realpath, sys.argv[1:])
    if not nodes:
        sys.exit(re.sub(r"(?s).*(usage: [^\n]*).*", r"\1", __doc__))
    bad = sum(examine(donmaz, node) for node in nodes)
    print(f"\n{bad} of {len(nodes) * (len(PROGRAMS) + 2)} wrong")
    sys.exit(bad > 0)


main()
