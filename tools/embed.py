#!/usr/bin/env python3
"""Turns files into one C source with a constant for each.

usage: embed.py OUT.c NAME=FILE...

Each file becomes `const char NAME[]` (NUL-terminated) and `const size_t NAME_len`.
"""
import sys


def main():
    out, pairs = sys.argv[1], sys.argv[2:]
    with open(out, "w", encoding="ascii") as c:
        c.write("#include <stddef.h>\n")
        for pair in pairs:
            name, path = pair.split("=", 1)
            with open(path, "rb") as f:
                data = f.read()
            c.write(f"extern const char {name}[];\nextern const size_t {name}_len;\n")
            c.write(f"const size_t {name}_len = {len(data)};\nconst char {name}[] = {{\n")
            for i in range(0, len(data), 20):
                c.write(",".join(str(b if b < 128 else b - 256) for b in data[i:i + 20]) + ",\n")
            c.write("0};\n")


main()
