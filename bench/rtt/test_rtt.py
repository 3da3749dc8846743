"""Tests the summary of times and the handling of drivers. Run: python -m unittest discover -s bench/rtt."""

import sys
import unittest

import machine
import summary
from drivers import DriverError, running
from summary import Cell

ANSWERS = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    server, count, _ = line.split()
    if server == "gone":
        sys.exit("the connection is over")
    print(*[1000] * int(count), flush=True)
"""


class Figures(unittest.TestCase):
    def test_percentiles_are_measured_times(self) -> None:
        figures = summary.of_times([1000 * (n + 1) for n in range(100)])
        self.assertEqual(figures["p50_us"], 50)
        self.assertEqual(figures["p99_us"], 99)
        self.assertEqual(figures["p999_us"], 100)
        self.assertAlmostEqual(figures[summary.RATE], 1e9 / 50_500, 2)

    def test_a_histogram_is_accurate_within_one_percent(self) -> None:
        made = summary.histogram([10_000, 10_000, 55_555, 1_000_000])
        self.assertEqual((made["count"], made["max_ns"], sum(made["counts"])), (4, 1_000_000, 4))
        self.assertEqual(made["counts"], [2, 1, 1])
        for value, time in zip(made["values_ns"], (10_000, 55_555, 1_000_000), strict=True):
            self.assertTrue(time * 0.999 <= value <= time * 1.011, (value, time))

    def test_ratios_compare_with_the_floor_of_the_same_language_and_round(self) -> None:
        figures = {
            Cell("raw", "c", "tcp", 0): summary.of_times([10_000]),
            Cell("raw", "c", "relay", 0): summary.of_times([24_000]),
            Cell("tautwire", "c", "c", 0): summary.of_times([25_000]),
            Cell("tautwire", "js", "js", 0): summary.of_times([50_000]),
            Cell("mosquitto", "js-mqttjs", "js-mqttjs", 0): summary.of_times([200_000]),
        }
        metrics = summary.of_round(figures)
        self.assertEqual(metrics["tautwire"]["c_to_c_qos0_ratio_to_raw_tcp"], 0.4)
        self.assertEqual(metrics["raw"]["c_relay_beside_qos0_ratio_to_raw_tcp"], 0.4167)
        self.assertNotIn("c_tcp_beside_qos0_ratio_to_raw_tcp", metrics["raw"])
        self.assertEqual(metrics["tautwire"][summary.MQTTJS], 4.0)
        self.assertNotIn("js_to_js_qos0_ratio_to_raw_tcp", metrics["tautwire"])

    def test_a_delaying_client_is_compared_with_and_without_nodelay(self) -> None:
        figures = {
            Cell("tautwire", "c-paho", "c-paho", 1): summary.of_times([30_000]),
            Cell("tautwire", "c-paho-nodelay", "c-paho-nodelay", 1): summary.of_times([24_000]),
            Cell("mosquitto", "c-paho", "c-paho", 1): summary.of_times([44_000_000]),
            Cell("tautwire", "java-nagle", "java-nagle", 2): summary.of_times([90_000]),
        }
        metrics = summary.of_round(figures)
        self.assertEqual(metrics["tautwire"]["c-paho_to_c-paho_qos1_ratio_to_nodelay"], 0.8)
        self.assertNotIn("c-paho_to_c-paho_qos1_ratio_to_nodelay", metrics["mosquitto"])
        self.assertNotIn("java-nagle_to_java-nagle_qos2_ratio_to_nodelay", metrics["tautwire"])
        samples = [{"broker": "tautwire", "placement": "free", "exact": True, "metrics": metrics["tautwire"]}]
        found = {check["threshold"]["metric"]: check["verdict"] for check in summary.checks(summary.summarise(samples), "free", samples)[:-1]}
        self.assertEqual(found["c-paho_to_c-paho_qos1_ratio_to_nodelay"], "pass")
        self.assertEqual(found["java-nagle_to_java-nagle_qos2_ratio_to_nodelay"], "not_measured")

    def test_bars_pass_fail_or_have_no_result(self) -> None:
        samples = [
            {"broker": "tautwire", "placement": "free", "exact": True, "metrics": {"c_to_c_qos0_ratio_to_raw_tcp": ratio}}
            for ratio in (0.40, 0.43, 0.45)
        ]
        found = summary.checks(summary.summarise(samples), "free", samples)
        self.assertEqual([check["verdict"] for check in found[:2]], ["pass", "not_measured"])
        self.assertEqual(summary.verdict(found), "not_measured")
        samples[1]["metrics"]["c_to_c_qos0_ratio_to_raw_tcp"] = 0.41
        samples[2]["exact"] = False
        found = summary.checks(summary.summarise(samples), "free", samples)
        self.assertEqual([found[0]["verdict"], found[-1]["verdict"]], ["fail", "fail"])
        self.assertEqual(summary.verdict(found), "fail")


class Drivers(unittest.TestCase):
    def test_a_driver_responds_until_it_exits_and_then_reports_why(self) -> None:
        with running({("good",): (sys.executable, "-c", ANSWERS), ("bad",): (sys.executable, "-c", "raise SystemExit('no broker')")}) as drivers:
            self.assertEqual(drivers["good",].ask("c", 3, 1000), [1000, 1000, 1000])
            self.assertIn("no broker", drivers["bad",].failure or "")
            with self.assertRaisesRegex(DriverError, "the connection is over"):
                drivers["good",].ask("gone", 3, 1000)
            with self.assertRaisesRegex(DriverError, "the connection is over"):
                drivers["good",].ask("c", 3, 1000)


class Machine(unittest.TestCase):
    def test_the_directory_matches_that_of_the_load_generator(self) -> None:
        described = {"cpu_model": "AMD EPYC (TM) 9B14 @ 2.6GHz", "cores": 2, "memory_mib": 24_000}
        self.assertEqual(machine.slug(described), "amd-epyc-tm-9b14-2-6ghz-2c-24g")


if __name__ == "__main__":
    unittest.main()
