"""Tests of the vectors: schema, coverage, agreement with their cases and with the reference decoder."""

import json
import sys
import unittest
from collections import Counter
from pathlib import Path

import jsonschema
import referencing

VECTORS = Path(__file__).resolve().parent / "vectors"
sys.path.insert(0, str(VECTORS))

import encoder  # noqa: E402
import generate  # noqa: E402
import reference  # noqa: E402

MIN_MQTT_VECTORS = 400
MIN_TOPIC_VECTORS = 150


def load(folder):
    return {
        path.relative_to(VECTORS).as_posix(): json.loads(path.read_text())
        for path in sorted((VECTORS / folder).glob("*.json"))
    }


def read_bytes(holder, name):
    """Returns the bytes of `<name>_hex` or `<name>_parts`; of `hex` or `hex_parts` if the name is `hex`."""
    plain = name if name == "hex" else name + "_hex"
    if plain in holder:
        return None if holder[plain] is None else bytes.fromhex(holder[plain])
    return join(holder[name + "_parts"])


def read_text(holder, name):
    return holder[name] if name in holder else join(holder[name + "_parts"]).decode()


def join(parts):
    return b"".join(bytes.fromhex(p["hex"]) if "hex" in p else bytes.fromhex(p["repeat"]) * p["count"] for p in parts)


def plain_packet(packet):
    """Converts a packet of the file to the form of the encoder and the reference decoder."""
    out = {}
    for key, value in packet.items():
        name = key.removesuffix("_hex").removesuffix("_parts")
        if name in ("payload", "password"):
            out[name] = read_bytes(packet, name)
        elif key.endswith("_parts"):
            out[name] = read_text(packet, name)
        elif key == "properties":
            out[key] = [{"name": p["name"], "value": plain_value(p["name"], p["value"])} for p in value]
        elif key == "will":
            out[key] = None if value is None else plain_packet(value)
        elif key == "requests":
            out[key] = [plain_packet(r) for r in value]
        elif key == "filters":
            out[key] = [f if isinstance(f, str) else join(f["parts"]).decode() for f in value]
        else:
            out[key] = value
    return out


def plain_value(name, value):
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    raw = bytes.fromhex(value["hex"]) if "hex" in value else join(value["parts"])
    return raw.decode() if encoder.PROPERTIES[name].kind == "text" else raw


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mqtt = load("mqtt")
        cls.topics = load("topics")
        cls.packets = [v for document in cls.mqtt.values() for v in document["vectors"]]
        cls.valid = [v for v in cls.packets if v["result"] == "valid"]


class Files(Vectors):
    def test_every_file_matches_its_schema(self):
        schemas = {path.name: json.loads(path.read_text()) for path in (VECTORS / "schema").glob("*.json")}
        registry = referencing.Registry().with_resources(
            (name, referencing.Resource.from_contents(schema)) for name, schema in schemas.items()
        )
        for schema in schemas.values():
            jsonschema.Draft202012Validator.check_schema(schema)
        for path, document in {**self.mqtt, **self.topics}.items():
            schema = schemas[Path(document["schema"]).name]
            validator = jsonschema.Draft202012Validator(schema, registry=registry)
            first = next(validator.iter_errors(document), None)
            self.assertIsNone(first, f"{path}: {first and first.json_path}: {first and first.message[:300]}")

    def test_the_schema_refuses_an_invalid_entry(self):
        schemas = {path.name: json.loads(path.read_text()) for path in (VECTORS / "schema").glob("*.json")}
        registry = referencing.Registry().with_resources(
            (name, referencing.Resource.from_contents(schema)) for name, schema in schemas.items()
        )
        validator = jsonschema.Draft202012Validator(schemas["mqtt.schema.json"], registry=registry)
        document = self.mqtt["mqtt/pingreq.json"]
        for change in (
            {"result": "fine"},
            {"reason": 130},
            {"hex": "c0 00"},
            {"packet": {"type": "pingreq", "x": 1}},
            {"surplus": 1},
        ):
            wrong = {**document, "vectors": [{**document["vectors"][0], **change}]}
            self.assertFalse(validator.is_valid(wrong), change)

    def test_the_committed_files_match_the_cases(self):
        documents = generate.documents()
        on_disk = {
            p.relative_to(VECTORS).as_posix() for folder in ("mqtt", "topics") for p in (VECTORS / folder).iterdir()
        }
        self.assertEqual(on_disk, set(documents))
        for path, text in documents.items():
            self.assertTrue(
                (VECTORS / path).read_text() == text, f"{path} differs: run python spec/vectors/generate.py"
            )

    def test_ids_are_unique_across_all_files(self):
        ids = Counter(v["id"] for document in {**self.mqtt, **self.topics}.values() for v in document["vectors"])
        self.assertEqual([], [id for id, count in ids.items() if count > 1])

    def test_no_two_vectors_are_equal(self):
        asked = Counter(
            (v["version"], read_bytes(v, "hex"), v.get("rest_hex"), v.get("max_packet_size")) for v in self.packets
        )
        twice = [
            v["id"]
            for v in self.packets
            if asked[(v["version"], read_bytes(v, "hex"), v.get("rest_hex"), v.get("max_packet_size"))] > 1
        ]
        self.assertEqual([], twice)

    def test_flags_are_documented_and_used(self):
        for path, document in self.mqtt.items():
            used = {flag for v in document["vectors"] for flag in v["flags"]}
            self.assertEqual(used, set(document["notes"]), path)


