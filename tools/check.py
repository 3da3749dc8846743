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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO = os.environ.get("CARGO", "cargo")
# Its tests exercise every crate of the broker.
SERVER = "tautwire-server"


def main(arguments: list[str]) -> int:
    files = changed(arguments[0] if arguments else "HEAD")
    failed = []
    for name, command, folder in steps(files):
        begin = time.monotonic()
        status = subprocess.run(command, cwd=ROOT / folder).returncode
        print(f"{'ok' if status == 0 else 'FAILED'} {name}, {time.monotonic() - begin:.0f} s", flush=True)
        if status != 0:
            failed.append(name)
    print(f"{len(files)} files have changed; {'failed: ' + ', '.join(failed) if failed else 'all passed'}")
    return 1 if failed else 0


def changed(revision: str) -> list[str]:
    def lines(*command: str) -> list[str]:
        return subprocess.run(["git", *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()

    return sorted({*lines("diff", "--name-only", revision), *lines("ls-files", "--others", "--exclude-standard")})


def steps(files: list[str]):
    """Yields the name, the command and the folder of each step."""
    yield "tidy", [sys.executable, "-B", "tools/tidy"], "."
    yield from rust_steps(files)

    def under(*folders: str) -> bool:
        return any(file.startswith(folders) for file in files)

    if under("clients/typescript/"):
        packages = sorted({"/".join(file.split("/")[2:4]) for file in files if file.startswith("clients/typescript/packages/")})
        yield "TypeScript: build", ["make", "typescript"], "."
        yield "TypeScript: lint", ["npx", "eslint", *(packages or ["."])], "clients/typescript"
        for package in packages:
            yield f"TypeScript: {package}", ["npm", "test", "--silent", "--workspace", package], "clients/typescript"
    if under("broker/dashboard/"):
        yield "dashboard", ["npm", "run", "--silent", "check"], "broker/dashboard"
    if under("clients/go/"):
        yield "Go: vet", ["go", "vet", "./..."], "clients/go"
        yield "Go: tests", ["go", "test", "./..."], "clients/go"
    if under("clients/c/"):
        yield "C", ["make", "--silent", "--jobs=2", "test"], "clients/c"
    if under("clients/python/"):
        yield "Python", ["make", "test-python"], "."
    if under("spec/", "tools/"):
        yield "spec and tools", ["make", "test-spec"], "."


def rust_steps(files: list[str]):
    crates = changed_crates(files)
    if not crates:
        return
    packages = [argument for crate in crates for argument in ("-p", crate)]
    yield "Rust: format", [CARGO, "fmt", "--all", "--check"], "."
    yield "Rust: clippy", [CARGO, "clippy", *packages, "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"], "."
    if any(file.startswith("broker/") for file in files) and SERVER not in crates:
        packages += ["-p", SERVER]
    yield "Rust: tests", [sys.executable, "-B", "tools/rust_tests.py", *packages], "."


def changed_crates(files: list[str]) -> list[str]:
    """Returns the crates of the workspace with a changed file; all of them if the workspace itself has changed."""
    command = [CARGO, "metadata", "--format-version=1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    crates = {str(Path(package["manifest_path"]).parent.relative_to(ROOT)): package["name"] for package in metadata["packages"]}
    if {"Cargo.toml", "Cargo.lock"} & set(files):
        return sorted(crates.values())
    return sorted({name for folder, name in crates.items() if any(file.startswith(f"{folder}/") for file in files)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
