"""Tests the report, and that it is not stale. Run: python -m unittest discover -s bench/report."""

import json
import re
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import compare
import figures
import libraries
import markdown
import metrics
import page
import picture
import report
import results

MACHINE = {"cpu_model": "Some CPU", "cores": 2, "virtualised": True, "memory_mib": 24105, "kernel": "6.1", "operating_system": "Some OS"}


def figure(median: float, spread: float = 0.01, rounds: int = 3) -> dict:
    return {"median": median, "min": median * (1 - spread), "max": median * (1 + spread), "spread_percent": 100 * spread, "rounds": rounds}


def result(name: str, summary: dict, **more: object) -> dict:
    return {
        "name": name, "title": f"about {name}", "definition_version": 1, "commit": "0123456789ab", "date": "2026-01-31T12:00:00Z",
        "quick": False, "rounds": 3, "mqtt_version": "3.1.1", "machine": MACHINE, "versions": {}, "left_out": {},
        "parameters": {"kind": "churn"}, "summary": summary, "checks": [], "verdict": "pass", "samples": [], **more,
    }


class Case(unittest.TestCase):
    def load(self, *found: dict) -> list[results.Result]:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "some-machine").mkdir()
        for one in found:
            (folder / "some-machine" / f"latest-{one['name']}.json").write_text(json.dumps(one))
        return results.load(folder)


class Loading(Case):
    def test_quick_and_old_results_are_excluded_and_others_are_ordered_by_number(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "m").mkdir()
        for file, name, quick in (("latest-b10", "b10", False), ("latest-b2", "b2", False), ("latest-b3", "b3", True), ("01ab_b4", "b4", False)):
            (folder / "m" / f"{file}.json").write_text(json.dumps(result(name, {}, quick=quick)))
        self.assertEqual([one.name for one in results.load(folder)], ["b2", "b10"])


class Behind(Case):
    def test_losses_to_peers_come_first_and_floors_are_not_peers(self) -> None:
        summary = {"free": {
            "tautwire": {"cycles_per_s": figure(100), "broker_cpu_us_per_cycle": figure(10)},
            "mosquitto": {"cycles_per_s": figure(150), "broker_cpu_us_per_cycle": figure(20)},
            "relay": {"cycles_per_s": figure(900), "broker_cpu_us_per_cycle": figure(1)},
        }}
        loaded = self.load(result("b6", summary))
        [case] = compare.behind(loaded)
        self.assertEqual((case.metric, case.by, case.factor, case.is_clear), ("cycles_per_s", "mosquitto", 1.5, True))
        html = page.render(loaded, [])
        self.assertLess(html.index("150/s"), html.index('id="glance"') if 'id="glance"' in html else html.index('id="scenarios"'))
        self.assertIn("150/s", markdown.section(loaded, []))

    def test_differences_within_the_spread_are_inconclusive(self) -> None:
        summary = {"free": {"tautwire": {"p50_us": figure(10, 0.2)}, "nats": {"p50_us": figure(9)}}}
        [case] = compare.behind(self.load(result("b1", summary)))
        self.assertFalse(case.is_clear)

    def test_in_memory_results_are_excluded_where_messages_are_on_disk(self) -> None:
        summary = {"free": {"tautwire": {"p50_us": figure(20)}, "tautwire-durable": {"p50_us": figure(100)}, "nats-durable": {"p50_us": figure(50)}}}
        loaded = self.load(result("d1-durable-latency", summary))
        [case] = compare.behind(loaded)
        self.assertEqual((case.ours.median, case.theirs.median, case.by), (100, 50, "nats-server, on disk"))
        self.assertEqual(compare.best_broker(loaded[0], "free", "p50_us"), "nats-durable")

    def test_single_node_results_are_excluded_where_peers_are_clusters(self) -> None:
        summary = {"free": {"tautwire": {"p50_us": figure(1)}, "tautwire-cluster": {"p50_us": figure(30)}, "nats-cluster": {"p50_us": figure(20)}}}
        [case] = compare.behind(self.load(result("c1-qos0-across", summary)))
        self.assertEqual((case.ours.median, case.by), (30, "nats-server, 3 nodes"))

    def test_figures_of_the_generator_are_not_compared(self) -> None:
        summary = {"free": {"tautwire": {"generator_cpu_us_per_cycle": figure(9)}, "nats": {"generator_cpu_us_per_cycle": figure(1)}}}
        self.assertEqual(compare.behind(self.load(result("b1", summary))), [])

    def test_a_faster_client_of_the_same_broker_is_named(self) -> None:
        summary = {"free": {"mosquitto": {"js_to_js_qos0_p50_us": figure(30), "js-mqttjs_to_js-mqttjs_qos0_p50_us": figure(20)}}}
        [case] = compare.behind(self.load(result("rtt-matrix", summary, parameters={"kind": "rtt-matrix"})))
        self.assertEqual(case.by, "js-mqttjs")

    def test_a_missed_threshold_is_reported(self) -> None:
        check = {"what": "tautwire: cycles at least 200", "measured": 100.0, "verdict": "fail"}
        self.assertIn("cycles at least 200", page.render(self.load(result("b6", {}, checks=[check])), []))


