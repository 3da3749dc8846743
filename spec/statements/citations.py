#!/usr/bin/env python3
"""Compares the statements that tests cite with the ledger.

`python spec/statements/citations.py` prints what the ledger misses, and which of its Rust tests are gone or have moved
to another file; with `--write` it mends the ledger. The status of an entry is a judgement and stays as it is: the test
of the ledger says where it no longer fits the tests.

A Rust test cites in the comments above it or inside it: `[MQTT-3.1.2-24]` is 5.0, `[MQTT-3.1.2-16] to
[MQTT-3.1.2-19]` a range, and what follows `3.1.1:` up to the next semicolon, or is followed by `of 3.1.1`, is 3.1.1.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LEDGERS = {"5.0": HERE / "mqtt-5.0.json", "3.1.1": HERE / "mqtt-3.1.1.json"}

TEST = re.compile(
    r"(?P<comments>(?:^[ \t]*//[^\n]*\n)*)(?P<attributes>(?:^[ \t]*#\[[^\n]*\n)+)^[ \t]*(?:async )?fn (?P<name>\w+)",
    re.MULTILINE,
)
# The only id that 3.1.1 prints in a different form.
MISPRINT = "MQTT-3-8.3-4"
OLDER = re.compile(r"\b3\.1\.1\b(?!\.)")
CITATION = re.compile(r"\[(MQTT-[0-9.]+-)(\d+)\](?: to \[\1(\d+)\])?( of 3\.1\.1)?")


@dataclass(frozen=True)
class Citation:
    version: str
    statement: str
    test: str


def rust_files():
    """Yields every Rust file that can contain tests, except build output."""
    for path in sorted((ROOT / "broker").rglob("*.rs")):
        if "target" not in path.relative_to(ROOT).parts:
            yield path


def rust_tests(source):
    """Yields (name, text) of every test function: its comments and its body up to the next test."""
    found = [m for m in TEST.finditer(source) if "#[test]" in m["attributes"]]
    for index, match in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(source)
        yield match["name"], match["comments"] + source[match.end() : end]


def cited(text):
    """Yields (version, statement) of every citation in `text`, in comments and in assertion messages."""
    for clause in clauses(text):
        for m in CITATION.finditer(clause):
            version = "3.1.1" if m[4] or OLDER.search(clause, 0, m.start()) else "5.0"
            for number in range(int(m[2]), int(m[3] or m[2]) + 1):
                yield version, f"{m[1]}{number}"


def clauses(text):
    """Splits `text` at semicolons and, outside comments, at line ends."""
    for paragraph in re.split(r"((?:^[ \t]*//[^\n]*\n)+)", text, flags=re.MULTILINE):
        if paragraph.lstrip().startswith("//"):
            paragraph = re.sub(r"\s*\n\s*//[/!]?", " ", paragraph)
        yield from re.split(r"[;\n]", paragraph.replace(MISPRINT, "MQTT-3.8.3-4"))


def from_rust():
    for path in rust_files():
        for name, text in rust_tests(path.read_text()):
            for version, statement in cited(text):
                yield Citation(version, statement, f"{path.relative_to(ROOT).as_posix()}::{name}")


def vectors():
    """Yields every packet and topic vector."""
    for folder in ("mqtt", "topics"):
        for path in sorted((ROOT / "spec/vectors" / folder).glob("*.json")):
            yield from json.loads(path.read_text())["vectors"]


def from_vectors():
    """Selects one accepted and one refused vector for each statement."""
    seen = set()
    for vector in vectors():
        good = vector.get("result", "valid") == "valid"
        key = (vector.get("version", "5.0"), vector["statement"], good)
        if vector["statement"] and key not in seen:
            seen.add(key)
            yield Citation(key[0], key[1], "spec/vectors#" + vector["id"])


def missing(ledgers):
    """Yields (entry, citation) for citations missing in the ledgers; the entry is None if the statement does not exist."""
    entries = {(version, s["id"]): s for version, ledger in ledgers.items() for s in ledger["statements"]}
    for citation in dict.fromkeys([*from_rust(), *from_vectors()]):
        entry = entries.get((citation.version, citation.statement))
        if entry is None or citation.test not in entry["tests"]:
            yield entry, citation


def moved(ledgers):
    """Yields (entry, test, current place) for Rust tests that have moved; the place is None if the test no longer exists."""
    places = {}
    for path in rust_files():
        for name, _text in rust_tests(path.read_text()):
            places.setdefault(name, []).append(f"{path.relative_to(ROOT).as_posix()}::{name}")
    for ledger in ledgers.values():
        for entry in ledger["statements"]:
            for test in entry["tests"]:
                now = places.get(test.partition("::")[2], [])
                if "::" in test and test not in now:
                    yield entry, test, now[0] if len(now) == 1 else None


def read():
    return {version: json.loads(path.read_text()) for version, path in LEDGERS.items()}


def render(ledger):
    """Formats one statement a line, so that a diff shows changed statements."""
    lines = ",\n".join("    " + json.dumps(s, ensure_ascii=False) for s in ledger["statements"])
    return f'{{\n  "standard": {json.dumps(ledger["standard"])},\n  "statements": [\n{lines}\n  ]\n}}\n'


def main():
    ledgers = read()
    for entry, test, now in list(moved(ledgers)):
        print(f"{entry['id']}: {test} is {'now ' + now if now else 'gone'}")
        place = entry["tests"].index(test)
        entry["tests"][place : place + 1] = [now] if now and now not in entry["tests"] else []
    for entry, citation in list(missing(ledgers)):
        if entry is None:
            print(f"{citation.test} cites {citation.statement}, which {citation.version} does not have")
        else:
            print(f"{citation.version} {citation.statement}: {citation.test}")
            entry["tests"].append(citation.test)
    if "--write" in sys.argv[1:]:
        for version, path in LEDGERS.items():
            path.write_text(render(ledgers[version]))


if __name__ == "__main__":
    main()
