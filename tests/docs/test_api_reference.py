"""The reference page of the admin API matches its OpenAPI description."""

import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/docs"))

import api_reference  # noqa: E402


class ApiReference(unittest.TestCase):
    def test_the_page_is_current(self) -> None:
        written = api_reference.PAGE.read_text()
        self.assertEqual(written, api_reference.current(), "run `python tools/docs api`")

    def test_every_operation_and_every_schema_has_a_heading(self) -> None:
        description = json.loads(api_reference.DESCRIPTION.read_text())
        lines = set(api_reference.page(description).splitlines())
        for path, methods in description["paths"].items():
            for method in set(methods) & set(api_reference.METHODS):
                self.assertIn(f"### {method.upper()} {path}", lines)
        for name in description["components"]["schemas"]:
            self.assertIn(f"### {name}", lines)

    def test_types_are_described_in_words(self) -> None:
        for schema, told in (
            ({"type": ["integer", "null"], "minimum": 0}, "integer or null"),
            ({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "integer from 1 to 1,000, by default 100"),
            ({"type": "array", "items": {"$ref": "#/components/schemas/Ban"}}, "array of [Ban](#ban)"),
            ({"enum": ["a", None]}, "`a`, null"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
            ({}, "anything"),
        ):
            self.assertEqual(api_reference._type(schema), told)


if __name__ == "__main__":
    unittest.main()
