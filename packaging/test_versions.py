"""Tests that the check of versions, changelogs and licences finds faults, and that checksums match the files."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import versions
from support import DIST, ROOT


class Versions(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tautwire-versions-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        names = ["packaging/versions.toml", *versions.LICENCES, "Cargo.lock", f"{versions.PYTHON}/Cargo.lock"]
        names += ["clients/typescript/package-lock.json", *(place.path for place in versions.places(versions.read()))]
        for package in [*versions.FOLDERS, *versions.NPM_FOLDERS]:
            names.append(f"{package}/CHANGELOG.md")
        for package in versions.FOLDERS:
            names += [f"{package}/{licence}" for licence in versions.LICENCES]
        for name in names:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        self.assertIn(old, text)
        (self.root / name).write_text(text.replace(old, new))

    def assert_found(self, *wanted: str) -> None:
        found = list(versions.findings(self.root))
        self.assertEqual(len(found), len(wanted), found)
        for finding, part in zip(found, wanted, strict=True):
            self.assertIn(part, finding)

    def test_the_repository_is_consistent(self) -> None:
        self.assert_found()

    def test_a_different_version_is_found_in_each_place(self) -> None:
        for place in set(versions.places(versions.read())):
            with self.subTest(place.path, pattern=place.pattern):
                path = self.root / place.path
                before = path.read_text()
                versions.Place(place.path, place.pattern, "99").write(self.root)
                self.assert_found(f"{place.path}: 99")
                path.write_text(before)

    def test_a_written_version_is_found_everywhere(self) -> None:
        name = "packaging/versions.toml"
        (self.root / name).write_text((self.root / name).read_text().replace("0.1.0", "1.20.3"))
        versions.write(self.root)
        left = list(versions.findings(self.root))
        # Written by npm and cargo.
        self.assertEqual([finding for finding in left if "lock" not in finding], [])
        self.assertIn("#define TW_VERSION_MINOR 20\n", (self.root / "clients/c/include/tautwire.h").read_text())

    def test_a_changelog_of_another_version_is_found(self) -> None:
        self.replace("clients/go/CHANGELOG.md", "## Unreleased", "## 0.0.9")
        self.assert_found("clients/go/CHANGELOG.md")

    def test_a_changelog_without_its_version_is_found_before_a_release(self) -> None:
        before = len(list(versions.unreleased(self.root)))
        self.replace("clients/go/CHANGELOG.md", "## Unreleased", f"## {versions.read()['go']}")
        self.assert_found()
        self.assertEqual(len(list(versions.unreleased(self.root))), before - 1)

    def test_another_licence_is_found(self) -> None:
        self.replace("clients/go/LICENSE-MIT", "MIT", "TIM")
        self.assert_found("clients/go/LICENSE-MIT")


class Sums(unittest.TestCase):
    def test_the_places_cover_all_files(self) -> None:
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=DIST, check=True)
        named = {line.split("  ", 1)[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
        there = {path.relative_to(DIST).as_posix() for path in DIST.rglob("*") if path.is_file()}
        self.assertEqual(named | {"SHA256SUMS"}, there)


if __name__ == "__main__":
    unittest.main()