class Numbers(unittest.TestCase):
    def test_figures_have_units_and_three_digits(self) -> None:
        for metric, value, shown in (
            ("p50_us", 30.49, "30.5 µs"), ("p50_us", 44_123.4, "44.1 ms"), ("rss_at_start_bytes", 2_210_816, "2.21 MB"),
            ("bytes_per_connection", 316.4, "316 B"), ("bytes_per_connection", 33_123, "33.1 KB"), ("connects_per_s", 25_527.2, "25,500/s"),
            ("broker_cpu_s_per_million_deliveries", 0.07671, "0.0767 s"), ("ratio_to_raw_tcp", 0.8671, "0.87"),
            ("broker_cpu_us_per_cycle", 40.33, "40.3 µs"), ("bytes_per_connection@1000", 300, "300 B"),
            ("decode_cpu_ns", 999.7, "1,000 ns"), ("decode_cpu_ns", 268_123, "268 µs"), ("flood_messages_per_cpu_s", 6_550_800, "6,550,000/s"),
            ("encode_vs_json_ratio", 4.014, "4.01"), ("read_allocations", 0, "0"),
        ):
            self.assertEqual(metrics.show(metric, value), shown)

    def test_the_better_direction_depends_on_the_unit(self) -> None:
        for metric, direction in (
            ("p99_us@1000", metrics.LOWER), ("bytes_per_connection", metrics.LOWER), ("connects_per_s", metrics.HIGHER),
            ("ratio_to_raw_tcp", metrics.HIGHER), ("busy_cores", metrics.NEITHER), ("connections", metrics.NEITHER),
            ("broker_cpu_s_per_million_deliveries", metrics.LOWER), ("raw_tcp_p50_us", metrics.NEITHER),
            ("flood_messages_per_cpu_s", metrics.HIGHER), ("decode_cpu_ns", metrics.LOWER), ("read_allocations", metrics.LOWER),
            ("p50_times_fdatasync", metrics.LOWER), ("directory_times_live", metrics.LOWER), ("fdatasync_p50_us", metrics.NEITHER),
            ("live_bytes", metrics.NEITHER), ("recovered_rss_bytes", metrics.LOWER), ("ready_s", metrics.LOWER),
            ("encode_vs_json_ratio", metrics.HIGHER), ("decode_millions_cpu_s", metrics.LOWER),
        ):
            self.assertEqual(metrics.better(metric), direction, metric)


class Page(Case):
    def test_every_figure_links_to_its_file_and_no_resource_is_external(self) -> None:
        summary = {"free": {who: {f"bytes_per_connection@{step}": figure(value * step / 100) for step in (100, 1000)} | {"p50_us": figure(value)}
                            for who, value in (("tautwire", 10), ("mosquitto", 20))}}
        histogram = {"count": 100, "max_ns": 9000, "values_ns": [1000, 2000, 9000], "counts": [60, 38, 2]}
        loaded = self.load(result("b9", summary, curve={"parameter": "connections", "steps": [100, 1000]},
                                  histograms={"free": {"tautwire": {"latency": histogram}}}))
        html = page.render(loaded, [])
        self.assertGreaterEqual(html.count('href="../results/some-machine/latest-b9.json"'), 6)
        self.assertEqual(re.findall(r'(?:src|href)="(?:https?:)?//', html), [])
        self.assertEqual(html.count("<svg"), 3)
        self.assertIn("2026-01-31", html)
        self.assertIn("Some CPU, 2 cores", html)

    def test_the_last_step_of_a_curve_is_where_the_machine_was_saturated(self) -> None:
        summary = {"free": {"tautwire": {"p50_us@10": figure(1), "p50_us@most": figure(3), "connections@most": figure(70)}}}
        [loaded] = self.load(result("b9", summary, curve={"parameter": "connections", "steps": [10, 0]}))
        self.assertEqual(page._points(loaded, "free", "tautwire", "p50_us"), [(10.0, 1), (70.0, 3)])

    def test_a_metric_that_is_always_zero_has_no_curve(self) -> None:
        summary = {"free": {"tautwire": {"memory_held_away_bytes@100": figure(0), "memory_held_away_bytes@1000": figure(0)}}}
        loaded = self.load(result("c3", summary, curve={"parameter": "connections", "steps": [100, 1000]}))
        self.assertNotIn("<svg", page.render(loaded, []))

    def test_a_percentile_curve_ends_where_measurements_do(self) -> None:
        histogram = {"count": 100, "max_ns": 9000, "values_ns": [1000, 9000], "counts": [99, 1]}
        points = figures._percentile_curve(histogram)
        self.assertEqual(points[0], (2.0, 1.0))
        self.assertLessEqual(points[-1][0], 101)


