"""Writes the tables of errors of all languages, and the page of all codes, from errors.toml.

`python3 spec/errors/generate.py` writes what has changed; with `--check` it writes nothing, and its exit status is 1 if a file is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import words  # noqa: E402
from languages import c, go, page, python, rust, typescript  # noqa: E402

FILES: dict[str, Callable[[list[words.Code]], str]] = {
    "broker/protocol/src/error/table.rs": rust.codec,
    "clients/rust/src/error/texts.rs": rust.client,
    "clients/go/packets/cause_table.go": go.codec,
    "clients/go/client/errors_text.go": go.client,
    "clients/typescript/packages/mqtt-codec/src/error-codes.ts": typescript.codes,
    "clients/typescript/packages/mqtt-codec/src/error-texts.ts": typescript.codec,
    "clients/typescript/packages/client/src/texts.ts": typescript.client,
    "clients/c/src/texts.c": c.texts,
    "clients/python/tautwire/_texts.py": python.client,
    "docs/reference/errors.md": page.page,
}


def files() -> dict[Path, str]:
    codes = words.read()
    return {ROOT / name: write(codes) for name, write in FILES.items()}


def stale() -> list[Path]:
    return [path for path, text in files().items() if not path.exists() or path.read_text() != text]


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the tables of errors from errors.toml.")
    parser.add_argument("--check", action="store_true", help="write nothing; the exit status is 1 if a file is stale")
    is_check = parser.parse_args().check
    wrong = stale()
    texts = files()
    for path in wrong:
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
        print(f"{path.relative_to(ROOT)}: {'stale: run `make errors`' if is_check else 'written'}")
    return 1 if is_check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
