"""Tests of the .crate files: unpacked, as dependencies of an empty project."""

import json
import shutil
import tarfile
import unittest

import crates
import versions
from support import ROOT, SAID, TARGET, WithProject, broker, only, slow

# Kept, so that unchanged crates are compiled once.
BUILT = {"CARGO_TARGET_DIR": str(TARGET / "packages")}


def without_time(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """All files in a .crate have the same time; cargo would take those of a later build for the ones that it has compiled."""
    return tarfile.data_filter(member, folder).replace(mtime=None)


class Crates(WithProject):
    def setUp(self) -> None:
        super().setUp()
        self.consumer("rust")
        (self.project / "src").mkdir()
        (self.project / "main.rs").rename(self.project / "src/main.rs")
        # The versions of other crates in the repository's lock file, which are on this machine.
        shutil.copy(ROOT / "Cargo.lock", self.project)
        version = versions.read()["rust"]
        patches = ["\n[patch.crates-io]\n"]
        for crate in versions.CRATES:
            with tarfile.open(only(f"crates/{crate}-{version}.crate")) as archive:
                archive.extractall(self.project / "crates", filter=without_time)
            patches.append(f'{crate} = {{ path = "crates/{crate}-{version}" }}\n')
        with (self.project / "Cargo.toml").open("a") as manifest:
            manifest.writelines(patches)

    def test_a_program_runs_with_them(self) -> None:
        with broker() as address:
            self.assertEqual(self.run_in("cargo", "run", "--quiet", "--offline", "--", address, **BUILT), SAID)

    def test_all_tautwire_crates_come_from_the_package(self) -> None:
        command = ["cargo", "metadata", "--format-version", "1", "--offline", "--features", "all"]
        packages = json.loads(self.run_in(*command))["packages"]
        ours = {package["name"]: package for package in packages if package["name"].startswith("tautwire-")}
        self.assertEqual(ours.keys(), versions.CRATES.keys())
        for crate, package in ours.items():
            with self.subTest(crate):
                self.assertTrue(package["manifest_path"].startswith(str(self.project / "crates")))
                folder = self.project / "crates" / f"{crate}-{package['version']}"
                for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"]:
                    self.assertTrue((folder / name).is_file(), name)
                self.assertTrue(package["description"] and package["repository"] and package["keywords"])

    @slow
    def test_a_program_runs_with_all_features(self) -> None:
        with broker() as address:
            command = ["cargo", "run", "--quiet", "--offline", "--features", "all", "--", address]
            self.assertEqual(self.run_in(*command, **BUILT), SAID)

    def test_the_build_is_reproducible(self) -> None:
        self.assert_same_again("crates", crates.build)


if __name__ == "__main__":
    unittest.main()
