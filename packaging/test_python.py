"""Tests of the wheel and the source distribution: installed into an empty environment."""

import sys
import unittest
from pathlib import Path

import wheel
from support import SAID, TARGET, WithProject, broker, only, slow


class Python(WithProject):
    def install(self, package: Path, *options: str) -> Path:
        """Returns the interpreter of a new environment with that package."""
        self.consumer("python")
        self.run_in(sys.executable, "-m", "venv", "venv")
        python = self.project / "venv/bin/python"
        self.run_in(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, package)
        return python

    def assert_runs(self, python: Path) -> None:
        with broker() as address:
            self.assertEqual(self.run_in(python, "-B", "uses.py", address), SAID * 2)

    def test_the_wheel_runs_in_an_empty_environment(self) -> None:
        package = only("python/*.whl")
        self.assertIn("-cp39-abi3-", package.name)
        python = self.install(package, "--no-index")
        self.assert_runs(python)
        says = "import importlib.metadata as m; print(m.version('tautwire'), m.requires('tautwire'))"
        self.assertEqual(self.run_in(python, "-c", says), f"{package.name.split('-')[1]} None\n")

    @slow
    def test_twine_accepts_both_distributions(self) -> None:
        twine = TARGET / "packaging-venv/bin/twine"
        said = self.run_in(twine, "check", "--strict", only("python/*.whl"), only("python/*.tar.gz"))
        self.assertEqual(said.count("PASSED"), 2, said)

    @slow
    def test_the_source_distribution_runs_in_an_empty_environment(self) -> None:
        # pip fetches maturin, and cargo the crates of the lock file.
        self.assert_runs(self.install(only("python/*.tar.gz")))

    @slow
    def test_the_build_is_reproducible(self) -> None:
        self.assert_same_again("python", wheel.build)


if __name__ == "__main__":
    unittest.main()
