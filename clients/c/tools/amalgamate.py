"""Combines the sources: `amalgamate.py OUTPUT_FOLDER` writes tautwire.h and tautwire.c there."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LOCAL = re.compile(r'^#include "([\w/.]+)"$')


def flattened(path: Path, folders: list[Path]) -> str:
    """Returns the text of `path` with the included local files inlined. tautwire.h stays an
    include."""
    lines = []
    for line in path.read_text().splitlines():
        found = LOCAL.match(line)
        if found and found[1] != "tautwire.h":
            part = next(folder / found[1] for folder in folders if (folder / found[1]).exists())
            lines.append(flattened(part, folders).rstrip("\n"))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def write_if_new(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> int:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    write_if_new(out / "tautwire.h", flattened(HERE / "include/tautwire.h", [HERE / "include"]))
    write_if_new(out / "tautwire.c", flattened(HERE / "src/tautwire.c", [HERE / "src"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
