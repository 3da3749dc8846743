"""Tests that the ledger lists every statement and refers to existing tests. Prints how many statements are held."""

import json
import re
import sys
import tomllib
import unittest
from collections import Counter
from functools import cache
from pathlib import Path

import jsonschema

SPEC = Path(__file__).resolve().parent
ROOT = SPEC.parent
sys.path.insert(0, str(SPEC / "statements"))

import citations  # noqa: E402

# The numbers of the statements in each section; 2.2.1 of 5.0 does not begin at 1.
SECTIONS = {
    "5.0": """
        1.5.4:1-3 1.5.5:1 1.5.7:1 2.1.3:1 2.2.1:2-6 2.2.2:1 3.1.0:1-2 3.1.2:1-30 3.1.3:1-12 3.1.4:1-6
        3.2.0:1-2 3.2.2:1-22 3.3.1:1-13 3.3.2:1-20 3.3.4:1-10 3.4.2:1-3 3.5.2:1-3 3.6.1:1 3.6.2:1-3 3.7.2:1-3
        3.8.1:1 3.8.3:1-5 3.8.4:1-8 3.9.2:1-2 3.9.3:1-2 3.10.1:1 3.10.3:1-2 3.10.4:1-6 3.11.2:1-2 3.11.3:1-2
        3.12.4:1 3.14.0:1 3.14.1:1 3.14.2:1-4 3.14.4:1-3 3.15.1:1 3.15.2:1-3 4.1.0:1-2 4.2:1 4.3.1:1 4.3.2:1-5
        4.3.3:1-13 4.4.0:1-2 4.5.0:1-2 4.6.0:1-6 4.7.0:1 4.7.1:1-2 4.7.2:1 4.7.3:1-4 4.8.2:1-6 4.9.0:1-3
        4.12.0:1-7 4.12.1:1-2 4.13.1:1 4.13.2:1 6.0.0:1-4
    """,
    "3.1.1": """
        1.5.3:1-3 2.2.2:1-2 2.3.1:1-7 3.1.0:1-2 3.1.2:1-24 3.1.3:1-11 3.1.4:1-5 3.2.0:1 3.2.2:1-6 3.3.1:1-12
        3.3.2:1-3 3.3.4:1 3.3.5:1-2 3.6.1:1 3.8.1:1 3.8.3:1-4 3.8.4:1-6 3.9.3:1-2 3.10.1:1 3.10.3:1-2
        3.10.4:1-6 3.12.4:1 3.14.1:1 3.14.4:1-3 4.1.0:1-2 4.3.1:1 4.3.2:1-2 4.3.3:1-2 4.4.0:1 4.5.0:1-2
        4.6.0:1-6 4.7.1:1-3 4.7.2:1 4.7.3:1-4 4.8.0:1-2 6.0.0:1-4 7.0.0:1-2 7.1.1:1 7.1.2:1
    """,
}


def every_id(version):
    for section in SECTIONS[version].split():
        name, _, numbers = section.partition(":")
        first, _, last = numbers.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"MQTT-{name}-{number}"


@cache
def rust_test_names(path):
    file = ROOT / path
    return {name for name, _text in citations.rust_tests(file.read_text())} if file.is_file() else set()


@cache
def vector_ids():
    return {vector["id"] for vector in citations.vectors()}


@cache
def interop_cases():
    """Returns the names of the cases, without their version."""
    file = ROOT / "tests/interop/cases.toml"
    return set(tomllib.loads(file.read_text())) if file.is_file() else set()


@cache
def interop_sources(folder):
    """Returns the source files of the driver of one client, without its dependencies."""
    files = [
        path
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".mjs", ".go", ".rs")
        and not {"node_modules", "target"} & set(path.relative_to(ROOT).parts)
    ]
    return "\n".join(path.read_text() for path in files)


def exists(test):
    """Returns whether a name in the ledger exists."""
    path, separator, name = test.partition("::")
    if separator:
        return name in rust_test_names(path)
    path, _, name = test.partition("#")
    if path == "spec/vectors":
        return name in vector_ids()
    # A case has a version: `v5_qos1_roundtrip`.
    case = re.sub(r"^v[35]_", "", name)
    return (
        path.startswith("tests/interop/")
        and case in interop_cases()
        and re.search(rf"\b{re.escape(case)}\b", interop_sources(path)) is not None
    )


class Ledger(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ledgers = citations.read()

    def test_the_ledgers_match_their_schema(self):
        validator = jsonschema.Draft202012Validator(
            json.loads((SPEC / "statements/statements.schema.json").read_text())
        )
        for version, ledger in self.ledgers.items():
            first = next(validator.iter_errors(ledger), None)
            self.assertIsNone(first, f"{version}: {first and first.json_path}: {first and first.message}")

    def test_every_statement_of_the_standards_is_listed_in_order(self):
        for version, ledger in self.ledgers.items():
            self.assertEqual(list(every_id(version)), [s["id"] for s in ledger["statements"]], version)

    def test_every_named_test_exists(self):
        dangling = [
            f"{version} {s['id']}: {test}"
            for version, ledger in self.ledgers.items()
            for s in ledger["statements"]
            for test in s["tests"]
            if not exists(test)
        ]
        self.assertEqual([], dangling)

    def test_an_unknown_test_name_is_detected(self):
        for test in (
            "broker/protocol/src/lib.rs::no_such_test",
            "no/such/file.rs::x",
            "spec/vectors#no-such",
            "tests/interop/mosquitto#v5_no_such_case",
            "x",
        ):
            self.assertFalse(exists(test), test)

    def test_every_statement_of_a_vector_lists_a_vector(self):
        cited = {(c.version, c.statement) for c in citations.from_vectors()}
        for version, ledger in self.ledgers.items():
            for s in ledger["statements"]:
                if (version, s["id"]) in cited:
                    self.assertTrue(
                        any(test.startswith("spec/vectors#") for test in s["tests"]), f"{version} {s['id']}"
                    )

    def test_the_files_have_one_statement_per_line(self):
        for version, path in citations.LEDGERS.items():
            self.assertEqual(citations.render(self.ledgers[version]), path.read_text(), version)

    def test_citations_name_statements_that_exist(self):
        known = {(version, s["id"]) for version, ledger in self.ledgers.items() for s in ledger["statements"]}
        unknown = [
            f"{c.test}: {c.version} {c.statement}"
            for c in citations.from_rust()
            if (c.version, c.statement) not in known
        ]
        self.assertEqual([], unknown)

    @classmethod
    def tearDownClass(cls):
        print()
        for version, ledger in cls.ledgers.items():
            counts = Counter(s["status"] for s in ledger["statements"])
            bind_server = [
                s for s in ledger["statements"] if "server" in s["binds"] and s["status"] != "not_applicable"
            ]
            said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.most_common())
            print(f"MQTT {version}: {counts['held']} of {len(bind_server)} that bind this server are held ({said})")
        unlisted = sum(1 for _ in citations.missing(cls.ledgers))
        if unlisted:
            print(f"{unlisted} citations are not in the ledger: python spec/statements/citations.py --write")


if __name__ == "__main__":
    unittest.main()
