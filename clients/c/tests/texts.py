"""Checks that the texts of the library are those of the file for all languages: `texts.py
ERRORS_TOML ERROR_TABLE`."""

import subprocess
import sys
import tomllib
from pathlib import Path


def main() -> int:
    sections = tomllib.loads(Path(sys.argv[1]).read_text()).values()
    lines = subprocess.run([sys.argv[2]], check=True, capture_output=True, text=True).stdout.splitlines()
    wrong = 0
    for code, text in (line.split("\t") for line in lines):
        expected = [section[code]["text"] for section in sections if code in section]
        if text not in expected:
            wrong += 1
            print(f"{code}: {text!r}, expected {expected!r}", file=sys.stderr)
    print(f"texts: {len(lines)} errors, {wrong} differ")
    return 1 if wrong or len(lines) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
