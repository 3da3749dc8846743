"""Tests of the session of a page."""

import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from session import Failure, Session

ROOT = Path(__file__).resolve().parents[2]


class Commands(unittest.TestCase):
    def setUp(self) -> None:
        self.place = TemporaryDirectory()
        folder = Path(self.place.name) / "work"
        folder.mkdir()
        self.session = Session(folder, ROOT / "bin/tautwire")

    def tearDown(self) -> None:
        self.session.close()
        self.place.cleanup()

    def test_each_command_must_succeed(self) -> None:
        self.session.run("true\necho done\n", 0)
        with self.assertRaisesRegex(Failure, "false"):
            self.session.run("false\necho done\n", 0)

    def test_a_condition_can_fail(self) -> None:
        self.session.run("! false\nif false; then true; fi\nfalse || true\n", 0)

    def test_the_last_command_exits_with_the_given_code(self) -> None:
        self.session.run("(exit 3)\n", 3)
        for commands in ("true\n", "(exit 2)\n"):
            with self.assertRaisesRegex(Failure, "instead of 3"):
                self.session.run(commands, 3)

    def test_any_command_can_fail_if_the_page_allows_it(self) -> None:
        self.session.run("false\n(exit 2)\n", None)

    def test_blocks_share_a_shell(self) -> None:
        self.session.run("name=value\nmkdir inside\ncd inside\n", 0)
        self.session.run('echo "$name in $(basename "$PWD")"\n', 0)
        self.session.prints("value in inside\n")

    def test_lines_are_awaited_and_counted(self) -> None:
        self.session.run("(until [ -e go ]; do :; done; echo late) &\necho once; echo 'at 12:30'\ntouch go\n", 0)
        self.session.prints("late\nonce\nat …\n")
        with self.assertRaisesRegex(Failure, "not printed: 'once'"):
            self.session.prints("once\nonce\n", timeout_s=0.1)

    def test_only_the_output_of_the_last_block_counts(self) -> None:
        self.session.run("echo before\n", 0)
        self.session.run("echo now\n", 0)
        with self.assertRaises(Failure):
            self.session.prints("before\n", timeout_s=0.1)

    def test_the_end_of_a_shell_is_detected(self) -> None:
        with self.assertRaisesRegex(Failure, "has ended"):
            self.session.run("exit 0\n", 0)


if __name__ == "__main__":
    unittest.main()
