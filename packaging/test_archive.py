"""Tests of the binary archives: their content, that the binary runs, also on the other architecture by emulation, and the formula that references them."""

import shutil
import subprocess
import tarfile
from pathlib import Path

import archive
import binary
import common
import versions
from support import SAID, WithProject, digests, only, slow

VERSION = versions.read()["rust"]


class Archive(WithProject):
    def unpacked(self, platform: binary.Platform) -> Path:
        with tarfile.open(only(f"archive/*-{platform.machine}-linux.tar.gz")) as packed:
            packed.extractall(self.project, filter="data")
        return self.project / f"tautwire-{VERSION}-{platform.machine}-linux"

    def test_the_archive_has_all_files_for_the_binary(self) -> None:
        folder = self.unpacked(binary.host())
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        wanted = {
            "tautwire", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "NOTICES.txt", "tautwire.cdx.json", "tautwire.service",
            "completions/bash/tautwire", "completions/zsh/_tautwire", "completions/fish/tautwire.fish", "man/tautwire.1", "man/tautwire.toml.5",
            "man/tautwire-serve.1", "monitoring/alerts.yml", "monitoring/grafana.json",
        }
        self.assertEqual(wanted - names, set())

    def test_the_binary_runs_without_other_files(self) -> None:
        self.assert_serves([self.unpacked(binary.host()) / "tautwire"])

    @slow
    def test_the_binary_of_the_other_architecture_runs_under_emulation(self) -> None:
        for platform in binary.ALL:
            if not platform.is_host:
                emulator = shutil.which(f"qemu-{platform.machine}")
                self.assertIsNotNone(emulator, "qemu-user is missing (Debian: sudo apt-get install qemu-user)")
                self.assert_serves([emulator, self.unpacked(platform) / "tautwire"])

    def assert_serves(self, program: list) -> None:
        self.assertEqual(self.run_in(*program, "--version"), f"tautwire {VERSION}\n")
        command = [*program, "serve", "--listen", "127.0.0.1:0", "--set", f"data.path={self.project}/data"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
            try:
                port = broker.stdout.readline().strip().rpartition(":")[2]
                subscriber = subprocess.Popen(
                    [*program, "sub", "-p", port, "-C", "1", "-W", "60", "-v", "demo/#"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                self.run_in(*program, "pub", "-p", port, "-r", "demo/hello", "hi")
                said, told = subscriber.communicate(timeout=common.TIMEOUT_S)
                self.assertEqual(said.replace(" ", ": ", 1), SAID, told)
            finally:
                broker.terminate()

    @slow
    def test_the_build_is_reproducible(self) -> None:
        self.assert_same_again("archive", archive.build)

    def test_the_formula_has_the_checksum_of_each_archive(self) -> None:
        formula = only("homebrew/tautwire.rb").read_text()
        for name, digest in digests(common.DIST / "archive").items():
            if name.endswith(".tar.gz"):
                self.assertIn(f'v{VERSION}/{name}"\n    sha256 "{digest}"', formula)
        if ruby := shutil.which("ruby"):
            self.run_in(ruby, "-c", only("homebrew/tautwire.rb"))
