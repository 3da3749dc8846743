"""What the tests of the documents would find."""

import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/docs"), str(ROOT / "tests/docs")]

import blocks  # noqa: E402
import links  # noqa: E402
from pages import Block, Page, Slugs  # noqa: E402

EXECUTABLE = ROOT / "bin/tautwire"


class Blocks(unittest.TestCase):
    def findings(self, language: str, text: str) -> list[str]:
        with TemporaryDirectory() as folder:
            return list(blocks._wrong(Block(language, text, 1, "", ""), Path(folder), EXECUTABLE))

    def test_an_unknown_command_is_found(self) -> None:
        self.assertIn("no command", self.findings("sh", "tautwire publish demo/hello hi\n")[0])

    def test_an_unknown_option_is_found(self) -> None:
        self.assertIn("--retained", self.findings("sh", "echo | bin/tautwire pub -q 1 --retained a b\n")[0])

    def test_combined_options_and_options_with_values(self) -> None:
        self.assertEqual([], self.findings("sh", "tautwire pub -r -q 1 -t a -m 'b --no-option' &\ntautwire serve --set=a=b\n"))

    def test_an_unknown_key_is_found(self) -> None:
        self.assertIn("max_qoss", self.findings("toml", "[mqtt]\nmax_qoss = 1\n")[0])

    def test_a_partial_configuration_is_valid(self) -> None:
        self.assertEqual([], self.findings("toml", '[[listener]]\naddress = "mqtts://0.0.0.0:8883"\n'))

    def test_a_rule_with_an_unknown_key_is_found(self) -> None:
        self.assertTrue(self.findings("toml", '{ allow = "publish", topic = "a" },\n'))

    def test_a_file_name_must_be_visible(self) -> None:
        with TemporaryDirectory() as folder:
            for text, is_named in (("Write `b.toml`:", True), ("Write this:", False), ("`b.toml`\n\nWrite this:", False)):
                page = Page(Path(folder) / f"{is_named}{len(text)}.md")
                page.path.write_text(f"{text}\n\n<!-- file: a/b.toml -->\n```toml\n```\n")
                self.assertEqual(is_named, blocks._is_named(next(page.blocks), page), text)

    def test_json_and_scripts(self) -> None:
        self.assertTrue(self.findings("json", "{a: 1}"))
        self.assertTrue(self.findings("sh", "if true; then\n"))


class Links(unittest.TestCase):
    def findings(self, target: str) -> str | None:
        page = Page(ROOT / "docs/README.md")
        return links._wrong(page, target, {each.path: each for each in links.all_pages()})

    def test_a_missing_file_is_found(self) -> None:
        self.assertEqual("there is no such file", self.findings("nowhere.md"))

    def test_a_missing_heading_is_found(self) -> None:
        self.assertIsNone(self.findings("operating/data.md#after-damage"))
        self.assertIn("no such heading", self.findings("operating/data.md#before-damage") or "")

    def test_anchors_match_those_of_code_hosts(self) -> None:
        slugs = Slugs()
        self.assertEqual("who-clients-are", slugs.of("Who clients are"))
        self.assertEqual("tls-12-and-13", slugs.of("TLS 1.2 and 1.3"))
        self.assertEqual("mqtt", slugs.of("`[mqtt]`"))
        self.assertEqual("mqtt-1", slugs.of("mqtt"))


if __name__ == "__main__":
    unittest.main()
