"""A strict reader of the Prometheus text format 0.0.4: raises Malformed on anything that is not
exactly as the format says, stricter than Prometheus itself where that finds faults."""
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Inf)|NaN")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


class Malformed(Exception):
    pass


class Family:
    def __init__(self, name, help_text):
        self.name, self.help, self.type = name, help_text, None
        self.samples = {}  # (sample name, sorted label pairs) -> float


def unescape(text, allowed):
    out, at = [], 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        pair = text[at:at + 2]
        if pair not in allowed:
            raise Malformed(f"escape {pair!r}")
        out.append(allowed[pair])
        at += 2
    return "".join(out)


def number(text):
    if not NUMBER.fullmatch(text):
        raise Malformed(f"number {text!r}")
    return float(text.replace("Inf", "inf").replace("NaN", "nan"))


def labels_of(text):
    """The labels at the start of text (after '{') and what follows '}'."""
    labels = {}
    while True:
        match = LABEL.match(text)
        if not match or text[match.end():match.end() + 2] != '="':
            raise Malformed(f"label at {text!r}")
        value = re.compile(r'((?:[^"\\\n]|\\.)*)"').match(text, match.end() + 2)
        if not value:
            raise Malformed(f"label value at {text!r}")
        if match.group() in labels:
            raise Malformed(f"label {match.group()} twice")
        labels[match.group()] = unescape(value.group(1), {"\\\\": "\\", '\\"': '"', "\\n": "\n"})
        text = text[value.end():]
        if text.startswith("}"):
            return labels, text[1:]
        if not text.startswith(","):
            raise Malformed(f"after a label: {text!r}")
        text = text[1:]


def sample_of(line):
    match = NAME.match(line)
    if not match:
        raise Malformed(f"line {line!r}")
    rest, labels = line[match.end():], {}
    if rest.startswith("{"):
        labels, rest = labels_of(rest[1:])
    if not rest.startswith(" "):
        raise Malformed(f"no space before the value: {line!r}")
    return match.group(), labels, number(rest[1:])


def check_histogram(family):
    series = {}
    for (name, labels), value in family.samples.items():
        labels = dict(labels)
        bound = labels.pop("le", None)
        entry = series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
        if name == family.name + "_bucket":
            if bound is None:
                raise Malformed(f"{name} without le")
            entry["buckets"].append((number(bound), value))
        elif bound is not None:
            raise Malformed(f"{name} with le")
        else:
            entry[name[len(family.name):]] = value
    for labels, entry in series.items():
        buckets = entry["buckets"]
        if set(entry) != {"buckets", "_sum", "_count"}:
            raise Malformed(f"{family.name}{labels}: has {sorted(entry)}")
        if not buckets or buckets[-1][0] != float("inf"):
            raise Malformed(f"{family.name}{labels}: no +Inf bucket at the end")
        if buckets[-1][1] != entry["_count"]:
            raise Malformed(f"{family.name}{labels}: +Inf is not _count")
        for (low, fewer), (high, more) in zip(buckets, buckets[1:]):
            if low >= high or fewer > more:
                raise Malformed(f"{family.name}{labels}: not cumulative at {high}")


def parse(data):
    """bytes -> {family name: Family}"""
    text = data.decode("utf-8")
    if text and not text.endswith("\n"):
        raise Malformed("no newline at the end")
    families, current = {}, None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, help_text = line[7:].partition(" ")
            if not NAME.fullmatch(name) or name in families:
                raise Malformed(f"HELP {name!r}")
            current = families[name] = Family(
                name, unescape(help_text, {"\\\\": "\\", "\\n": "\n"}))
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            if not current or name != current.name or current.type or kind not in TYPES:
                raise Malformed(f"TYPE {line!r}")
            current.type = kind
        else:
            name, labels, value = sample_of(line)
            if not current or not current.type:
                raise Malformed(f"sample before HELP and TYPE: {line!r}")
            parts = ("_bucket", "_sum", "_count") if current.type == "histogram" else ("",)
            if name not in {current.name + part for part in parts}:
                raise Malformed(f"{name} in family {current.name}")
            if current.type == "counter" and not value >= 0:
                raise Malformed(f"counter {name} is {value}")
            key = (name, tuple(sorted(labels.items())))
            if key in current.samples:
                raise Malformed(f"{key} twice")
            current.samples[key] = value
    for family in families.values():
        if family.type == "histogram":
            check_histogram(family)
    return families


def value(families, name, **labels):
    """The sum of the samples of that name with at least these labels."""
    family = next(f for f in families.values()
                  if name in (f.name, f.name + "_count", f.name + "_sum"))
    return sum(v for (sample, pairs), v in family.samples.items()
               if sample == name and labels.items() <= dict(pairs).items())