class Words(Case):
    def test_steps_of_a_curve_say_what_they_count(self) -> None:
        self.assertEqual(metrics.label("max_us@1024", "payload_bytes"), "longest latency with payloads of 1,024 bytes")
        self.assertEqual(metrics.label("connects_per_s@most", "connections"), "connections opened per second with the most connections")
        self.assertEqual(metrics.label("max_us@7"), "longest latency, 7")
        self.assertEqual(
            metrics.label("probe_p999_us@1000", "connections"),
            "99.9th percentile of the latency of two clients that are busy beside the others with 1,000 connections",
        )

    def test_the_readme_names_scenarios_once_and_counts_the_omitted_ones(self) -> None:
        summary = {placement: {who: {f"bytes_per_connection@{step}": figure(value) for step in (100, 1000)}
                               for who, value in (("tautwire", 20), ("mosquitto", 10))} for placement in ("free", "broker=0,generator=1")}
        loaded = self.load(result("b9-connections", summary, curve={"parameter": "connections", "steps": [100, 1000]}))
        text = markdown.section(loaded, [])
        self.assertEqual(text.count("| many idle connections: "), 1)
        self.assertIn("The report lists 3 more", text)
        self.assertNotIn("generator=1", text + markdown.summary(loaded, []))


    def test_the_readme_begins_with_the_most_important_of_few_rows(self) -> None:
        def behind(name: str, metric: str, theirs: float) -> dict:
            return result(name, {"free": {"tautwire": {metric: figure(100)}, "mosquitto": {metric: figure(theirs)}}})

        others = [behind(f"b1-other-{at}", "p99_us", 1) for at in range(markdown.README_BEHIND_MAX)]
        loaded = self.load(*others, behind("d1-durable-latency", "p50_us", 90), behind("c7-kills", "broker_killed_own_p50_us", 90))
        rows = [line for line in markdown.section(loaded, []).splitlines() if "latest-" in line]
        self.assertEqual(len(rows), markdown.README_BEHIND_MAX)
        self.assertIn("latest-c7-kills", rows[0])
        self.assertIn("latest-d1-durable-latency", rows[1])


class Picture(Case):
    def results(self, *, without: str = "") -> list[results.Result]:
        def flood(publishers: int, subscribers: int, qos: int) -> dict:
            parameters = {"kind": "flood", "publishers": publishers, "subscribers": subscribers, "pairs": 0, "qos": qos, "payload_bytes": 16}
            summary = {"free": {who: {"broker_cpu_s_per_million_deliveries": figure(value)} for who, value in (("tautwire", 0.5), ("<peer>", 20), ("relay", 0.1))}}
            return result(f"b8-{publishers}-{subscribers}-{qos}", summary, parameters=parameters, versions={"<peer>": "peer version 1.2.3"})

        def idle(subscribe: bool) -> dict:
            summary = {"free": {who: {"bytes_per_connection@10000": figure(value)} for who, value in (("tautwire", 300), ("mosquitto", 30_000))}}
            return result(f"b9-{subscribe}", summary, parameters={"kind": "idle", "subscribe": subscribe}, curve={"parameter": "connections", "steps": [10000]})

        made = [flood(1, 1, 0), flood(1, 1, 1), flood(1, 1, 2), flood(1, 100, 0), idle(False), idle(True)]
        return self.load(*(one for one in made if one["name"] != without))

    def test_the_picture_is_well_formed_small_and_self_contained(self) -> None:
        made = picture.render(self.results())
        root = xml.etree.ElementTree.fromstring(made)
        names = [element.tag.rpartition("}")[2] for element in root.iter()]
        self.assertEqual(names[:3], ["svg", "title", "desc"])
        self.assertEqual(set(names), {"svg", "title", "desc", "style", "rect", "text"})
        self.assertNotIn("url(", made)
        self.assertEqual(made, picture.render(self.results()))
        self.assertLess(len(made.encode()), 15_000)

    def test_tautwire_is_highlighted_values_have_units_and_floors_are_omitted(self) -> None:
        made = picture.render(self.results())
        self.assertEqual(made.count('<rect class="ours"'), 6)
        for words in ("0.5 µs", "20 µs", "300 B", "30 KB", "&lt;peer&gt; 1.2.3", "lower is better"):
            self.assertIn(words, made)
        self.assertNotIn("relay", made)

    def test_without_results_there_is_no_picture(self) -> None:
        self.assertIsNone(picture.render(self.results(without="b8-1-1-2")))


