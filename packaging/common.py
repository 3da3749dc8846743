"""Code shared by the scripts for all kinds of packages: running programs, reproducible archives, checksums."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
# The earliest time that a zip can represent, for a tree without history.
EPOCH_S = 315_532_800
TIMEOUT_S = 1800


class Failure(Exception):
    """A failed program, with its output."""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Runs a program and returns its output; `environment` is added to that of this process."""
    shown = " ".join(str(part) for part in command)
    try:
        done = subprocess.run(
            command, cwd=cwd, env=os.environ | environment, timeout=TIMEOUT_S, text=True, capture_output=True
        )
    except FileNotFoundError as error:
        raise Failure(f"{command[0]}: not found; install it") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{shown}: not done after {TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise Failure(f"{shown}: ended with {done.returncode}\n{done.stdout.strip()}\n{done.stderr.strip()}")
    return done.stdout


def time_s() -> int:
    """The time of all files in archives: that of the commit, for reproducible builds."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    try:
        return int(run("git", "log", "-1", "--format=%ct"))
    except Failure:
        return EPOCH_S


def tracked(folder: str) -> list[Path]:
    """The files below `folder` that are tracked or not ignored."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder)
    return sorted(ROOT / name for name in set(listed.split("\0")) if name and (ROOT / name).is_file())


def write_tar(path: Path, top: str, files: dict[str, Path]) -> None:
    """Writes a .tar.gz with `files`, by name, in one top-level directory `top`."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, source in sorted(files.items()):
            content = source.read_bytes()
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), time_s(), mode(source)
            tar.addfile(entry, io.BytesIO(content))


def write_zip(path: Path, top: str, files: dict[str, Path]) -> None:
    """Writes a .zip with `files`, by name, in one top-level directory `top`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, source in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{top}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = mode(source) << 16
            archive.writestr(entry, source.read_bytes())


def mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644


def write_sums(folder: Path) -> None:
    """The SHA256SUMS file of all files below `folder`, in the format of `sha256sum --check`."""
    sums = folder / "SHA256SUMS"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != sums)
    sums.write_text("".join(f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
