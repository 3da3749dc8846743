"""Generates the page of the admin API's requests and responses from its OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = ROOT / "docs/reference/admin-api.openapi.json"
PAGE = ROOT / "docs/reference/admin-api-requests.md"
METHODS = ("get", "post", "put", "patch", "delete")
NEEDS = {"none": "nothing", "authenticated": "any token or session", "payloads": "`read`, and the permission to see payloads"}

Node = dict[str, Any]


def page(description: Node) -> str:
    """Returns the text of the page."""
    return "\n".join(_lines(description)).rstrip() + "\n"


def _lines(description: Node) -> Iterator[str]:
    yield "# Requests of the admin API"
    yield ""
    yield "<!-- Written by `tools/docs api` of admin-api.openapi.json. Change that, and write this page again. -->"
    yield ""
    yield (
        "Every request with its parameters and answers, made of [the description in OpenAPI 3.1](admin-api.openapi.json), which `GET /openapi.json` "
        "gives too. [Admin API](admin-api.md) explains them with examples. A path answers without `/v1`, too."
    )
    for tag in description["tags"]:
        yield from ("", f"## {tag['description']}")
        for path, methods in description["paths"].items():
            for method in METHODS:
                if tag["name"] in methods.get(method, {}).get("tags", []):
                    yield from _operation(method, path, methods[method], methods.get("parameters", []))
    yield from ("", "## What is sent and answered")
    for name, schema in sorted(description["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(method: str, path: str, operation: Node, common: list[Node]) -> Iterator[str]:
    yield from ("", f"### {method.upper()} {path}", "")
    yield _sentence(operation["summary"])
    if "description" in operation:
        yield from ("", _text(operation["description"]))
    needs = operation.get("x-required-role", "none")
    yield from ("", f"Needs: {NEEDS.get(needs, f'the role `{needs}`')}.")
    parameters = [*common, *operation.get("parameters", [])]
    if parameters:
        yield from ("", "| parameter | in | type | |", "|---|---|---|---|")
        for parameter in parameters:
            required = "required. " if parameter.get("required") and parameter["in"] != "path" else ""
            said = required + parameter.get("description", "")
            yield f"| `{parameter['name']}` | {parameter['in']} | {_type(parameter['schema'])} | {_cell(said)} |"
    if "requestBody" in operation:
        yield from ("", f"Body: {_contents(operation['requestBody'])}.")
    yield from ("", "| status | | |", "|---|---|---|")
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            yield f"| other | a refusal | {_link(answer['$ref'].rsplit('/', 1)[1])} |"
        else:
            yield f"| {'other' if status == 'default' else status} | {_cell(answer['description'])} | {_contents(answer)} |"


def _contents(carrier: Node) -> str:
    return ", ".join(f"`{media}`: {_type(said.get('schema', {}))}" for media, said in carrier.get("content", {}).items())


def _schema(name: str, schema: Node) -> Iterator[str]:
    yield from ("", f"### {name}", "")
    if "description" in schema:
        yield from (_text(schema["description"]), "")
    properties = schema.get("properties")
    if not properties:
        yield f"{_type(schema)[:1].upper()}{_type(schema)[1:]}."
        return
    yield from ("| field | type | |", "|---|---|---|")
    for field, inner in properties.items():
        optional = "" if field in schema.get("required", []) else "may be missing. "
        yield f"| `{field}` | {_type(inner)} | {_cell(optional + inner.get('description', ''))} |"


def _type(schema: Node) -> str:
    """Describes a type in a few words."""
    if "$ref" in schema:
        return _link(schema["$ref"].rsplit("/", 1)[1])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return (" and " if key == "allOf" else " or ").join(_type(inner) for inner in schema[key])
    if "const" in schema:
        return f"`{json.dumps(schema['const'], ensure_ascii=False)}`"
    if "enum" in schema:
        return ", ".join("null" if value is None else f"`{value}`" for value in schema["enum"])
    named = schema.get("type", "anything")
    names = [named] if isinstance(named, str) else list(named)
    return " or ".join(_simple(name, schema) for name in names)


def _simple(name: str, schema: Node) -> str:
    if name == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if name == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object with values of {_type(schema['additionalProperties'])}"
    if name == "object" and schema.get("properties"):
        fields = ", ".join(f"`{field}`: {_type(inner)}" for field, inner in schema["properties"].items())
        return f"object ({fields})"
    if name in ("integer", "number"):
        return f"{name}{_range(schema)}"
    return name


def _range(schema: Node) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    default = f", by default {schema['default']}" if "default" in schema else ""
    if high is not None:
        return f" from {low or 0:,} to {high:,}{default}"
    return default if not low else f" from {low:,}{default}"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _sentence(text: str) -> str:
    return _text(text if text.endswith(".") else f"{text}.")


def _text(text: str) -> str:
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ").strip()


def current() -> str:
    """Returns the page as it should be."""
    return page(json.loads(DESCRIPTION.read_text()))
