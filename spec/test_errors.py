"""Tests of the error texts: the file, the generated tables, and the codes in other files of this directory."""

import importlib.util
import json
import re
import unittest
from collections import Counter
from pathlib import Path

SPEC = Path(__file__).resolve().parent
ROOT = SPEC.parent

# Loaded by path: another directory has a module of the same name.
_found = importlib.util.spec_from_file_location("errors_generate", SPEC / "errors/generate.py")
generate = importlib.util.module_from_spec(_found)
_found.loader.exec_module(generate)
words, c = generate.words, generate.c


class Errors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.codes = words.read()
        cls.names = {section: {code.name for code in cls.codes if code.section == section} for section in words.SECTIONS}


class File(Errors):
    def test_each_code_is_in_one_section(self):
        times = Counter(code.name for code in self.codes)
        # The client's text is more specific.
        self.assertEqual(["packet_too_large"], [name for name, count in times.items() if count > 1])

    def test_the_statements_are_in_the_ledger(self):
        ledger = json.loads((SPEC / "statements/mqtt-5.0.json").read_text())["statements"]
        known = {statement["id"] for statement in ledger}
        for code in self.codes:
            with self.subTest(code.name):
                self.assertIn(code.statement, known | {None})

    def test_malformed_packets_are_answered_with_malformed_packet(self):
        for code in self.codes:
            with self.subTest(code.name):
                if code.fault in ("malformed", "incomplete"):
                    self.assertEqual(0x81, code.reason)
                if code.fault == "too_large":
                    self.assertEqual(0x95, code.reason)

    def test_invalid_entries_are_refused_by_name(self):
        for text, said in (
            ('[codecs.x]\ntext = "a: b"', "'codecs' is no section"),
            ('[client.x]\ntext = "a: b"\nfault = "use"', "'fault' is no key of client.x"),
            ('[client.x]\ntext = "a, b"', "client.x: the text"),
            ('[client.x]\ntext = "a: b."', "client.x: the text"),
            ('[client.x]\ntext = "a: b"\nonly = ["cobol"]', "'cobol' is no language of client.x"),
            ('[codec.x]\ntext = "a: b"\nonly = ["cobol"]', "'cobol' is no language of codec.x"),
            ('[codec.x]\ntext = "a: b"\nfault = "use"', "codec.x: nothing uses it"),
            ('[codec.x]\ntext = "a: b"\nfault = "malformed"\nused = ["decode"]', "codec.x: a fault in a packet has a reason"),
            ('[codec.x]\ntext = "a: b"\nfault = "malformed"\nused = ["decode"]\nreason = 1', "1 is no reason of codec.x"),
        ):
            with self.subTest(said), self.assertRaisesRegex(ValueError, f"^{re.escape(said)}"):
                words.parse(text)


class Tables(Errors):
    def test_language_specific_codes_are_only_in_their_tables(self):
        for code in self.codes:
            if code.section == "client" and code.only:
                for name in ("clients/go/client/errors_text.go", "clients/rust/src/error/texts.rs", "clients/python/tautwire/_texts.py",
                             "clients/typescript/packages/client/src/texts.ts"):  # fmt: skip
                    language = name.split("/")[1]
                    with self.subTest(code.name, table=name):
                        table = generate.FILES[name](self.codes)
                        self.assertEqual(code.is_in(language), re.search(rf'^\s*\(?"?{code.name}\b', table, re.M) is not None)

    def test_no_code_is_stale(self):
        self.assertEqual([], [str(path.relative_to(ROOT)) for path in generate.stale()], "run `make errors`")


class CNames(Errors):
    def test_errors_of_codec_and_scram_use_their_codes(self):
        source = (ROOT / "clients/c/src/names.c").read_text()
        literals = re.search(r"ERROR_NAMES\[\] =(.*?);", source, re.S)[1]
        named = "".join(re.findall(r'"([^"]*)"', literals)).split("\\0")
        known = c.by_enumerator(self.codes)
        for enumerator, name in zip(c.enumerators(), named, strict=True):
            if enumerator in known and known[enumerator].section != "client":
                with self.subTest(enumerator):
                    self.assertEqual(known[enumerator].name, name)


class Vectors(Errors):
    def test_topics_are_refused_with_documented_codes(self):
        ours = {code.name for code in self.codes if "topic" in code.used}
        for file in ("names", "filters"):
            for vector in json.loads((SPEC / f"vectors/topics/{file}.json").read_text())["vectors"]:
                with self.subTest(vector["id"]):
                    self.assertIn(vector["cause"], ours | {None})

    def test_scram_exchanges_fail_with_documented_codes(self):
        for vector in json.loads((SPEC / "vectors/scram/cases.json").read_text())["vectors"]:
            with self.subTest(vector["id"]):
                self.assertIn(vector["result"], self.names["scram"] | {"valid"})

    def test_invalid_packets_are_answered_with_documented_reasons(self):
        reasons = {(code.fault, code.reason) for code in self.codes if "decode" in code.used}
        for path in sorted((SPEC / "vectors/mqtt").glob("*.json")):
            for vector in json.loads(path.read_text())["vectors"]:
                if vector["result"] not in ("valid", "incomplete"):
                    with self.subTest(vector["id"]):
                        self.assertIn((vector["result"], vector["reason"]), reasons)


if __name__ == "__main__":
    unittest.main()
