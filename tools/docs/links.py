"""Checks that links lead to existing files and anchors. Addresses of other sites are not checked: tests use no network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from pages import ROOT, Page, all_pages

# Pages of package registries link to the repository with this address.
REPOSITORY = "https://github.com/tautwire/tautwire/blob/main/"


def broken(pages: list[Page]) -> Iterator[str]:
    known = {page.path: page for page in all_pages()}
    for page in pages:
        for line, target in page.links:
            if why := _wrong(page, target, known):
                yield f"{page.name}:{line}: the link {target}: {why}"


def _wrong(page: Page, target: str, known: dict[Path, Page]) -> str | None:
    folder = ROOT if target.startswith(REPOSITORY) else page.path.parent
    place, _, anchor = unquote(target.removeprefix(REPOSITORY)).partition("#")
    if re.match(r"[a-z]+:", place):
        return None
    path = (folder / place).resolve() if place else page.path
    if not path.exists():
        return "there is no such file"
    if not anchor or path.suffix != ".md":
        return None
    other = known.get(path)
    if other is None or anchor in other.anchors:
        return None
    return f"{other.name} has no such heading"
