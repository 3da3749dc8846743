"""Checks the rules of this repository that no other tool knows: `python3 tools/tidy`.

Prints one line per finding. Exits with 1 if there are any.
"""

import subprocess
import sys
from pathlib import Path

import rules

ROOT = Path(__file__).resolve().parents[2]


# Used where git cannot list ignored files: a copy of the tree without its history, or a tree that belongs to another user.
NOT_OURS = {".git", ".venv", "__pycache__", "bin", "node_modules", "quick", "target"}


def files() -> list[Path]:
    """Returns every file that is or could be committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        everything = (path for path in ROOT.rglob("*") if path.is_file())
        return sorted(path for path in everything if not NOT_OURS & set(path.relative_to(ROOT).parts))
    return sorted({ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def main() -> int:
    tree = rules.Tree(ROOT, files())
    findings = [finding for rule in rules.ALL for finding in rule(tree)]
    for finding in findings:
        print(finding)
    print(f"tidy: {len(tree.files)} files, {len(rules.ALL)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
