"""Tests of the Go module: fetched by `go get` from the directory that a proxy would serve."""

import unittest

import go_module
import versions
from support import DIST, SAID, WithProject, broker

MODULE = go_module.MODULE


class Go(WithProject):
    def test_an_empty_project_gets_it_by_version(self) -> None:
        self.consumer("go")
        version = f"v{versions.read()['go']}"
        settings = {
            "GOPROXY": f"file://{DIST / 'go'}",
            "GOSUMDB": "off",
            "GOFLAGS": "-mod=mod -modcacherw",
            "GOMODCACHE": str(self.project / "cache"),
            "GOWORK": "off",
        }
        self.run_in("go", "mod", "init", "example.org/uses", **settings)
        self.run_in("go", "get", f"{MODULE}@{version}", **settings)
        self.assertEqual(self.run_in("go", "list", "-m", "-versions", MODULE, **settings), f"{MODULE} {version}\n")
        self.assertIn(f"{MODULE}@{version}", self.run_in("go", "list", "-m", MODULE, **settings).replace(" ", "@"))
        self.run_in("go", "mod", "verify", **settings)
        with broker() as address:
            self.assertEqual(self.run_in("go", "run", ".", address, **settings), SAID)
        installed = self.project / "cache" / f"{MODULE}@{version}"
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"]:
            self.assertTrue((installed / name).is_file(), name)
        self.assertFalse((installed / "bench").exists(), "the module of the benchmarks is a module of its own")

    def test_the_build_is_reproducible(self) -> None:
        self.assert_same_again("go", go_module.build)


if __name__ == "__main__":
    unittest.main()
