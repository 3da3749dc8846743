"""Draws names and sentences of the repository at random, to read them as a stranger: `python3 tools/tidy/sample.py SEED names|sentences [COUNT]`.

A name that needs its context, or a sentence that must be read twice, breaks the rules of docs/internals/glossary.md. docs/internals/samples.md
has the last draw.
"""

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = {
    ".rs": r"\bpub(?:\([a-z:_ ]+\))? (?:const |async |unsafe )*(?:fn|struct|enum|trait|type|const|static|mod) (\w+)|^\s+pub(?:\([a-z:_ ]+\))? (\w+):",
    ".ts": r"\bexport (?:declare |default |abstract |async )*(?:function|class|interface|type|const|enum) (\w+)",
    ".tsx": r"\bexport (?:async )?(?:function|const|type|interface) (\w+)",
    ".go": r"^func (?:\([^)]*\) )?([A-Z]\w*)|^type ([A-Z]\w*)",
    ".h": r"\b(tw_\w+|TW_\w+)\b",
    ".py": r"^(?:    )?(?:async )?(?:def|class) ([A-Za-z]\w*)",
}
COMMENTS = {".rs": "//", ".ts": "//", ".tsx": "//", ".go": "//", ".c": "//", ".h": "//", ".toml": "#", ".py": "#"}
SENTENCE_WORDS = 6
SKIPPED = re.compile(r"(^|/)(dist|node_modules)/|^bench/results|^spec/vectors")
OF_TESTS = re.compile(r"/tests/|test_|_test")


def names(file: str, text: str) -> Iterator[str]:
    pattern = NAMES.get(Path(file).suffix)
    if pattern and not OF_TESTS.search(file):
        for found in re.finditer(pattern, text, re.MULTILINE):
            yield next(name for name in found.groups() if name)


def paragraphs(file: str, text: str) -> Iterator[str]:
    if file.endswith(".md"):
        for block in re.split(r"\n\s*\n", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            if not block.lstrip().startswith(("#", "|", "<")):
                yield block
    elif comment := COMMENTS.get(Path(file).suffix):
        lines: list[str] = []
        for line in [*text.split("\n"), ""]:
            if found := re.match(rf"\s*(?:{comment}[/!]?|\*)\s?(.*)", line):
                lines.append(found[1])
            elif lines:
                yield " ".join(lines)
                lines = []


def sentences(file: str, text: str) -> Iterator[str]:
    for paragraph in paragraphs(file, text):
        for sentence in re.split(r"(?<=[.:?!])\s+(?=[A-Z`])", " ".join(paragraph.split())):
            if len(sentence.split()) >= SENTENCE_WORDS:
                yield sentence


def draw(seed: int, kind: str, count: int) -> list[tuple[str, str]]:
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout.split("\0")
    drawn = set()
    for file in listed:
        if file and not SKIPPED.search(file):
            try:
                text = Path(file).read_text()
            except (UnicodeDecodeError, OSError):
                continue
            drawn.update((text_drawn, file) for text_drawn in {"names": names, "sentences": sentences}[kind](file, text))
    ordered = sorted(drawn)
    random.Random(seed).shuffle(ordered)
    return ordered[:count]


if __name__ == "__main__":
    for drawn_text, from_file in draw(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200):
        print(f"{drawn_text}\t{from_file}")
