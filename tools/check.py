"""Checks the changed crates and packages: format, lints and tests.

Usage: tools/check.py [REVISION]

Files are compared with REVISION, or else with the last commit. `make test` runs everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CARGO = os.environ.get("CARGO", "cargo")
# Its tests exercise every crate of the broker.
SERVER = "tautwire-server"
# gofmt itself succeeds when files are not formatted.
GO_FORMAT = 'unformatted=$(gofmt -l .); [ -z "$unformatted" ] || { echo "gofmt: $unformatted"; exit 1; }'


class Step(NamedTuple):
    name: str
    command: list[str]
    folder: str = "."


def main(arguments: list[str]) -> int:
    files = changed(arguments[0] if arguments else "HEAD")
    failed = []
    for name, command, folder in steps(files, crates_of_workspace()):
        begin = time.monotonic()
        status = subprocess.run(command, cwd=ROOT / folder).returncode
        print(f"{'ok' if status == 0 else 'FAILED'} {name}, {time.monotonic() - begin:.0f} s", flush=True)
        if status != 0:
            failed.append(name)
    print(f"changed files: {len(files)}; {'failed: ' + ', '.join(failed) if failed else 'all passed'}")
    return 1 if failed else 0


def changed(revision: str, root: Path = ROOT) -> list[str]:
    def lines(*command: str) -> list[str]:
        return subprocess.run(["git", *command], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()

    return sorted({*lines("diff", "--name-only", "--no-renames", revision), *lines("ls-files", "--others", "--exclude-standard")})


def crates_of_workspace() -> dict[str, str]:
    """Returns the name of each crate by its folder."""
    command = [CARGO, "metadata", "--format-version=1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return {str(Path(package["manifest_path"]).parent.relative_to(ROOT)): package["name"] for package in metadata["packages"]}


def steps(files: list[str], crates: dict[str, str]) -> Iterator[Step]:
    """Yields the checks for changed files. `crates`: the name of each crate by its folder."""

    def under(*folders: str) -> bool:
        return any(file.startswith(folders) for file in files)

    yield Step("tidy", [sys.executable, "-B", "tools/tidy"])
    yield from rust_steps(files, crates)
    if under("clients/typescript/"):
        packages = sorted({"/".join(file.split("/")[2:4]) for file in files if file.startswith("clients/typescript/packages/")})
        yield Step("TypeScript: build", ["make", "typescript"])
        yield Step("TypeScript: lint", ["npx", "eslint", *(packages or ["."])], "clients/typescript")
        for package in packages:
            yield Step(f"TypeScript: {package}", ["npm", "test", "--silent", "--if-present", "--workspace", package], "clients/typescript")
    if under("broker/dashboard/"):
        yield Step("dashboard: types", ["npm", "run", "--silent", "check"], "broker/dashboard")
        yield Step("dashboard: lint", ["npm", "run", "--silent", "lint"], "broker/dashboard")
    if under("clients/go/"):
        yield Step("Go: format", ["sh", "-c", GO_FORMAT], "clients/go")
        yield Step("Go: vet", ["go", "vet", "./..."], "clients/go")
        yield Step("Go: tests", ["go", "test", "./..."], "clients/go")
    if under("clients/c/"):
        yield Step("C", ["make", "--silent", "--jobs=2", "--output-sync=target", "test"], "clients/c")
    if under("clients/python/"):
        yield Step("Python", ["make", "test-python"])
    if under("spec/", "tools/"):
        yield Step("spec and tools", ["make", "test-spec"])


def rust_steps(files: list[str], crates: dict[str, str]) -> Iterator[Step]:
    chosen = changed_crates(files, crates)
    if not chosen:
        return
    packages = [argument for crate in chosen for argument in ("-p", crate)]
    yield Step("Rust: format", [CARGO, "fmt", "--all", "--check"])
    yield Step("Rust: clippy", [CARGO, "clippy", *packages, "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
    if any(file.startswith("broker/") for file in files) and SERVER not in chosen:
        packages += ["-p", SERVER]
    yield Step("Rust: tests", [sys.executable, "-B", "tools/rust_tests.py", *packages])


def changed_crates(files: list[str], crates: dict[str, str]) -> list[str]:
    """Returns the crates with a changed file; all of them if the workspace itself has changed."""
    if {"Cargo.toml", "Cargo.lock"} & set(files):
        return sorted(crates.values())
    return sorted({name for folder, name in crates.items() if any(file.startswith(f"{folder}/") for file in files)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
