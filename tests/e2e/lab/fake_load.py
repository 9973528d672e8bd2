#!/usr/bin/env python3
"""A load generator for the lab's tests: takes the options of `donmaz load` that the lab uses and
prints the JSON the lab reads. It really sends requests, but makes no claim to accuracy: on a machine
that is too busy for it, it goes on until each connection has done a few, whatever the duration."""
import http.client
import json
import os
import re
import sys
import threading
import time


def seconds(text):
    return float(re.fullmatch(r"([\d.]+)s?", text).group(1))


LEAST = 4  # requests of each connection that count
TIMEOUT = float(os.environ.get("FAKE_LOAD_TIMEOUT", "60"))


def load(url, connections, start, end, latencies, failures):
    host, port, path = re.fullmatch(r"http://([\d.]+):(\d+)(/.*)", url).groups()

    def client():
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT)
        counted = 0
        while (now := time.monotonic()) < end or counted < LEAST:
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
            except OSError as error:
                failures.append(type(error).__name__)
                connection.close()
                counted += 1
                time.sleep(0.01)
                continue
            if now >= start:
                counted += 1
                latencies.append((response.status, (time.monotonic() - now) * 1000))

    threads = [threading.Thread(target=client) for _ in range(connections)]
    for thread in threads:
        thread.start()
    return threads


def main(argv):
    assert argv[0] == "load", argv
    if "FAKE_LOAD_LOG" in os.environ:
        with open(os.environ["FAKE_LOAD_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps(argv) + "\n")
    duration, warmup, urls, only_2xx = 10.0, 0.0, [], False
    words = iter(argv[1:])
    for word in words:
        if word == "-d":
            duration = seconds(next(words))
        elif word == "--warmup":
            warmup = seconds(next(words))
        elif word in ("-p", "-R", "--latencies"):
            next(words)
        elif word == "-x":
            only_2xx = True
        elif word in ("-n", "--json=-", "--open"):
            pass
        else:
            url, _, connections = word.rpartition("@")
            urls.append((url, int(connections)))
    start = time.monotonic() + warmup
    results = [(url, connections, [], []) for url, connections in urls]
    threads = [thread for result in results
               for thread in load(result[0], result[1], start, start + duration, *result[2:])]
    for thread in threads:
        thread.join()
    endpoints = []
    for url, connections, latencies, failures in results:
        times = sorted(ms for status, ms in latencies
                       if not only_2xx or 200 <= status < 300) or [0]
        endpoints.append({
            "url": url, "path": "/" + url.split("/", 3)[3], "connections": connections,
            "requests": len(latencies), "rps": len(latencies) / duration, "bytes": 100 * len(latencies),
            "mean_ms": sum(times) / len(times), "p50_ms": times[len(times) // 2],
            "p90_ms": times[len(times) * 9 // 10], "p99_ms": times[len(times) * 99 // 100],
            "p99_9_ms": times[-1], "max_ms": times[-1], "errors": len(failures), "timeouts": 0,
            "non2xx": sum(1 for status, _ in latencies if not 200 <= status < 300),
            "errorClasses": {name: failures.count(name) for name in set(failures)}})
    json.dump({"endpoints": endpoints, "client": {"cpu_seconds": time.process_time()}}, sys.stdout)


main(sys.argv[1:])
