"""The C library: a source archive, and an archive with only the two files that programs copy in."""

from pathlib import Path

from common import ROOT, run, tracked, write_tar, write_zip
from versions import C, LICENCES, read

# Tests, fuzzing and benchmarks need the repository. `make test-install` needs tests/install.
LEFT_OUT = ("bench/", "fuzz/", "interop/", "tests/", "tools/size.py", "tools/verdict.c", "tools/readme_example.py", ".gitignore")
KEPT = ("tests/install/",)


def build(out: Path) -> None:
    version = read()["c"]
    run("make", "--silent", "amalgamate", cwd=ROOT / C)
    dropped_in = {f"dist/{name}": ROOT / C / "dist" / name for name in ["tautwire.h", "tautwire.c"]}
    write_tar(out / f"tautwire-c-{version}.tar.gz", f"tautwire-c-{version}", sources() | dropped_in)
    two_files = {Path(name).name: path for name, path in dropped_in.items()}
    others = {name: ROOT / C / name for name in [*LICENCES, "README.md", "CHANGELOG.md"]}
    write_zip(out / f"tautwire-c-amalgamation-{version}.zip", f"tautwire-c-amalgamation-{version}", two_files | others)


def sources() -> dict[str, Path]:
    names = {path.relative_to(ROOT / C).as_posix(): path for path in tracked(C)}
    return {name: path for name, path in names.items() if name.startswith(KEPT) or not name.startswith(LEFT_OUT)}
