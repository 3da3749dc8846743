"""Tests of the archives of the C library: installed, fetched, copied in, and used by Zephyr and ESP-IDF."""

import hashlib
import os
import re
import sys
import tarfile
import unittest
import zipfile
from pathlib import Path

import c_library
import versions
from support import ROOT, SAID, TARGET, WithProject, broker, only, slow

VERSION = versions.read()["c"]
STRICT = ["-std=c99", "-Wpedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
EXAMPLE = ROOT / "clients/c/tools/readme_example.py"


class C(WithProject):
    def unpacked(self) -> Path:
        with tarfile.open(only("c/*.tar.gz")) as archive:
            archive.extractall(self.project, filter="data")
        return self.project / f"tautwire-c-{VERSION}"

    def write_example(self, readme: Path) -> None:
        """Writes the first example of the README, a program that prints what it receives."""
        (self.project / "main.c").write_text(self.run_in(sys.executable, "-B", EXAMPLE, readme))

    def assert_runs(self, program: Path) -> None:
        with broker() as address:
            host, _, port = address.removeprefix("mqtt://").partition(":")
            self.assertEqual(self.run_in(program, host, port), SAID)

    def test_it_installs_for_pkg_config_and_cmake(self) -> None:
        """Runs the library's own test, which is in the archive."""
        said = self.run_in("make", "-C", self.unpacked(), "test-install")
        if os.environ.get("TAUTWIRE_REQUIRED"):
            self.assertNotIn("left out", said)

    def test_cmake_fetches_it(self) -> None:
        self.consumer("c")
        archive = only("c/*.tar.gz")
        self.write_example(self.unpacked() / "README.md")
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        self.run_in("cmake", "-B", "build", f"-DARCHIVE=file://{archive}", f"-DARCHIVE_SHA256={sha256}")
        self.run_in("cmake", "--build", "build")
        self.assert_runs(self.project / "build/uses")

    def test_two_files_are_sufficient(self) -> None:
        with zipfile.ZipFile(only("c/*.zip")) as archive:
            archive.extractall(self.project)
        folder = self.project / f"tautwire-c-amalgamation-{VERSION}"
        names = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "tautwire.c", "tautwire.h"]
        self.assertEqual(sorted(path.name for path in folder.iterdir()), names)
        self.write_example(folder / "README.md")
        self.run_in("cc", *STRICT, "main.c", folder / "tautwire.c", f"-I{folder}", "-o", "uses")
        self.assert_runs(self.project / "uses")

    def test_zephyr_finds_the_files_of_the_module(self) -> None:
        module = self.unpacked()
        description = (module / "zephyr/module.yml").read_text()
        self.assertIn("cmake: zephyr\n", description)
        self.assertIn("kconfig: zephyr/Kconfig\n", description)
        self.build_by("zephyr", f"-DMODULE={module}/zephyr")

    def test_zephyr_has_the_build_options(self) -> None:
        """All options in the README, except those that Zephyr sets."""
        module = self.unpacked()
        options = set(re.findall(r"^\| `TW_(\w+)` \| \d", (module / "README.md").read_text(), re.M)) - {"POSIX", "WIDE"}
        self.assertIn("STORE", options)
        self.assertEqual(set(re.findall(r"^config TAUTWIRE_(\w+)$", (module / "zephyr/Kconfig").read_text(), re.M)), options)
        self.assertEqual(set(re.findall(r"CONFIG_TAUTWIRE_(\w+)", (module / "zephyr/CMakeLists.txt").read_text())), options)

    def test_esp_idf_finds_the_files_of_the_component(self) -> None:
        self.build_by("esp-idf", f"-DCOMPONENT={self.unpacked()}")

    def build_by(self, consumer: str, *options: str) -> None:
        self.consumer(consumer)
        self.run_in("cmake", "-B", "build", *options)
        self.run_in("cmake", "--build", "build")

    @slow
    def test_esp_idf_tools_can_pack_it(self) -> None:
        component = self.unpacked()
        compote = TARGET / "packaging-venv/bin/compote"
        settings = {"IDF_COMPONENT_CHECK_NEW_VERSION": "0", "IDF_TOOLS_PATH": str(self.project / "tools")}
        command = ["component", "pack", "--name", "tautwire", "--project-dir", component, "--dest-dir", self.project / "packed"]
        self.run_in(compote, "-W", *command, **settings)
        with tarfile.open(self.project / "packed" / f"tautwire_{VERSION}.tgz") as archive:
            names = {name.removeprefix("./") for name in archive.getnames()}
        self.assertTrue({"idf_component.yml", "CMakeLists.txt", "LICENSE-MIT", "src/tautwire.c"} <= names, names)

    @slow
    def test_kconfig_is_valid(self) -> None:
        script = """if True:
            import sys, kconfiglib
            config = kconfiglib.Kconfig(sys.argv[1])
            config.syms["TAUTWIRE"].set_value("y")
            print({name: symbol.str_value for name, symbol in config.syms.items() if name.startswith("TAUTWIRE")})
        """
        python = TARGET / "packaging-venv/bin/python"
        said = self.run_in(python, "-c", script, self.unpacked() / "zephyr/Kconfig")
        self.assertIn("'TAUTWIRE_LINK': 'y'", said)
        self.assertIn("'TAUTWIRE_SCRAM': '0'", said)

    def test_the_build_is_reproducible(self) -> None:
        self.assert_same_again("c", c_library.build)


if __name__ == "__main__":
    unittest.main()
