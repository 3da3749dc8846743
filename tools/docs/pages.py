"""Pages of Markdown: their headings with anchors, their links, and their blocks of code with marks."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
# A comment before a block tells the tests what to do with it: `<!-- runs -->`, `<!-- file: NAME -->`.
MARK = re.compile(r"<!--\s*(runs|prints|file|unchecked)(?:\s*:\s*(.*?))?\s*-->")
ANCHOR = re.compile(r"""<a\s+(?:id|name)=["']([^"']+)["']""")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    anchor: str


@dataclass(frozen=True)
class Block:
    """A fenced code block. `mark` is the keyword of the comment before it, and `argument` the text after its colon."""

    language: str
    text: str
    line: int
    mark: str
    argument: str


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tokens(self) -> list[Token]:
        return parser().parse(self.text)

    @property
    def title(self) -> str:
        return next((heading.text for heading in self.headings), self.path.stem)

    @cached_property
    def headings(self) -> list[Heading]:
        found = []
        slugs = Slugs()
        for opening, inside in zip(self.tokens, self.tokens[1:]):
            if opening.type == "heading_open":
                text = plain(inside)
                found.append(Heading(int(opening.tag[1]), text, slugs.of(text)))
        return found

    @property
    def anchors(self) -> set[str]:
        return {heading.anchor for heading in self.headings} | set(ANCHOR.findall(self.text))

    @property
    def links(self) -> Iterator[tuple[int, str]]:
        """Yields each link and image, with the line where its paragraph begins."""
        line = 1
        for token in self.tokens:
            line = token.map[0] + 1 if token.map else line
            for child in token.children or []:
                target = child.attrGet("href") or child.attrGet("src")
                if target:
                    yield line, str(target)

    @property
    def blocks(self) -> Iterator[Block]:
        mark, argument = "", ""
        for token in self.tokens:
            if token.type == "html_block" and (found := MARK.search(token.content)):
                mark, argument = found[1], found[2] or ""
            elif token.type == "fence":
                yield Block(token.info.split(" ")[0], token.content, token.map[0] + 1 if token.map else 1, mark, argument)
                mark, argument = "", ""


class Slugs:
    """Anchors as code hosts generate them: lower case, hyphens for spaces, a number after repeated ones."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def of(self, text: str) -> str:
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        count = self.seen[slug]
        self.seen[slug] += 1
        return f"{slug}-{count}" if count else slug


def parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def plain(inline: Token) -> str:
    """Returns the text of a heading without Markdown."""
    return "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))


def all_pages() -> list[Page]:
    """Returns every page that is or could be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")
    return [Page(ROOT / name) for name in sorted(set(listed)) if name and (ROOT / name).exists()]


def documentation() -> list[Page]:
    """Returns the pages below docs/."""
    return [page for page in all_pages() if page.name.startswith("docs/")]
