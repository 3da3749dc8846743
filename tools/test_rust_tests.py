"""Checks the order and the results of test programs, with shell scripts as programs and as cargo."""

import contextlib
import io
import json
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import rust_tests


class TestPrograms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def script(self, name, text):
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def artifact(self, name, text, is_test=True):
        return {
            "reason": "compiler-artifact", "manifest_path": str(self.root / "Cargo.toml"), "target": {"name": name},
            "profile": {"test": is_test}, "executable": self.script(name, text),
        }

    def main(self, *artifacts, status=0):
        messages = self.root / "messages"
        messages.write_text("".join(json.dumps(artifact) + "\n" for artifact in artifacts))
        said = io.StringIO()
        with unittest.mock.patch.object(rust_tests, "CARGO", self.script("cargo", f"cat {messages}; exit {status}")), contextlib.redirect_stdout(said):
            return rust_tests.main(["--workspace"]), said.getvalue()

    def test_all_programs_run_and_pass(self):
        status, said = self.main(self.artifact("one", f"touch {self.root}/ran-one"), self.artifact("two", f"touch {self.root}/ran-two"))
        self.assertEqual(status, 0, said)
        self.assertIn("2 programs, 0 failed", said)
        self.assertTrue((self.root / "ran-one").exists() and (self.root / "ran-two").exists())

    def test_a_failed_program_fails_the_run_and_its_output_is_shown(self):
        status, said = self.main(self.artifact("good", "echo quiet"), self.artifact("bad", "echo reason; echo detail >&2; exit 101"))
        self.assertEqual(status, 1)
        for part in ("bad: failed", "reason", "detail", "2 programs, 1 failed: "):
            self.assertIn(part, said)
        self.assertNotIn("quiet", said)

    def test_a_program_that_is_killed_has_failed(self):
        status, said = self.main(self.artifact("killed", "kill -9 $$"))
        self.assertEqual(status, 1)
        self.assertIn("1 programs, 1 failed", said)

    def test_code_that_does_not_compile_fails_the_run(self):
        with self.assertRaises(SystemExit) as ended:
            self.main(status=101)
        self.assertEqual(ended.exception.code, 101)

    def test_only_test_programs_run(self):
        status, said = self.main(self.artifact("binary", "exit 1", is_test=False), {"reason": "build-finished"})
        self.assertEqual(status, 0)
        self.assertIn("0 programs", said)

    def test_the_longest_programs_start_first(self):
        ranks = [rust_tests.Program("c", name, "", self.root).rank for name in ("conformance", "cli", "simulation", "other")]
        self.assertEqual(ranks, sorted(set(ranks)))

    def test_a_program_runs_in_the_folder_of_its_crate_and_knows_it(self):
        _, said = self.main(self.artifact("where", 'echo "in $(pwd -P), $CARGO_MANIFEST_DIR"; exit 1'))
        self.assertIn(f"in {self.root.resolve()}, {self.root}", said)

    def test_the_number_of_threads_can_be_set(self):
        program = rust_tests.Program("c", "threads", self.script("threads", "echo $RUST_TEST_THREADS"), self.root)
        with unittest.mock.patch.dict(os.environ, {"RUST_TEST_THREADS": "1"}):
            self.assertEqual(rust_tests.run(program).output.strip(), "1")
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("RUST_TEST_THREADS", None)
            self.assertEqual(rust_tests.run(program).output.strip(), rust_tests.DEFAULT_THREADS)

    def test_processor_time_is_that_of_the_program(self):
        program = rust_tests.Program("c", "busy", self.script("busy", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"), self.root)
        self.assertGreater(rust_tests.run(program).processor_seconds, 0)


if __name__ == "__main__":
    unittest.main()
