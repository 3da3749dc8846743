"""The navigation of the site, from docs/README.md: a section for each heading, an entry for each list item."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from markdown_it.token import Token

from pages import ROOT, Page, plain

INDEX = ROOT / "docs/README.md"
DECISIONS = ROOT / "docs/decisions/README.md"


@dataclass(frozen=True)
class Entry:
    title: str
    path: Path


@dataclass(frozen=True)
class Section:
    title: str
    entries: list[Entry] = field(default_factory=list)


@lru_cache
def sections() -> list[Section]:
    found: list[Section] = []
    page = Page(INDEX)
    in_list = False
    for opening, token in zip(page.tokens, page.tokens[1:]):
        if opening.type == "heading_open" and opening.tag == "h2":
            found.append(Section(plain(token)))
        in_list = {"list_item_open": True, "list_item_close": False}.get(opening.type, in_list)
        if token.type == "inline" and in_list and found:
            entry = _entry(page, token)
            if entry:
                found[-1].entries.append(entry)
    return [section for section in found if section.entries]


def listed() -> set[Path]:
    """Returns every page that the navigation or the list of decisions links to."""
    decisions = {(DECISIONS.parent / target).resolve() for _line, target in Page(DECISIONS).links}
    return {INDEX, *decisions, *(entry.path for section in sections() for entry in section.entries)}


def _entry(page: Page, token: Token) -> Entry | None:
    """Returns the first link of a list item, if it leads to a page of this repository."""
    children = token.children or []
    for index, child in enumerate(children):
        if child.type == "link_open":
            path = (page.path.parent / str(child.attrGet("href")).partition("#")[0]).resolve()
            end = next(at for at in range(index, len(children)) if children[at].type == "link_close")
            title = "".join(part.content for part in children[index:end])
            return Entry(title, path) if path.suffix == ".md" else None
    return None
