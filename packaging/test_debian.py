"""Tests of the Debian package: lintian; installed, upgraded, removed and purged in a separate Debian."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

import binary
import common
import debian
from support import TARGET, WithProject, only, slow

# Created by tools/debian-root.sh.
BASE = TARGET / "debian-root"


def ours() -> Path:
    return only(f"deb/*_{binary.host().architecture}.deb")


class Package(WithProject):
    def test_lintian_reports_nothing(self) -> None:
        if shutil.which("lintian") is None:
            self.assertIsNone(os.environ.get("TAUTWIRE_REQUIRED"), "lintian is missing (Debian: sudo apt-get install lintian)")
            self.skipTest("no lintian")
        # The package is not uploaded to Debian, so it closes no bug there.
        said = self.run_in("lintian", "--tag-display-limit", "0", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs", ours())
        self.assertEqual(said, "")

    def test_the_unit_matches_the_repository_and_its_user_exists(self) -> None:
        unit = debian.unit()
        self.assertIn("ExecStart=/usr/bin/tautwire serve --config /etc/tautwire/tautwire.toml\n", unit)
        self.assertIn("User=tautwire\n", unit)
        self.assertNotIn("DynamicUser", unit)
        if shutil.which("systemd-analyze"):
            (self.project / "tautwire.service").write_text(unit.replace("/usr/bin/tautwire", "/bin/true"))
            self.run_in("systemd-analyze", "verify", "--man=no", self.project / "tautwire.service")


@slow
@unittest.skipUnless(os.getuid() == 0, "changes its root, which only root may")
class Installed(WithProject):
    """Creates a Debian for each test, from the same tree."""

    def setUp(self) -> None:
        super().setUp()
        self.assertTrue(BASE.exists(), "tools/debian-root.sh makes it")
        self.root = self.project / "root"
        # Hard links would let one test change the tree of all.
        self.run_in("cp", "-a", "--reflink=auto", BASE, self.root)

    def dpkg(self, *arguments: str | Path) -> str:
        return self.within("dpkg", *arguments)

    def within(self, *command: str | Path) -> str:
        quiet = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        return self.run_in("chroot", self.root, *command, **quiet)

    def install(self, package: Path) -> None:
        shutil.copy(package, self.root / "package.deb")
        self.dpkg("--install", "--force-confold", "/package.deb")

    def newer(self) -> Path:
        """Builds the same files as a later version."""
        with binary.beside() as beside:
            debian.package(self.project, binary.host(), "99.0-1", beside)
        return next(self.project.glob("*.deb"))

    def test_it_installs_upgrades_removes_and_purges(self) -> None:
        self.install(ours())
        self.assertRegex(self.within("getent", "passwd", "tautwire"), "^tautwire:.*:/var/lib/tautwire:/usr/sbin/nologin")
        self.assertEqual(self.within("stat", "--format", "%U %a", "/var/lib/tautwire"), "tautwire 700\n")
        self.assertEqual(self.within("tautwire", "config", "check", "--config", "/etc/tautwire/tautwire.toml"), "the configuration is valid\n")
        self.assertTrue((self.root / "etc/systemd/system/multi-user.target.wants/tautwire.service").is_symlink())
        self.assertEqual(self.dpkg("--verify", "tautwire"), "")
        self.serve()
        kept = self.root / "etc/tautwire/tautwire.toml"
        kept.write_text("threads = 1\n")
        self.install(self.newer())
        self.assertIn("99.0-1", self.dpkg("--status", "tautwire"))
        self.assertEqual(kept.read_text(), "threads = 1\n")
        # The state of the earlier version exists.
        self.serve()
        self.dpkg("--remove", "tautwire")
        self.assertFalse((self.root / "usr/bin/tautwire").exists())
        self.assertTrue(kept.exists())
        self.assertTrue(any((self.root / "var/lib/tautwire").iterdir()))
        self.dpkg("--purge", "tautwire")
        left = [path for path in ["etc/tautwire", "var/lib/tautwire", "usr/share/doc/tautwire"] if (self.root / path).exists()]
        self.assertEqual(left, [])

    def serve(self) -> None:
        """Runs the broker as the service does, until it listens."""
        command = ["chroot", "--userspec=tautwire:tautwire", self.root, "/usr/bin/tautwire", "serve", "--config", "/etc/tautwire/tautwire.toml"]
        state = {"STATE_DIRECTORY": "/var/lib/tautwire"}
        listen = ["--listen", "127.0.0.1:0"]
        with subprocess.Popen([*command, *listen], env=os.environ | state, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
            try:
                self.assertRegex(broker.stdout.readline(), "^listening on mqtt://127.0.0.1:")
            finally:
                broker.terminate()
                broker.communicate(timeout=common.TIMEOUT_S)
