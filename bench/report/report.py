"""Writes bench/report/index.html, bench/report/summary.md, the picture and the performance section of the README from bench/results.

`report.py --check` writes nothing and fails when one of them is not what the results make of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import libraries
import markdown
import page
import picture
from results import ROOT, load

HERE = Path(__file__).resolve().parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "beside-peers.svg"


def main() -> int:
    parser = argparse.ArgumentParser(description="The report on the results in bench/results.")
    parser.add_argument("--check", action="store_true", help="fail when a file is stale, and write nothing")
    options = parser.parse_args()
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        name = path.relative_to(ROOT)
        if options.check:
            print(f"{name} is not what bench/results makes of it: run `make bench-report`")
        else:
            path.write_text(documents()[path])
            print(f"wrote {name}")
    if README not in documents():
        print(f"{README.name} has no markers for the performance section:\n{markdown.BEGIN}\n{markdown.END}", file=sys.stderr)
        return 1
    if not stale:
        print("the report is up to date")
    return 1 if stale and options.check else 0


def documents() -> dict[Path, str]:
    """Returns the expected content of each file."""
    results = load()
    rows = libraries.rows(results)
    made = {HERE / "index.html": page.render(results, rows), HERE / "summary.md": markdown.summary(results, rows)}
    if drawn := picture.render(results):
        made[PICTURE] = drawn
    readme = markdown.into_readme(README.read_text(), markdown.section(results, rows))
    return made if readme is None else {**made, README: readme}


if __name__ == "__main__":
    sys.exit(main())
