"""Options, errors, topics and codecs, without a broker."""

import datetime
import json
import pickle
import re
import struct
import unittest

from support import ROOT
from tautwire import BYTES, JSON, MSGPACK, TEXT, Codec, Credentials, FileStore, MqttError, Tls, Topic, Will, messagepack, options
from tautwire._texts import TEXTS
from tautwire.messagepack import Extension, MsgpackError, Timestamp

VECTORS = json.loads((ROOT / "spec/vectors/msgpack/cases.json").read_text())["vectors"]


class Errors(unittest.TestCase):
    def test_the_format_of_messages(self):
        text = TEXTS["queue_full"]
        self.assertEqual(str(MqttError("queue_full")), f"{text} [queue_full]")
        self.assertEqual(str(MqttError("queue_full", "of 2")), f"{text} (of 2) [queue_full]")

    def test_errors_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(MqttError("subscribe_refused", "a/#", 0x87)))
        self.assertEqual((error.code, error.detail, error.reason), ("subscribe_refused", "a/#", 0x87))


class Options(unittest.TestCase):
    def refusal(self, *address: str, **given: object) -> str:
        with self.assertRaises(MqttError) as caught:
            options.options(*(address or ("mqtt://h",)), **given)
        self.assertEqual(caught.exception.code, "invalid_options")
        return str(caught.exception)

    def test_an_address_without_a_scheme_gets_a_hint(self):
        self.assertIn("mqtt://127.0.0.1:1883", self.refusal("127.0.0.1:1883"))

    def test_secrets_are_never_shown(self):
        for address in ("ann:secret@h:1883", "http://ann:secret@h", "mqtt://ann:secret@h:port", "mqtt://ann:secret@[h"):
            self.assertNotIn("secret", self.refusal(address))
        self.assertNotIn("secret", self.refusal("mqtt://h", keep_alive="secret"))
        given = options.options("mqtt://ann:s%65cret@h:1", will=Will("t", "secret"))
        self.assertEqual((given.settings["user_name"], given.settings["password"]), ("ann", b"secret"))
        self.assertEqual(given.settings["address"], "mqtt://h:1")
        self.assertNotIn("secret", repr(given) + repr(Will("t", "secret")) + repr(Credentials("ann", "secret")))

    def test_unknown_options_have_a_suggestion(self):
        for name, meant in [("username", "user_name"), ("identifier", "client_id"), ("clientid", "client_id"), ("keepalive", "keep_alive"), ("pasword", "password")]:
            self.assertIn(f"there is no option {name}; did you mean {meant}?", self.refusal(**{name: "x"}))

    def test_ranges(self):
        for given in (
            {"keep_alive": 65_536}, {"session_expiry": -1}, {"connect_timeout": "soon"}, {"version": 3}, {"reconnect": 5},
            {"receive_maximum": 0}, {"scram": "md5"}, {"scram": "sha256"}, {"tls": object()}, {"will": "x"},
            {"tls": Tls(cert_file="a.pem")}, {"credentials": "x"}, {"credentials": str, "user_name": "ann"},
            {"store": "file"}, {"store": FileStore("file"), "clean_start": True},
            {"client_id": 5}, {"client_id": "\ud800"}, {"user_name": 5}, {"user_name": "ann", "password": 5},
            {"will": Will(5)}, {"will": Will("t", 5)}, {"will": Will("t", expiry="x")}, {"will": Will("t", user_properties=5)},
            {"user_properties": {"a": 1}}, {"user_properties": [("a",)]}, {"user_properties": 5}, {"reconnect": (5, 1)},
            {"tls": Tls()}, {"websocket_headers": {"a": "b"}},
        ):  # fmt: skip
            with self.subTest(given):
                self.refusal(**given)

    def test_tls_is_never_silently_disabled(self):
        self.assertIn("mqtts:// or wss://", self.refusal(tls=Tls()))
        for address in ("mqtts://h", "MQTTS://h", "ssl://h", "wss://h"):
            options.options(address, tls=Tls())
        options.options("WS://h", websocket_headers={"a": "b"})

    def test_the_session_ends_with_the_client_by_default(self):
        self.assertEqual(options.options("mqtt://h").closing_expiry, 0)
        self.assertEqual(options.options("mqtt://h").settings["session_expiry_s"], 300)
        self.assertIsNone(options.options("mqtt://h", session_expiry=300).closing_expiry)
        self.assertIsNone(options.options("mqtt://h", version=4).closing_expiry)
        self.assertIsNone(options.options("mqtt://h", store=FileStore("file")).closing_expiry)
        self.assertIs(options.options("mqtt://h").settings["clean_start"], True)
        for outlives, given in [
            (False, {}), (True, {"session_expiry": 1}), (False, {"session_expiry": 0}), (True, {"store": FileStore("file")}),
            (False, {"version": 4}), (True, {"version": 4, "clean_start": False}), (False, {"clean_start": False}),
        ]:  # fmt: skip
            with self.subTest(given):
                self.assertIs(options.options("mqtt://h", **given).outlives, outlives)
        self.assertIs(options.options("mqtt://h", store=FileStore("file")).settings["clean_start"], False)


