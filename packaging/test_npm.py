"""Tests of the npm tarballs: installed into an empty project."""

import json
import unittest

import npm
from support import DIST, ROOT, SAID, WithProject, broker, slow

TOOLS = ROOT / "packaging/npm-tools/node_modules"


class Npm(WithProject):
    def install(self, kind: str) -> None:
        self.consumer("npm")
        (self.project / "package.json").write_text(json.dumps({"name": "uses", "private": True, "type": kind}))
        tarballs = sorted((DIST / "npm").glob("*.tgz"))
        self.assertEqual(len(tarballs), 4, "`make packages` builds them")
        self.run_in("npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", *tarballs)

    def test_a_program_runs_as_a_module_and_as_common_js(self) -> None:
        self.install("module")
        with broker() as address:
            self.assertEqual(self.run_in("node", "uses.mjs", address), SAID)
            self.assertEqual(self.run_in("node", "uses.cjs", address), SAID)

    def test_each_package_has_its_metadata_and_documents(self) -> None:
        self.install("module")
        for folder in sorted((self.project / "node_modules/@tautwire").iterdir()):
            with self.subTest(folder.name):
                for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]:
                    self.assertTrue((folder / name).is_file(), name)
                manifest = json.loads((folder / "package.json").read_text())
                self.assertEqual(manifest["repository"]["directory"], f"clients/typescript/packages/{folder.name}")
                self.assertEqual(manifest["publishConfig"], {"access": "public", "provenance": True})
                for script in folder.glob("dist/*/*.js"):
                    source_map = json.loads(script.with_suffix(".js.map").read_text())
                    self.assertTrue(all(source_map["sourcesContent"]), script)

    def test_types_compile_with_the_oldest_and_newest_typescript(self) -> None:
        self.compile_all({"module": [("oldest", "node16"), ("newest", "node16"), ("newest", "bundler")]})

    @slow
    def test_types_compile_with_all_module_resolutions(self) -> None:
        # The newest version no longer supports node10.
        common_js = [("oldest", "node16"), ("oldest", "node10"), ("newest", "node16")]
        self.compile_all({"module": [("oldest", "bundler")], "commonjs": common_js})

    def compile_all(self, ways: dict[str, list[tuple[str, str]]]) -> None:
        for kind, pairs in ways.items():
            self.install(kind)
            for age, resolution in pairs:
                with self.subTest(age, resolution=resolution, kind=kind):
                    self.compile(age, resolution)

    def compile(self, age: str, resolution: str) -> None:
        module = {"node16": "node16", "bundler": "esnext", "node10": "commonjs"}[resolution]
        options = {"strict": True, "noEmit": True, "target": "es2022", "module": module, "moduleResolution": resolution}
        types = self.project / "node_modules/@types/node"
        types.parent.mkdir(exist_ok=True)
        types.unlink(missing_ok=True)
        types.symlink_to(TOOLS / f"node-types-{age}")
        options |= {"lib": ["es2022", "dom"], "types": ["node"]}
        (self.project / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["types.ts"]}))
        self.run_in("node", TOOLS / f"typescript-{age}/bin/tsc", "-p", ".")

    def test_attw_and_publint_report_nothing(self) -> None:
        for tarball in sorted((DIST / "npm").glob("*.tgz")):
            with self.subTest(tarball.name):
                self.run_in("node", TOOLS / ".bin/attw", tarball, "--no-emoji")
                self.run_in("node", TOOLS / ".bin/publint", "--strict", tarball)

    @slow
    def test_the_build_is_reproducible(self) -> None:
        self.assert_same_again("npm", npm.build)


if __name__ == "__main__":
    unittest.main()