class Verdicts(Vectors):
    def test_the_reference_decoder_agrees_with_every_result(self):
        for v in self.packets:
            with self.subTest(v["id"]):
                data = read_bytes(v, "hex")
                whole = data + bytes.fromhex(v.get("rest_hex", ""))
                try:
                    packet, used = reference.decode(whole, v["version"], v.get("max_packet_size"))
                except reference.Refused as refused:
                    self.assertEqual((refused.result, refused.reason), (v["result"], v.get("reason")))
                    continue
                self.assertEqual("valid", v["result"])
                self.assertEqual(packet, plain_packet(v["packet"]))
                self.assertEqual(used, len(data))

    def test_canonical_entries_round_trip_and_others_are_not_shorter(self):
        for v in self.valid:
            with self.subTest(v["id"]):
                data, written = read_bytes(v, "hex"), encoder.encode(plain_packet(v["packet"]), v["version"])
                if v["encode"]:
                    self.assertEqual(written, data)
                else:
                    self.assertNotEqual(written, data)
                    self.assertLessEqual(len(written), len(data))

    def test_every_prefix_of_a_valid_packet_is_incomplete(self):
        for v in self.valid:
            data = read_bytes(v, "hex")
            for cut in range(min(len(data), 300)):
                with self.assertRaises(reference.Refused, msg=f"{v['id']} cut at {cut}") as caught:
                    reference.decode(data[:cut], v["version"], v.get("max_packet_size"))
                self.assertEqual("incomplete", caught.exception.result, f"{v['id']} cut at {cut}")

    def test_refused_entries_have_one_statement_of_their_version(self):
        statements = Path(__file__).resolve().parent / "statements"
        for version, name in (("5.0", "mqtt-5.0"), ("3.1.1", "mqtt-3.1.1")):
            known = {s["id"] for s in json.loads((statements / f"{name}.json").read_text())["statements"]}
            named = {v["statement"] for v in self.packets if v["version"] == version and v["statement"]}
            self.assertEqual(set(), named - known, version)
        self.assertEqual([], [v["id"] for v in self.packets if v["version"] == "3.1" and v["statement"]])