class Topics(unittest.TestCase):
    def test_names_filters_and_parameters(self):
        topic = Topic("plant/{id}/log/{rest...}", TEXT)
        self.assertEqual(topic.filter, "plant/+/log/#")
        self.assertEqual(topic.filter_for(id=7), "plant/7/log/#")
        self.assertEqual(topic.at(id=7, rest="a/b").name, "plant/7/log/a/b")
        self.assertEqual(topic.match("plant/7/log/a/b"), {"id": "7", "rest": "a/b"})
        for other in ("plant/7/logs/a", "plant/7", "other/7/log/a"):
            self.assertIsNone(topic.match(other))

    def test_invalid_patterns_and_parameters(self):
        for pattern in ("", "a/{x}/{x}", "{x...}/a", "a/+", "a/{x}b"):
            with self.subTest(pattern), self.assertRaises(MqttError):
                Topic(pattern, TEXT)
        topic = Topic("a/{x}", TEXT)
        for parameters in ({}, {"x": "a/b"}, {"x": "+"}, {"x": "1", "y": "2"}):
            with self.subTest(parameters), self.assertRaises(MqttError):
                topic.at(**parameters)


class Codecs(unittest.TestCase):
    def test_values_round_trip(self):
        for codec, value in [(JSON, {"a": [1, None, "ü"]}), (MSGPACK, {"a": [1, None, b"\xff"]}), (TEXT, "ü"), (BYTES, b"\xff")]:
            payload = codec.encode(value)
            self.assertEqual(codec.decode(payload.encode() if isinstance(payload, str) else payload), value)

    def test_values_that_cannot_be_decoded_or_encoded(self):
        for use in (lambda: JSON.encode(object()), lambda: JSON.encode(float("nan")), lambda: JSON.decode(b"{"), lambda: JSON.decode(b"NaN"), lambda: TEXT.decode(b"\xff")):
            with self.assertRaises(MqttError) as caught:
                use()
            self.assertEqual(caught.exception.code, "payload_invalid")
            self.assertIsNotNone(caught.exception.__cause__)

    def test_errors_of_this_package_are_not_wrapped(self):
        error = MqttError("payload_invalid", "celsius: expected a number")

        def refuse(_value):
            raise error

        codec = Codec(refuse, refuse)
        for use in (codec.encode, codec.decode):
            with self.assertRaises(MqttError) as caught:
                use(b"")
            self.assertIs(caught.exception, error)


def data(notation: str) -> bytes:
    return bytes.fromhex(re.sub(r"\(([0-9a-f]+)\*(\d+)\)", lambda found: found[1] * int(found[2]), notation))


def value(notation: object) -> object:
    if notation == "nil":
        return None
    kind, content = next(iter(notation.items()))
    if kind in ("bool", "int"):
        return content if kind == "bool" else int(content)
    if kind == "float64":
        return struct.unpack(">d", data(content))[0]
    if kind == "str":
        return content if isinstance(content, str) else content[0] * content[1]
    if kind == "bin":
        return data(content)
    if kind == "array":
        return [value(item) for item in content]
    if kind == "repeat":
        return [value(content[0])] * content[1]
    if kind == "map":
        return {hashable(value(key)): value(item) for key, item in content}
    if kind == "ext":
        return Extension(content, data(notation["data"]))
    return Timestamp(int(content), notation["nanoseconds"])


def hashable(key: object) -> object:
    return tuple(key) if isinstance(key, list) else key


class MessagePack(unittest.TestCase):
    def test_limits_of_a_reader(self):
        nested = b"\x91\x91\x90"
        self.assertEqual(messagepack.decode(nested, depth_max=3), [[[]]])
        for payload, limits, code in [
            (nested, {"depth_max": 2}, "too_deep"),
            (b"\x81\x01\x02", {"needs_text_keys": True}, "invalid_key"),
            (b"\x91" * 300, {"depth_max": 1000}, "too_deep"),
        ]:
            with self.assertRaises(MsgpackError) as caught:
                messagepack.decode(payload, **limits)
            self.assertEqual(caught.exception.code, code)

    def test_the_vectors(self):
        self.assertGreater(len(VECTORS), 200)
        for vector in VECTORS:
            with self.subTest(vector["id"]):
                if vector["result"] != "valid":
                    with self.assertRaises(MsgpackError) as caught:
                        messagepack.decode(data(vector["hex"]))
                    self.assertEqual(caught.exception.code, vector["result"])
                    continue
                # NaN differs from itself, and −0 equals 0, so compare their representations.
                self.assertEqual(repr(messagepack.decode(data(vector["hex"]))), repr(value(vector["value"])))
                if vector["encode"]:
                    self.assertEqual(messagepack.encode(value(vector["value"])), data(vector["hex"]))

    def test_invalid_single_values(self):
        for payload, code in [(b"\x01\x01", "trailing_bytes"), (b"\x91" * 300, "too_deep"), (b"\x81\x80\x01", "invalid_key")]:
            with self.assertRaises(MsgpackError) as caught:
                messagepack.decode(payload)
            self.assertEqual(caught.exception.code, code)

    def test_values_that_cannot_be_encoded(self):
        deep: list[object] = []
        deep.append(deep)
        for wrong, code in [(deep, "too_deep"), (2**64, "out_of_range"), (-(2**63) - 1, "out_of_range"), (object(), "not_supported"), ("\ud800", "not_supported")]:
            with self.assertRaises(MsgpackError) as caught:
                messagepack.encode(wrong)
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(MsgpackError):
            messagepack.encode(datetime.datetime(2026, 1, 1))

    def test_timestamps(self):
        moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000, tzinfo=datetime.timezone.utc)
        self.assertEqual(Timestamp.of(moment), Timestamp(-1, 250_000_000))
        self.assertEqual(messagepack.decode(messagepack.encode(moment)).datetime(), moment)


if __name__ == "__main__":
    unittest.main()
