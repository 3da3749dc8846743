"""Tests the conversion of the native programs' output to results in the common format. Run: python -m unittest discover -s bench/codecs."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import forms
import native
import run
import thresholds
from forms import Measured

SCHEMA = json.loads((native.ROOT / "bench" / "schema" / "result.json").read_text())

GO = """goos: linux
BenchmarkPackets/publish/read/lib=tautwire 9 70.0 ns/op 75.00 cpu-ns/op 192 B/op 1 allocs/op
BenchmarkPackets/publish/read/lib=tautwire-reader 9 16.0 ns/op 17.00 cpu-ns/op 0 B/op 0 allocs/op
BenchmarkPackets/publish/read/lib=natiu-3.1.1 9 60.0 ns/op 64.00 cpu-ns/op 6 B/op 4 allocs/op
BenchmarkPackets/publish/read/lib=gregoryv 9 500 ns/op 510.0 cpu-ns/op 722 B/op 17 allocs/op
PASS
BenchmarkPackets/publish/read/lib=tautwire 9 71.0 ns/op 77.00 cpu-ns/op 192 B/op 1 allocs/op
"""


def js_codec_run(factor: float) -> dict:
    return {
        "decode": {"publish 2 KB": 50 * factor, "auth": 10 * factor}, "encode": {"auth": 20 * factor},
        "encodeInto": {"auth": 10} if factor == 1 else {},
        "stream": {"50 topics, v5, 16 B, full": 30 * factor, **({"50 topics, v5, 16 B, lazy with topic": 15} if factor == 1 else {})},
    }


def msgpack_row(name: str, kind: str, ns: float, exact: bool = True) -> dict:
    return {"set": name, "kind": kind, "bytes": 45, "exact": exact, "ns": ns}


def violations(value: object, schema: dict, at: str = "result") -> list[str]:
    """Validates the part of JSON Schema that a result needs: required members, no others, types, enumerations."""
    if "$ref" in schema:
        return violations(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], at)
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value}"]
    if "type" in schema and not isinstance(value, types[schema["type"]]):
        return [f"{at}: {value!r} is no {schema['type']}"]
    found = []
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, member in value.items():
            if name in properties or isinstance(others, dict):
                found += violations(member, properties.get(name, others), f"{at}.{name}")
            elif others is False:
                found.append(f"{at}: {name} is unknown")
    if isinstance(value, list) and "items" in schema:
        found += [wrong for member in value for wrong in violations(member, schema["items"], f"{at}[]")]
    return found


class Forms(unittest.TestCase):
    def test_rust_cases(self) -> None:
        data = {"versions": {"mqttbytes": "0.6.0"}, "results": [
            {"case": "decode_puback", "library": "tautwire", "ns_per_op": [5.0, 6.0], "median": 5.5},
            {"case": "decode_puback", "library": "mqttbytes", "ns_per_op": [10.0, 11.0], "median": 10.5},
        ]}
        measured = forms.rust_cases(data)
        self.assertEqual(measured.rounds[1], {"tautwire": {"decode_puback_cpu_ns": 6.0}, "mqttbytes": {"decode_puback_cpu_ns": 11.0}})

    def test_python_client_results_have_the_rates_of_each_round(self) -> None:
        task = {"messages": 500, "rates": {"tautwire": [30.0, 33.0], "aiomqtt": [10.0, 11.0]}}
        measured = forms.python_client({"versions": {"aiomqtt": "2"}, "tasks": {"trips": task, "flood": task}})
        self.assertEqual(measured.rounds[1]["aiomqtt"], {"round_trips_qos1_per_s": 11.0, "flood_qos1_messages_per_s": 11.0})
        self.assertEqual(measured.parameters, {"trips_messages": 500, "flood_messages": 500})

    def test_an_unfinished_rust_client_is_an_error_of_its_round(self) -> None:
        sample = {"cpu_s": 0.1, "elapsed_s": 0.5, "p50_us": 0.0}
        result = {"scenario": "flood-qos0-v3", "library": "rumqttc", "messages": 1000, "samples": [None, sample]}
        measured = forms.rust_client({"versions": {}, "results": [result]})
        rates = {"flood_qos0_v3_messages_per_cpu_s": 10_000, "flood_qos0_v3_messages_per_s": 2000}
        self.assertEqual(measured.rounds, [{"rumqttc": {}}, {"rumqttc": rates}])
        self.assertEqual(list(measured.errors), [(0, "rumqttc")])

    def test_go_results_have_allocations_and_group_libraries_with_views(self) -> None:
        first, second = forms.go_codec(GO).rounds
        self.assertEqual(first["tautwire"], {"read_publish_cpu_ns": 75, "read_publish_allocated_bytes": 192, "read_publish_allocations": 1})
        self.assertEqual(set(first["natiu-3.1.1"]), {f"read_views_publish_{unit}" for unit in ("cpu_ns", "allocated_bytes", "allocations")})
        self.assertEqual(first["tautwire-reader"]["read_views_publish_cpu_ns"], first["tautwire-reader"]["read_publish_cpu_ns"])
        self.assertEqual(second["tautwire"]["read_publish_cpu_ns"], 77)

    def test_c(self) -> None:
        codec = forms.c_codec({"topic_bytes": 20, "payload_bytes": 64, "times": 10, "ns": {"encode_publish": [3.5, 3.6]}})
        self.assertEqual(codec.rounds, [{"tautwire": {"encode_publish_cpu_ns": 3.5}}, {"tautwire": {"encode_publish_cpu_ns": 3.6}}])
        trips = {"qos0": {"tautwire": [{"wall_ns": 20_000, "cpu_ns": 5000}], "paho": [None]}}
        client = forms.c_client({"payload_bytes": 64, "round_trips": 10, "samples": trips})
        self.assertEqual(client.rounds[0]["tautwire"], {"round_trips_qos0_per_s": 50_000, "round_trip_qos0_cpu_us": 5.0})
        self.assertIn((0, "paho"), client.errors)

    def test_typescript_codec_ratios_are_per_round(self) -> None:
        millions = {way: {name: {"cpu_s": 0.5, "max_rss_mb": 50.0} for name in ("tautwire", "mqtt-packet")} for way in ("decode", "encode")}
        data = {"versions": {}, "samples": 7, "packets_of_long_runs": 10, "millions": millions,
                "runs": {"tautwire": [js_codec_run(1)], "mqtt-packet": [js_codec_run(20)]}}
        ours = forms.js_codec(data).rounds[0]["tautwire"]
        self.assertEqual(ours["decode_publish_2_kb_cpu_ns"], 50)
        self.assertEqual((ours["decode_vs_mqtt_packet_ratio"], ours["encode_into_vs_mqtt_packet_ratio"]), (20, 40))
        self.assertEqual(ours["decode_publish_2_kb_vs_mqtt_packet_ratio"], 20)
        self.assertEqual(ours["stream_lazy_with_topic_vs_mqtt_packet_ratio"], 40)
        self.assertEqual(ours["decode_millions_max_rss_bytes"], 50 * 2**20)

    def test_messagepack_is_compared_with_json_and_a_changed_value_is_an_error(self) -> None:
        runs = {"JSON": [[msgpack_row("a", "encode", 400), msgpack_row("a", "decode", 100), msgpack_row("random keys", "decode", 1)]],
                "tautwire": [[msgpack_row("a", "encode", 100), msgpack_row("a", "decode", 50, exact=False),
                              msgpack_row("random keys", "decode", 9)]]}
        measured = forms.js_msgpack({"versions": {}, "runs": runs})
        ours = measured.rounds[0]["tautwire"]
        self.assertEqual((ours["encode_vs_json_ratio"], ours["decode_a_vs_json_ratio"], ours["encoded_a_bytes"]), (4, 2, 45))
        self.assertEqual(measured.errors, {(0, "tautwire"): ["a comes back changed"]})

    def test_typescript_client(self) -> None:
        def sample(cpu_s: float) -> dict:
            return {"cpu_s": cpu_s, "wall_s": 1.0, "count": 1000, "rss_mb": 1}

        runs = {"publishAwaited": {"tautwire v4": [sample(0.1)]}, "receive": {"mqttjs v5": [sample(0.5)]},
                "pingSelf": {"tautwire v5": [sample(0.1)], "raw": [{"cpu_s": 0.1, "wall_s": 0.8, "count": 1000}]}}
        [libraries] = forms.js_client({"versions": {}, "messages": 1, "round_trips": 1, "payload_bytes": 16, "runs": runs}).rounds
        self.assertEqual(libraries["tautwire"]["publish_awaited_v3_1_1_messages_per_cpu_s"], 10_000)
        self.assertEqual(libraries["tautwire"]["ping_self_v5_ratio_to_raw_tcp"], 0.8)
        self.assertEqual(libraries["MQTT.js"]["iterate_v5_messages_per_cpu_s"], 2000)
        self.assertEqual(libraries["raw"], {"ping_self_round_trips_per_s": 1250})


class Thresholds(unittest.TestCase):
    medians = {"tautwire": 10, "tautwire-reader": 1, "fast": 40, "slow": 90, "raw": 1}
    summary = {name: {"m": {"median": median}} for name, median in medians.items()}

    def check(self, **threshold: object) -> dict:
        return thresholds.check({"metric": "m", "broker": "tautwire", **threshold}, self.summary)

    def test_pass_warn_and_fail(self) -> None:
        self.assertEqual([self.check(pass_at_most=bar, fail_above=bar + 2)["verdict"] for bar in (10, 9, 7)], ["pass", "warn", "fail"])
        self.assertEqual([self.check(pass_at_least=bar, fail_below=bar - 2)["verdict"] for bar in (10, 11, 13)], ["pass", "warn", "fail"])
        self.assertEqual(self.check(pass_at_most=9)["verdict"], "fail")

    def test_the_best_peer_is_neither_tautwire_nor_a_bare_socket(self) -> None:
        self.assertEqual(self.check(pass_at_most=0.3, times_that_of="best peer")["measured"], 0.25)
        self.assertEqual(self.check(pass_at_least=0.1, times_that_of="best peer")["measured"], 0.1111)

    def test_the_worst_of_several_counts(self) -> None:
        several = {"tautwire": {name: {"median": median} for name, median in (("a_x", 3), ("b_x", 5), ("c", 9))}}
        for bar, verdict in (({"pass_at_most": 4}, "fail"), ({"pass_at_most": 5}, "pass"), ({"pass_at_least": 4}, "fail")):
            self.assertEqual(thresholds.check({"metric": "*_x", "broker": "tautwire", **bar}, several)["verdict"], verdict)

    def test_missing_libraries_are_not_measured(self) -> None:
        self.assertEqual(self.check(pass_at_most=1, times_that_of="none")["verdict"], "not_measured")

    def test_thresholds_without_a_bar_or_with_inconsistent_bars_are_refused(self) -> None:
        for bars in ("", "pass_at_most = 2\nfail_above = 1", "pass_at_least = 2\nfail_above = 3", "pass_at_most = 2\nmost = 3"):
            path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "bars.toml"
            path.write_text(f'[[threshold]]\nscenario = "s"\nmetric = "m"\n{bars}\n')
            with self.assertRaises(thresholds.ThresholdError, msg=bars):
                thresholds.load("s", path)

    def test_every_benchmark_has_bars_and_every_bar_a_benchmark(self) -> None:
        for name in native.BENCHMARKS:
            self.assertTrue(thresholds.load(name), name)
        scenarios = {line.split('"')[1] for line in thresholds.FILE.read_text().splitlines() if line.startswith("scenario")}
        self.assertEqual(scenarios, set(native.BENCHMARKS))


class Results(unittest.TestCase):
    def test_a_result_has_the_common_form(self) -> None:
        measured = forms.go_codec(GO)
        measured.fail(1, "gregoryv", "it stopped")
        result = run.result_of("codec-go", measured, True, 0.5, 1.0)
        self.assertEqual(violations(result, SCHEMA), [])
        self.assertEqual(result["summary"]["GOMAXPROCS=1"]["tautwire"]["read_publish_cpu_ns"]["median"], 76)
        self.assertEqual([sample["exact"] for sample in result["samples"] if sample["round"] == 1], [True, False])
        self.assertEqual((result["parameters"]["kind"], result["rounds"]), ("library", 2))

    def test_tautwire_fails_if_it_stops_and_a_peer_does_not(self) -> None:
        for library, verdict in (("tautwire", "fail"), ("peer", "pass")):
            measured = Measured()
            measured.put(0, "tautwire", "m_cpu_ns", 1)
            measured.fail(0, library, "it stopped")
            self.assertEqual(run.result_of("contracts", measured, True, 0.5, 1.0)["checks"][-1]["verdict"], verdict)

    def test_a_written_result_reads_back(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        result = run.result_of("codec-go", forms.go_codec(GO), True, 0.5, 1.0)
        self.assertEqual(json.loads(run._write(result, folder).read_text()), result)
        self.assertEqual(len(list(folder.iterdir())), 2)


if __name__ == "__main__":
    unittest.main()