class Coverage(Vectors):
    def test_there_are_enough_vectors(self):
        self.assertGreaterEqual(len(self.packets), MIN_MQTT_VECTORS)
        self.assertGreaterEqual(sum(len(d["vectors"]) for d in self.topics.values()), MIN_TOPIC_VECTORS)

    def test_every_packet_is_covered_in_each_of_its_versions(self):
        seen = {(v["packet"]["type"], v["version"]) for v in self.valid}
        wanted = {
            (kind, version)
            for kind in encoder.PACKET_TYPES
            for version in encoder.LEVELS
            if kind != "auth" or version == "5.0"
        }
        self.assertEqual(set(), wanted - seen)

    def test_every_packet_is_refused_in_both_versions(self):
        refused = {
            (read_bytes(v, "hex")[:1], v["version"])
            for v in self.packets
            if v["result"] in ("malformed", "protocol_error")
        }
        for version in ("3.1.1", "5.0"):
            kinds = {reference.NAMES.get(first[0] >> 4) for first, of in refused if of == version and first}
            self.assertLessEqual(set(encoder.PACKET_TYPES) - {"auth"}, kinds, version)

    def test_every_property_is_covered_in_every_packet(self):
        held = set()
        for v in self.valid:
            kind = v["packet"]["type"]
            held |= {(kind, p["name"]) for p in v["packet"].get("properties", ())}
            if v["packet"].get("will"):
                held |= {("will", p["name"]) for p in v["packet"]["will"]["properties"]}
        ids = {v["id"] for v in self.packets if v["result"] == "malformed"}
        for name, row in encoder.PROPERTIES.items():
            for owner in encoder.EVERY_PACKET_WITH_PROPERTIES:
                if owner in row.packets:
                    self.assertIn((owner, name), held)
                else:
                    self.assertIn(f"property-not-in-{owner}-{name.replace('_', '-')}", ids)

    def test_every_single_property_is_refused_twice_and_truncated(self):
        results = {v["id"]: v["result"] for v in self.packets}
        for name, row in encoder.PROPERTIES.items():
            dashed = name.replace("_", "-")
            self.assertEqual("malformed", results[f"property-overrun-{dashed}"])
            self.assertEqual("malformed", results[f"property-identifier-only-{dashed}"])
            if name != "user_property":
                owners = [owner for owner in row.packets if owner not in row.repeatable]
                self.assertTrue(
                    any(results.get(f"property-twice-{owner}-{dashed}") == "protocol_error" for owner in owners), name
                )

    def test_every_reason_code_of_every_packet_is_covered(self):
        for kind, reasons in encoder.REASONS.items():
            seen = set()
            for v in self.valid:
                if v["version"] == "5.0" and v["packet"]["type"] == kind:
                    seen |= set(v["packet"]["reasons"]) if "reasons" in v["packet"] else {v["packet"]["reason"]}
            self.assertEqual(set(reasons), seen, kind)
        return_codes = {
            v["packet"]["reason"] for v in self.valid if v["version"] == "3.1.1" and v["packet"]["type"] == "connack"
        }
        self.assertEqual(set(encoder.RETURN_CODES), return_codes)

    def test_remaining_lengths_are_covered_at_every_boundary(self):
        lengths = {len(read_bytes(v, "hex")) for v in self.valid}
        for remaining in (127, 128, 16_383, 16_384, 2_097_151, 2_097_152):
            self.assertIn(1 + len(encoder.varint(remaining)) + remaining, lengths)

    def test_the_tables_have_the_sizes_of_the_standard(self):
        self.assertEqual(15, len(encoder.PACKET_TYPES))
        self.assertEqual(27, len(encoder.PROPERTIES))
        sizes = {kind: len(reasons) for kind, reasons in encoder.REASONS.items()}
        self.assertEqual(
            {
                "connack": 22,
                "puback": 9,
                "pubrec": 9,
                "pubrel": 2,
                "pubcomp": 2,
                "suback": 12,
                "unsuback": 7,
                "disconnect": 29,
                "auth": 3,
            },
            sizes,
        )


class Topics(Vectors):
    def test_names_and_filters_agree_with_the_reference(self):
        for path, field, fault in (
            ("names", "topic", reference.name_fault),
            ("filters", "filter", reference.filter_fault),
        ):
            for v in self.topics[f"topics/{path}.json"]["vectors"]:
                with self.subTest(v["id"]):
                    text = read_text(v, field)
                    self.assertEqual(v["cause"], fault(text))
                    if field == "filter" and v["result"] == "valid":
                        shared = reference.share(text)
                        self.assertEqual(v["share"], shared and {"group": shared[0], "filter": shared[1]})

    def test_matches_agree_with_the_reference(self):
        for v in self.topics["topics/matching.json"]["vectors"]:
            with self.subTest(v["id"]):
                topic_filter, topic = read_text(v, "filter"), read_text(v, "topic")
                self.assertIsNone(reference.filter_fault(topic_filter))
                self.assertIsNone(reference.name_fault(topic))
                self.assertFalse(topic_filter.startswith("$share/"))
                self.assertEqual(v["matches"], reference.matches(topic_filter, topic))

    def test_every_cause_has_an_entry(self):
        causes = {v["cause"] for path in ("names", "filters") for v in self.topics[f"topics/{path}.json"]["vectors"]}
        self.assertEqual(
            {
                None,
                "topic_missing",
                "topic_filter_empty",
                "field_too_long",
                "utf8_null",
                "topic_wildcard",
                "topic_filter_wildcard",
                "topic_filter_multi_level",
                "share_name_invalid",
                "share_filter_missing",
            },
            causes,
        )


if __name__ == "__main__":
    unittest.main()
