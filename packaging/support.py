"""Code shared by the tests of packages: empty projects outside of the repository, and a broker."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

import common

ROOT = common.ROOT
BROKER = Path(os.environ.get("TAUTWIRE_BIN", ROOT / "bin/tautwire"))
DIST = common.DIST
TARGET = common.TARGET
CONSUMERS = ROOT / "packaging/consumers"
# The output of each consumer.
SAID = "demo/hello: hi\n"
# Tests that compile for minutes, or need tools that take a minute to install: `make test-packages-all`.
slow = unittest.skipUnless(os.environ.get("TAUTWIRE_PACKAGES") == "all", "make test-packages-all runs it")


class WithProject(unittest.TestCase):
    """Gives each test an empty directory outside of the repository, so that no parent directory has its files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tautwire-package-")
        self.addCleanup(folder.cleanup)
        self.project = Path(folder.name)

    def consumer(self, name: str) -> None:
        shutil.copytree(CONSUMERS / name, self.project, dirs_exist_ok=True)

    def run_in(self, *command: str | Path, **environment: str) -> str:
        return common.run(*command, cwd=self.project, **environment)

    def assert_same_again(self, kind: str, build) -> None:
        """Checks that a second build has the same bytes."""
        again = self.project / "again"
        again.mkdir()
        build(again)
        self.assertEqual(digests(again), digests(DIST / kind))


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def only(pattern: str) -> Path:
    """Returns the one file of dist that matches."""
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        raise AssertionError(f"{pattern}: {len(found)} files in dist; `make packages` builds them")
    return found[0]


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """Starts a broker for this test, and yields its address."""
    command = [BROKER, "serve", "--memory", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline().strip()
        if not line.startswith("listening on "):
            raise AssertionError(f"the broker did not start: {line}")
        yield line.removeprefix("listening on ")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
