"""Tests of the supply chain checks and of the files written about it."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import advisories
import licences
import notices
import packages
import sbom
import versions
from advisories import Source
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packages import CannotRead

TREE = """\
0tautwire-a v0.1.0 (/src/a)|MIT|
1old v1.0.0|MIT/Apache-2.0|https://example.org/old
2same v0.9.0+spec|ISC|
1derive v2.0.0 (proc-macro)|MIT|
2same v0.10.0|ISC|
1old v1.0.0|MIT/Apache-2.0|https://example.org/old (*)
"""
CHECKSUMS = {("old", "1.0.0"): "00" * 32}


def product():
    found, needs = packages.read_tree(TREE.splitlines(), CHECKSUMS)
    root = next(iter(found.values()))
    return packages.Product("a", True, root, found, needs)


class Packages(unittest.TestCase):
    def test_the_cargo_tree_is_parsed(self):
        read = product()
        self.assertEqual(read.root.purl, "pkg:cargo/tautwire-a@0.1.0")
        self.assertTrue(read.root.is_ours)
        old = read.packages["pkg:cargo/old@1.0.0"]
        self.assertEqual((old.licence, old.repository, old.hashes, old.is_ours), ("MIT OR Apache-2.0", "https://example.org/old", {"SHA-256": "00" * 32}, False))
        self.assertEqual(read.needs[read.root.purl], {"pkg:cargo/old@1.0.0", "pkg:cargo/derive@2.0.0"})
        self.assertEqual(read.needs["pkg:cargo/old@1.0.0"], {"pkg:cargo/same@0.9.0+spec"})
        with self.assertRaises(CannotRead):
            packages.read_tree(["no tree"], {})

    def test_an_npm_lock_file_is_resolved_like_node(self):
        lock = {
            "node_modules/@us/a": {"resolved": "packages/a", "link": True},
            "packages/a": {"name": "@us/a", "version": "1.0.0", "license": "MIT", "dependencies": {"b": "^1", "c": "*"}, "devDependencies": {"d": "*"}},
            "node_modules/b": {"version": "1.2.0", "license": "ISC", "dependencies": {"c": "^2"}, "integrity": "sha512-AAAA"},
            "node_modules/b/node_modules/c": {"version": "2.0.0", "license": "MIT"},
            "node_modules/c": {"version": "1.0.0", "license": "MIT", "dependencies": {"b": "*"}},
            "node_modules/d": {"version": "1.0.0"},
        }
        found, needs = packages.read_npm(lock, "@us/a")
        self.assertEqual(list(found), ["pkg:npm/%40us/a@1.0.0", "pkg:npm/b@1.2.0", "pkg:npm/c@2.0.0", "pkg:npm/c@1.0.0"])
        self.assertEqual(needs["pkg:npm/b@1.2.0"], {"pkg:npm/c@2.0.0"})
        self.assertEqual(found["pkg:npm/b@1.2.0"].hashes, {"SHA-512": "000000"})

    def test_a_third_party_go_module_needs_a_licence(self):
        text = "module example.org/us\n\ngo 1.24\n\nrequire (\n\texample.org/b v1.0.0\n)\n"
        with self.assertRaisesRegex(CannotRead, "example.org/b"):
            packages.go_module(text, "0.1.0")
        with mock.patch.dict(packages.GO_LICENCES, {"example.org/b": "MIT"}):
            self.assertIn("pkg:golang/example.org/b@v1.0.0", packages.go_module(text, "0.1.0").packages)


class Versions(unittest.TestCase):
    def test_each_shipped_package_is_listed_once_with_a_checksum(self):
        made = product()
        for package in made.packages.values():
            package.hashes = {"SHA-256": "00" * 32}
            package.is_shipped = package.name != "derive"
        (twice,) = versions.refused([made], {})
        self.assertIn("a would hold same 0.10.0 and 0.9.0+spec", twice)
        self.assertEqual(list(versions.refused([made], {("a", "same"): "a reason"})), [])
        made.packages["pkg:cargo/same@0.10.0"].is_shipped = False
        self.assertEqual(list(versions.refused([made], {})), [])
        (stale,) = versions.refused([made], {("a", "same"): "a reason"})
        self.assertIn("remove the exception", stale)
        made.packages["pkg:cargo/old@1.0.0"].hashes = {}
        (unchecked,) = versions.refused([made], {})
        self.assertIn("old 1.0.0 has no checksum", unchecked)


class Licences(unittest.TestCase):
    def test_licence_terms_must_be_satisfied(self):
        for expression in ("MIT", "MIT OR GPL-3.0-only", "(MIT OR GPL-3.0-only) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception"):
            self.assertTrue(licences.is_allowed(expression), expression)
        for expression in ("GPL-3.0-only", "MIT AND GPL-3.0-only", "MIT WITH LLVM-exception", "MIT AND (GPL-3.0-only OR SSPL-1.0)"):
            self.assertFalse(licences.is_allowed(expression), expression)
        for expression in ("", "MIT OR", "(MIT", "MIT ISC", "OR MIT", "MIT )"):
            with self.assertRaises(licences.NotUnderstood, msg=expression):
                licences.is_allowed(expression)

    def test_disallowed_licences_are_reported(self):
        read = product()
        self.assertEqual(list(licences.refused([read])), [])
        read.packages["pkg:cargo/derive@2.0.0"].licence = ""
        (line,) = licences.refused([read])
        self.assertIn("a: derive 2.0.0: its licence, none", line)

    def test_the_page_lists_third_party_packages_and_duplicates(self):
        read = product()
        read.packages["pkg:cargo/derive@2.0.0"].is_shipped = False
        page = licences.page([read])
        self.assertIn("| old | 1.0.0 | MIT OR Apache-2.0 | a |", page)
        self.assertNotIn("| derive |", page)
        self.assertNotIn("| tautwire-a |", page)
        self.assertIn("- `same` in a: 0.9.0+spec by `old`; 0.10.0 by ", page)


class Sboms(unittest.TestCase):
    def valid(self, text):
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(text))

    def test_sboms_match_the_schema_and_are_reproducible(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("SOURCE_DATE_EPOCH", None)
            text = sbom.text(product(), sbom.toolchain())
            self.assertEqual(text, sbom.text(product(), sbom.toolchain()))
        self.valid(text)
        self.assertNotIn("timestamp", text)
        told = json.loads(text)
        refs = {told["metadata"]["component"]["bom-ref"]} | {one["bom-ref"] for one in told["components"]}
        self.assertEqual(refs, {one["ref"] for one in told["dependencies"]} | {part["bom-ref"] for part in sbom.toolchain()})
        self.assertLessEqual({ref for one in told["dependencies"] for ref in one.get("dependsOn", [])}, refs)
        # The validator rejects invalid documents.
        wrong = told | {"components": [{"name": "without a type"}]}
        self.assertIsNotNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(wrong)))

    def test_sboms_have_the_given_timestamp(self):
        with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH="86400"):
            text = sbom.text(product(), [])
        self.valid(text)
        self.assertEqual(json.loads(text)["metadata"]["timestamp"], "1970-01-02T00:00:00Z")

    def test_every_released_artifact_has_an_sbom(self):
        with tempfile.TemporaryDirectory() as folder:
            products = packages.products()
            names = {product.name for product in products}
            self.assertLessEqual({"tautwire", "client-rust", "client-python", "client-go", "client-c", "npm-client", "npm-msgpack"}, names)
            written = sbom.write(products, Path(folder))
            self.assertEqual(len(written), len(names))
            for path in written:
                self.valid(path.read_text())

    def test_licence_texts_are_collected_once(self):
        with tempfile.TemporaryDirectory() as name:
            folder, read = Path(name), product()
            places = {}
            for package in licences.of_others(read):
                place = places[(package.name, package.version)] = folder / f"{package.name}-{package.version}"
                place.mkdir()
                if package.name != "derive":
                    (place / "LICENSE-MIT").write_text("Do what you like.\n")
            with mock.patch.object(notices, "source_folders", return_value=places):
                without = notices.write(read, folder / "out/notices.txt")
            text = (folder / "out/notices.txt").read_text()
        self.assertEqual(without, ["derive 2.0.0"])
        self.assertEqual(text.count("Do what you like."), 1)
        self.assertTrue(text.startswith("old 1.0.0 (MIT OR Apache-2.0), same 0.10.0 (ISC), same 0.9.0+spec (ISC)\n"))

    def test_the_broker_includes_the_dashboard(self):
        broker = next(product for product in packages.products() if product.name == "tautwire")
        shipped = [package for package in licences.of_others(broker) if package.purl.startswith("pkg:npm/")]
        self.assertEqual({package.name for package in shipped}, {"preact", "uplot"})
        for package in shipped:
            self.assertIn(package.purl, broker.needs[broker.root.purl])
            (text,) = notices.dashboard_texts(package)
            self.assertIn("Permission is hereby granted", text)
            self.assertEqual(text.count("Copyright"), 1)


class Advisories(unittest.TestCase):
    def asked(self, script, read):
        source = Source("a.lock", [sys.executable, "-c", script], ".", read)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            return advisories.ask([source]), out.getvalue()

    def test_a_known_vulnerability_is_a_finding(self):
        told = {"vulnerabilities": {"a": {"severity": "high", "range": "<2"}, "b": {"severity": "low"}}}
        self.assertEqual(self.asked(f"print({json.dumps(json.dumps(told))})", advisories.read_npm_audit)[0], ["a.lock: a <2: high"])
        self.assertEqual(advisories.read_npm_audit_of_shipped(1, json.dumps(told)), ["a <2: high", "b : low"])
        told = {
            "vulnerabilities": {"list": [{"package": {"name": "a", "version": "1.0.0"}, "advisory": {"id": "RUSTSEC-2020-0001"}}]},
            "warnings": {"yanked": [{"package": {"name": "b", "version": "2.0.0"}, "advisory": None}]},
        }
        self.assertEqual(advisories.read_cargo_audit(1, json.dumps(told)), ["a 1.0.0: RUSTSEC-2020-0001", "b 2.0.0: withdrawn (yanked)"])
        self.assertEqual(advisories.read_govulncheck(3, "Vulnerability #1: GO-2024-0001\n  More info\n"), ["Vulnerability #1: GO-2024-0001"])

    def test_a_missing_response_is_not_a_pass(self):
        for script, read, reason in (
            ("import sys; sys.exit('error: the list is out of reach')", advisories.read_cargo_audit, "error: the list is out of reach"),
            ("print('{\"error\": 1}')", advisories.read_npm_audit, "error"),
            ("import sys; sys.exit(1)", advisories.read_govulncheck, "exit code 1"),
        ):
            findings, out = self.asked(script, read)
            self.assertEqual(findings, [])
            self.assertRegex(out, f"^a.lock: NOT CHECKED: .*{reason}")
            self.assertEqual(out.count("\n"), 1)

    def test_a_missing_tool_is_reported(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            advisories.ask([Source("a.lock", ["cargo", "no-such-tool"], ".", advisories.read_cargo_audit)])
        self.assertEqual(out.getvalue(), "a.lock: NOT CHECKED: cargo no-such-tool is not installed\n")


if __name__ == "__main__":
    unittest.main()
