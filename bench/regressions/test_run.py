"""Tests the comparison with the baseline and the parser of callgrind files. Run: python -m unittest discover -s bench/regressions."""

import contextlib
import io
import unittest
import unittest.mock

import run

TOOLCHAIN = {"rustc": "rustc 1.90.0", "libc": "2.36"}
PROFILE = """version: 1
fn=(1) outer
3 10
cfn=(2) inner
calls=2 7
4 400
+1 5
fn=(2)
7 390
* 10
totals: 415
"""


def compare(expected: dict[str, float], measured: dict[str, float], toolchain: dict = TOOLCHAIN) -> tuple[int, str]:
    baseline = {"toolchain": TOOLCHAIN, "instructions_per_operation": expected}
    said = io.StringIO()
    with contextlib.redirect_stdout(said), unittest.mock.patch.object(run, "top_functions", return_value=[(7, "guilty")]), \
            unittest.mock.patch("pathlib.Path.read_text", return_value=""):
        status = run.compare(baseline, measured, toolchain)
    return status, said.getvalue()


class Comparison(unittest.TestCase):
    def test_three_percent_is_allowed_and_more_is_not(self) -> None:
        self.assertEqual(compare({"a": 1000.0}, {"a": 1030.0})[0], 0)
        status, said = compare({"a": 1000.0}, {"a": 1031.0})
        self.assertEqual(status, 1)
        self.assertIn("guilty", said)
        self.assertIn("make regressions-baseline", said)

    def test_one_more_instruction_is_no_regression(self) -> None:
        self.assertEqual(compare({"a": 20.0}, {"a": 21.0})[0], 0)
        self.assertEqual(compare({"a": 20.0}, {"a": 22.0})[0], 1)

    def test_another_toolchain_widens_the_margin_and_is_reported(self) -> None:
        status, said = compare({"a": 1000.0}, {"a": 1200.0}, {**TOOLCHAIN, "libc": "2.41"})
        self.assertEqual(status, 0)
        self.assertIn("libc: 2.41, in the baseline 2.36", said)
        self.assertEqual(compare({"a": 1000.0}, {"a": 1300.0}, {**TOOLCHAIN, "libc": "2.41"})[0], 1)

    def test_new_and_vanished_paths_need_a_new_baseline(self) -> None:
        self.assertEqual(compare({"a": 10.0}, {"a": 10.0, "b": 1.0})[0], 1)
        self.assertEqual(compare({"a": 10.0, "b": 1.0}, {"a": 10.0})[0], 1)

    def test_fewer_instructions_are_noted(self) -> None:
        status, said = compare({"a": 1000.0}, {"a": 900.0})
        self.assertEqual(status, 0)
        self.assertIn("fewer", said)


class Cluster(unittest.TestCase):
    def compare(self, without: dict[str, float], with_cluster: dict[str, float]) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), unittest.mock.patch.object(run, "top_functions", return_value=[(7, "guilty")]), \
                unittest.mock.patch("pathlib.Path.read_text", return_value=""):
            status = run.compare_cluster(without, with_cluster)
        return status, said.getvalue()

    def test_the_feature_can_cost_one_percent(self) -> None:
        self.assertEqual(self.compare({"a": 1000.0}, {"a": 1010.0})[0], 0)
        status, said = self.compare({"a": 1000.0, "b": 500.0}, {"a": 1011.0, "b": 500.0})
        self.assertEqual(status, 1)
        self.assertIn("guilty", said)
        self.assertIn("1 of 2 paths", said)


class Profile(unittest.TestCase):
    def test_a_function_counts_its_own_instructions(self) -> None:
        self.assertEqual(run.top_functions(PROFILE), [(400, "inner"), (15, "outer")])

    def test_processor_specific_symbol_names_are_recognized(self) -> None:
        found = run.CHOSEN_BY_PROCESSOR.findall("fn=(7) __memmove_avx_unaligned_erms\nfn=(8) memcpy\n")
        self.assertEqual(found, ["__memmove_avx_unaligned_erms"])


if __name__ == "__main__":
    unittest.main()
