"""Writes the site: one HTML page for each Markdown page, and an index for searching in the browser without a server."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from pathlib import Path
from string import Template

from navigation import INDEX, listed, sections
from pages import MARK, ROOT, Page, documentation, parser, plain

HERE = Path(__file__).parent
REPOSITORY = "https://github.com/tautwire/tautwire/"
SHELL = Template((HERE / "page.html").read_text())


def build(folder: Path) -> list[str]:
    """Writes everything into the folder, which is emptied first, and returns the errors."""
    outside = [Page(path) for path in sorted(listed()) if ROOT / "docs" not in path.parents and path.exists()]
    pages = documentation() + outside
    faults = [f"{page.name}: not listed in {INDEX.relative_to(ROOT)}" for page in documentation() if page.path not in listed()]
    shutil.rmtree(folder, ignore_errors=True)
    addresses = {page.path: _address(page.path) for page in pages}
    index: list[dict[str, str]] = []
    for page in pages:
        target = folder / addresses[page.path]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_write(page, addresses))
        index += _search_entries(page, addresses[page.path])
    for name in ("style.css", "site.js"):
        shutil.copy(HERE / name, folder / name)
    (folder / "index.js").write_text(f"window.searchIndex = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n")
    shutil.copytree(ROOT / "docs/images", folder / "images", dirs_exist_ok=True)
    print(f"site: {len(pages)} pages in {folder}")
    return faults


def _address(path: Path) -> str:
    """Returns the address of a page on the site. Pages outside of docs/ keep their folders below `repository/`."""
    inside = ROOT / "docs" in path.parents
    name = path.relative_to(ROOT / "docs" if inside else ROOT).as_posix()
    name = re.sub(r"(^|/)README\.md$", r"\1index.html", name)
    return ("" if inside else "repository/") + re.sub(r"\.md$", ".html", name)


def _write(page: Page, addresses: dict[Path, str]) -> str:
    tokens = parser().parse(page.text)
    headings = iter(page.headings)
    mark = ""
    for token in tokens:
        if token.type == "html_block" and (found := MARK.search(token.content)):
            mark = found[1]
        elif token.type == "fence":
            if mark == "prints":
                token.attrJoin("class", "printed")
            mark = ""
        if token.type == "heading_open":
            token.attrSet("id", next(headings).anchor)
        for child in [token, *(token.children or [])]:
            for attribute in ("href", "src"):
                if target := child.attrGet(attribute):
                    child.attrSet(attribute, _link(page, str(target), addresses))
        if token.type == "html_block" and MARK.search(token.content):
            token.content = ""
    here = addresses[page.path]
    up = "../" * here.count("/")
    return SHELL.substitute(
        title=html.escape(page.title), up=up, navigation=_navigation(here, addresses), contents=_contents(page),
        body=_tables(parser().renderer.render(tokens, parser().options, {})),
        source=f"{REPOSITORY}blob/main/{page.name}", neighbours=_neighbours(page.path, addresses),
    )


def _link(page: Page, target: str, addresses: dict[Path, str]) -> str:
    """Converts a link of the repository to one of the site; targets that are not on the site link to the repository."""
    if re.match(r"[a-z]+:", target) or target.startswith("#"):
        return target
    place, hash_sign, anchor = target.partition("#")
    path = (page.path.parent / place).resolve()
    here = Path(addresses[page.path]).parent
    if path in addresses:
        return os.path.relpath(addresses[path], here) + hash_sign + anchor
    if ROOT / "docs/images" in path.parents:
        return os.path.relpath(path.relative_to(ROOT / "docs"), here)
    kind = "tree" if path.is_dir() else "blob"
    return f"{REPOSITORY}{kind}/main/{path.relative_to(ROOT).as_posix()}{hash_sign}{anchor}"


def _navigation(here: str, addresses: dict[Path, str]) -> str:
    parts = []
    for section in sections():
        links = []
        for entry in section.entries:
            if entry.path not in addresses:
                continue
            address = addresses[entry.path]
            current = ' aria-current="page"' if address == here else ""
            links.append(f'<li><a href="{os.path.relpath(address, Path(here).parent)}"{current}>{html.escape(entry.title)}</a></li>')
        is_open = " open" if any("aria-current" in link for link in links) or section.title in ("Tour", "Guides") else ""
        parts.append(f"<details{is_open}><summary>{html.escape(section.title)}</summary><ul>{''.join(links)}</ul></details>")
    return "".join(parts)


def _neighbours(path: Path, addresses: dict[Path, str]) -> str:
    """Links to the previous and next page, in the order of the navigation."""
    order = [entry for section in sections() for entry in section.entries if entry.path in addresses]
    at = next((index for index, entry in enumerate(order) if entry.path == path), None)
    if at is None:
        return ""
    here = Path(addresses[path]).parent
    shown = [(order[index], sign) for index, sign in ((at - 1, "←"), (at + 1, "→")) if 0 <= index < len(order)]
    return "".join(f'<a href="{os.path.relpath(addresses[entry.path], here)}">{sign} {html.escape(entry.title)}</a>' for entry, sign in shown)


def _contents(page: Page) -> str:
    links = [f'<li><a href="#{heading.anchor}">{html.escape(heading.text)}</a></li>' for heading in page.headings if heading.level == 2]
    return f"<ul>{''.join(links)}</ul>" if len(links) > 2 else ""


def _tables(body: str) -> str:
    """Wide tables scroll on their own and do not widen the page."""
    return body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")


def _search_entries(page: Page, address: str) -> list[dict[str, str]]:
    """An entry for each heading, with the text up to the next heading."""
    texts: list[list[str]] = []
    is_heading = False
    for token in page.tokens:
        if token.type == "heading_open":
            texts.append([])
            is_heading = True
        elif token.type == "heading_close":
            is_heading = False
        elif token.type in ("inline", "fence") and texts and not is_heading:
            texts[-1].append(plain(token) if token.children else token.content)
    return [
        {"page": page.title, "heading": heading.text, "address": f"{address}#{heading.anchor}", "words": " ".join(" ".join(text).split())}
        for heading, text in zip(page.headings, texts, strict=True)
    ]
