"""Checks that each changed file leads to the checks of its crate or package."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import check

CRATES = {"broker/engine": "tautwire-engine", "broker/server": "tautwire-server", "clients/rust": "tautwire-client"}


def steps(*files):
    return {step.name: step for step in check.steps(list(files), CRATES)}


class Steps(unittest.TestCase):
    def test_without_a_change_only_the_rules_of_the_repository_are_checked(self):
        self.assertEqual(list(steps()), ["tidy"])

    def test_a_crate_of_the_broker_is_tested_with_the_server(self):
        found = steps("broker/engine/src/lib.rs")
        self.assertEqual(list(found), ["tidy", "Rust: format", "Rust: clippy", "Rust: tests"])
        self.assertNotIn("tautwire-server", found["Rust: clippy"].command)
        self.assertEqual(found["Rust: tests"].command[-4:], ["-p", "tautwire-engine", "-p", "tautwire-server"])

    def test_the_server_is_named_once(self):
        command = steps("broker/server/src/main.rs")["Rust: tests"].command
        self.assertEqual(command.count("tautwire-server"), 1)

    def test_the_rust_client_is_tested_without_the_server(self):
        self.assertEqual(steps("clients/rust/src/lib.rs")["Rust: tests"].command[-2:], ["-p", "tautwire-client"])

    def test_a_change_of_the_workspace_concerns_all_crates(self):
        for file in ("Cargo.toml", "Cargo.lock"):
            self.assertEqual(check.changed_crates([file], CRATES), ["tautwire-client", "tautwire-engine", "tautwire-server"])

    def test_a_folder_that_begins_like_a_crate_is_not_the_crate(self):
        self.assertEqual(check.changed_crates(["broker/engine-notes/a.rs"], CRATES), [])

    def test_only_the_changed_package_of_typescript_is_tested(self):
        found = steps("clients/typescript/packages/msgpack/src/index.ts")
        self.assertEqual(list(found), ["tidy", "TypeScript: build", "TypeScript: lint", "TypeScript: packages/msgpack"])
        self.assertEqual(found["TypeScript: lint"].command[-1], "packages/msgpack")

    def test_a_package_without_tests_passes(self):
        self.assertIn("--if-present", steps("clients/typescript/packages/mqtt-packet/package.json")["TypeScript: packages/mqtt-packet"].command)

    def test_a_file_beside_the_packages_of_typescript_lints_all(self):
        self.assertEqual(steps("clients/typescript/eslint.config.js")["TypeScript: lint"].command[-1], ".")

    def test_each_client_has_its_own_checks(self):
        self.assertEqual(list(steps("clients/go/client.go")), ["tidy", "Go: format", "Go: vet", "Go: tests"])
        self.assertEqual(list(steps("clients/c/src/tautwire.c")), ["tidy", "C"])
        self.assertEqual(list(steps("clients/python/tautwire/client.py")), ["tidy", "Python"])

    def test_other_folders_have_their_checks(self):
        self.assertIn("dashboard: lint", steps("broker/dashboard/src/main.ts"))
        self.assertIn("spec and tools", steps("tools/check.py"))
        self.assertIn("spec and tools", steps("spec/errors/errors.toml"))

    def test_go_code_that_is_not_formatted_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            for code, is_formatted in (("package p\n", True), ("package  p\n", False)):
                Path(folder, "p.go").write_text(code)
                done = subprocess.run(["sh", "-c", check.GO_FORMAT], cwd=folder, capture_output=True, text=True)
                self.assertEqual((done.returncode == 0, "p.go" in done.stdout), (is_formatted, not is_formatted))


class Changed(unittest.TestCase):
    def test_files_that_were_changed_deleted_moved_or_added_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)

            def git(*arguments):
                identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
                subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)

            git("init")
            for name in ("same", "edited", "deleted"):
                (root / name).write_text("1")
            (root / ".gitignore").write_text("ignored\n")
            git("add", ".")
            git("commit", "--message", "first")
            (root / "edited").write_text("2")
            (root / "deleted").unlink()
            (root / "new").write_text("1")
            (root / "ignored").write_text("1")
            # In a commit, git would call the two a rename.
            self.assertEqual(check.changed("HEAD", root), ["deleted", "edited", "new"])
            git("add", ".")
            git("commit", "--message", "second")
            self.assertEqual(check.changed("HEAD", root), [])
            self.assertEqual(check.changed("HEAD~1", root), ["deleted", "edited", "new"])


if __name__ == "__main__":
    unittest.main()