class Readme(unittest.TestCase):
    def test_only_the_section_between_the_markers_is_rewritten(self) -> None:
        text = f"before\n{markdown.BEGIN}\nold \\1\n{markdown.END}\nafter\n"
        made = f"{markdown.BEGIN}\nnew \\2\n{markdown.END}"
        self.assertEqual(markdown.into_readme(text, made), f"before\n{made}\nafter\n")
        self.assertIsNone(markdown.into_readme("no markers", made))


class Committed(unittest.TestCase):
    def test_the_committed_report_matches_the_results(self) -> None:
        for path, text in report.documents().items():
            self.assertTrue(path.exists() and path.read_text() == text, f"{path.name} is stale: run `make bench-report`")

    def test_the_picture_is_drawn_and_shown(self) -> None:
        self.assertIn(report.PICTURE, report.documents())
        self.assertLess(len(report.PICTURE.read_bytes()), 15_000)
        self.assertIn(f"]({report.PICTURE.relative_to(results.ROOT).as_posix()})", report.README.read_text())

    def test_the_readme_has_the_markers(self) -> None:
        self.assertIn(report.README, report.documents())


class Libraries(Case):
    def rows(self, summary: dict) -> list[libraries.Row]:
        parameters = {"kind": "library", "language": "Rust", "part": "codec"}
        self.loaded = self.load(result("codec-rust", {"free": summary}, parameters=parameters, left_out={"other": "it is not installed"}))
        return libraries.rows(self.loaded)

    def test_tautwire_is_compared_with_the_best_peer_in_either_direction(self) -> None:
        [cost, rate] = self.rows({
            "tautwire": {"decode_cpu_ns": figure(5), "flood_messages_per_cpu_s": figure(300)},
            "tautwire (owned)": {"decode_cpu_ns": figure(1)},
            "slow": {"decode_cpu_ns": figure(50), "flood_messages_per_cpu_s": figure(50)},
            "fast": {"decode_cpu_ns": figure(20), "flood_messages_per_cpu_s": figure(100)},
            "raw": {"decode_cpu_ns": figure(1)},
        })
        self.assertEqual((cost.ours, cost.peer, cost.factor, cost.what), (5, "fast", 4.0, "codec, decode: CPU"))
        self.assertEqual((rate.ours, rate.peer, rate.factor), (300, "fast", 3.0))

    def test_a_tautwire_variant_is_used_alone_and_ratios_are_finite(self) -> None:
        [row] = self.rows({"tautwire-reader": {"read_allocations": figure(0)}, "natiu": {"read_allocations": figure(4)}})
        self.assertEqual((row.ours, row.factor_shown), (0, "∞"))

    def test_libraries_are_not_scenarios_and_omissions_are_reported(self) -> None:
        rows = self.rows({"tautwire": {"decode_cpu_ns": figure(30)}, "fast": {"decode_cpu_ns": figure(20)}})
        html = page.render(self.loaded, rows)
        self.assertEqual(compare.behind(self.loaded), [])
        self.assertNotIn('id="some-machine-codec-rust"', html)
        self.assertIn("codec-rust: other: it is not installed", html)
        self.assertIn("| Rust: codec, decode: CPU |", markdown.section(self.loaded, rows))


if __name__ == "__main__":
    unittest.main()
