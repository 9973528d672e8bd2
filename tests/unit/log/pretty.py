"""pino-pretty reads our lines. Skipped where the peers' npm packages are not installed."""
import os
import re
import subprocess
import sys

PROGRAM, PEER = sys.argv[1:]
node = os.path.join(PEER, "node_modules/.bin/node")
pretty = os.path.join(PEER, "node_modules/.bin/pino-pretty")
if not (os.path.exists(node) and os.path.exists(pretty)):
    print("run peers/install log-node to have pino-pretty")
    sys.exit(77)

lines = subprocess.run([PROGRAM, "/dev/stdout", "2"], check=True, capture_output=True).stdout
lines = b"".join(lines.splitlines(keepends=True)[:2])
shown = subprocess.run([node, pretty, "--no-colorPretty", "--singleLine"], input=lines, check=True,
                       capture_output=True).stdout.decode()
print(shown)
shown_lines = shown.strip().split("\n")
assert len(shown_lines) == 2, shown
for number, line in enumerate(shown_lines):
    # What pino-pretty did not understand it prints as it came, in braces from the start.
    assert re.match(r"\[\d\d:\d\d:\d\d\.\d{3}\] INFO \(\d+\): request completed \{", line), line
    assert f'"reqId":"req-{number}"' in line and '"statusCode":200' in line, line
