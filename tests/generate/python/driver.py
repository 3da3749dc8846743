"""The driver of the generated Python: `driver.py encode`, `driver.py decode`, or `driver.py run HOST PORT`."""

from __future__ import annotations

import asyncio
import copy
import datetime
import json
import pickle
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import blocking_contracts
import contracts
import samples as sample
import tautwire
import tautwire.blocking
from contracts import ABSENT, Duration, PayloadError, Timestamp

V = TypeVar("V")
P = TypeVar("P")

PATIENCE_S = 90

CODECS: list[tuple[str, tautwire.Codec[Any], Any]] = [
    ("everything", contracts.EVERYTHING_CODEC, sample.everything()),
    ("everything-empty", contracts.EVERYTHING_CODEC, contracts.Everything()),
    ("mapped-json", contracts.MAPPED_JSON_CODEC, sample.mapped()),
    ("mapped-pack", contracts.MAPPED_PACK_CODEC, sample.mapped()),
    ("mapped-empty", contracts.MAPPED_PACK_CODEC, contracts.Mapped()),
    ("old", contracts.OLD_CODEC, sample.old()),
    ("lamp", contracts.LAMP_CODEC, sample.lamp()),
    ("lamp_pack", contracts.LAMP_PACK_CODEC, sample.lamp()),
    ("samples", contracts.SAMPLES_CODEC, sample.samples()),
]


def encoded(codec: tautwire.Codec[Any], value: Any) -> bytes:
    payload = codec.encode(value)
    return payload.encode() if isinstance(payload, str) else payload


def encode() -> None:
    for name, codec, value in CODECS:
        payload = encoded(codec, value)
        same(codec.decode(payload), value)
        print(name, payload.hex())


def decode() -> None:
    """Reads each line `NAME HEX` of standard input, decodes and encodes it, and prints the result,
    or `error`."""
    codecs = {name: codec for name, codec, _ in CODECS}
    for line in sys.stdin:
        name, _, digits = line.rstrip("\n").partition(" ")
        try:
            print(encoded(codecs[name], codecs[name].decode(bytes.fromhex(digits))).hex())
        except tautwire.MqttError as error:
            # Any other exception of the generated code is a bug.
            if not isinstance(error, PayloadError):
                raise
            print("error")


def same(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


def refused(action: Callable[[], object], said: str) -> None:
    try:
        action()
    except PayloadError as error:
        same((error.code, said in str(error)), ("payload_invalid", True))
        same(str(pickle.loads(pickle.dumps(error))), str(error))
        return
    raise AssertionError(f"nothing was raised: {said}")


async def refused_by_broker(publishing: Awaitable[int]) -> None:
    try:
        await publishing
    except tautwire.MqttError as error:
        same((error.code, error.reason), ("publish_refused", 0x99))
        return
    raise AssertionError("it was published")


async def one(
    subscription: contracts.ContractSubscription[V, P], publish: Callable[[], Awaitable[int]]
) -> contracts.Received[V, P]:
    """Returns the next message, published by `publish` after the subscription."""
    async with subscription:
        same(await publish(), 0)
        return await subscription.next(PATIENCE_S)


async def everything(client: tautwire.Client) -> None:
    parameters = contracts.EverythingParameters(plant_id="7", level3="hall 3")
    received = await one(
        contracts.subscribe_everything(client, qos=1),
        lambda: contracts.publish_everything(client, parameters, sample.everything(), qos=1),
    )
    same((received.parameters, received.value, received.error), (parameters, sample.everything(), None))


async def mapped(client: tautwire.Client) -> None:
    in_json = contracts.MappedJsonParameters(plant_id="7")
    json_one = await one(
        contracts.subscribe_mapped_json(client, qos=1),
        lambda: contracts.publish_mapped_json(client, in_json, sample.mapped(), qos=1),
    )
    same((json_one.parameters, json_one.value), (in_json, sample.mapped()))
    same((json_one.message.content_type, json_one.message.is_text), ("application/json", True))
    in_pack = contracts.MappedPackParameters(plant_id="7")
    pack_one = await one(
        contracts.subscribe_mapped_pack(client, qos=1),
        lambda: contracts.publish_mapped_pack(client, in_pack, sample.mapped(), qos=1),
    )
    same(pack_one.value, sample.mapped())


async def plain(client: tautwire.Client) -> None:
    old = await one(contracts.subscribe_old(client, qos=1), lambda: contracts.publish_old(client, sample.old(), qos=1))
    same(old.value, sample.old())
    where = contracts.LampParameters(room="hall", type="x")
    lamp = await one(
        contracts.subscribe_lamp(client, qos=1), lambda: contracts.publish_lamp(client, where, sample.lamp(), qos=1)
    )
    same((lamp.parameters, lamp.value), (where, sample.lamp()))
    numbers = await one(
        contracts.subscribe_samples(client, qos=1), lambda: contracts.publish_samples(client, sample.samples(), qos=1)
    )
    same(numbers.value, sample.samples())


async def leaving(client: tautwire.Client) -> None:
    """Leaving the loop ends the subscription."""
    subscription = await contracts.subscribe_samples(client, qos=1)
    same(await contracts.publish_samples(client, sample.samples(), qos=1), 0)
    async for received in subscription:
        same(received.value, sample.samples())
        break
    same(await contracts.publish_samples(client, sample.samples(), qos=1), 0x10)


async def broken(client: tautwire.Client) -> None:
    """The broker refuses payloads that violate a contract, and the client refuses invalid
    topics."""
    lamp = sample.lamp()
    lamp.brightness = 101
    where = contracts.LampParameters(room="hall", type="x")
    await refused_by_broker(contracts.publish_lamp(client, where, lamp, qos=1))
    elsewhere = contracts.EverythingParameters(plant_id="8", level3="x")
    await refused_by_broker(contracts.publish_everything(client, elsewhere, sample.everything(), qos=1))
    await refused_by_broker(client.publish("samples", bytes([0x91, 0xC3]), qos=1))
    try:
        await contracts.publish_lamp(client, contracts.LampParameters(room="a/b", type="x"), sample.lamp(), qos=1)
    except tautwire.MqttError as error:
        same(error.code, "invalid_argument")
    else:
        raise AssertionError("a/b is no level of a topic")


async def transcoded(client: tautwire.Client) -> None:
    text = contracts.LAMP_CODEC.encode(sample.lamp())
    received = await one(
        contracts.subscribe_lamp_pack(client, qos=1, user_properties={"a": "b"}),
        lambda: client.publish("packed-lamps/a/b", text, qos=1, content_type="application/json"),
    )
    same((received.parameters, received.value), (contracts.LampPackParameters(rest="a/b"), sample.lamp()))
    same(contracts.LAMP_PACK_TOPIC.match("packed-lamps"), {"rest": ""})


async def invalid(client: tautwire.Client) -> None:
    """An unreadable payload gives an error with its message, and the subscription continues."""
    async with contracts.subscribe_observed(client, qos=1) as subscription:
        await client.publish("observed/1", bytes([0x0A, 5, 65]), qos=1)
        await contracts.publish_observed(client, contracts.ObservedParameters(plant_id="2"), sample.old(), qos=1)
        first, second = await subscription.next(PATIENCE_S), await subscription.next(PATIENCE_S)
    same((first.error and first.error.code, first.parameters.plant_id), ("payload_invalid", "1"))
    refused(lambda: first.value, "at byte")
    same((second.error, second.value), (None, sample.old()))


async def threads(client: tautwire.Client) -> None:
    """The same for threads."""

    def run() -> None:
        where = blocking_contracts.LampParameters(room="hall", type="x")
        lamp = blocking_contracts.LAMP_CODEC.decode(encoded(contracts.LAMP_CODEC, sample.lamp()))
        with tautwire.blocking.connect(ADDRESS) as blocking:
            with blocking_contracts.subscribe_lamp(blocking, qos=1) as lamps:
                same(blocking_contracts.publish_lamp(blocking, where, lamp, qos=1), 0)
                for received in lamps:
                    same((received.parameters, received.value), (where, lamp))
                    break

    await asyncio.to_thread(run)
    same(client.version, 5)


def numbers() -> None:
    """JSON numbers are written like in JavaScript."""
    for number, text in [
        (21.0, "21"), (-0.0, "-0"), (1e16, "10000000000000000"), (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"), (1e-5, "0.00001"), (1.5e-5, "0.000015"), (-1.25e-6, "-0.00000125"), (1e-7, "1e-07"), (0.1, "0.1"),
        (float("nan"), '"NaN"'), (float("-inf"), '"-Infinity"'),
    ]:  # fmt: skip
        lamp = sample.lamp()
        lamp.warmth = number
        written = contracts.LAMP_CODEC.encode(lamp)
        if f'"warmth":{text},' not in str(written):
            raise AssertionError(f"{number!r} is {text}, not as in {written!r}")
        # The sign of zero is not decoded.
        same(repr(contracts.LAMP_CODEC.decode(str(written).encode()).warmth), repr(number + 0.0))


def wrong() -> None:
    """Errors name their position."""
    lamp, pack = contracts.LAMP_CODEC, contracts.SAMPLES_CODEC
    refused(lambda: lamp.decode(b'{"on":1}'), "on: expected a boolean")
    refused(lambda: lamp.decode(b'{"on":true}'), "mode: expected a required value")
    refused(lambda: lamp.decode(b'{"on":true,'), "expected JSON at byte 11")
    refused(lambda: lamp.decode(b'{"on":true,"a":"\\ud800"}'), "surrogate")
    refused(lambda: lamp.decode(b'{"a":' + b"[" * 150 + b"]" * 150 + b"}"), "nested at most 100 deep")
    refused(lambda: lamp.decode(b"[" * 100_000), "expected JSON")
    refused(lambda: lamp.decode(b'{"on":NaN}'), "expected JSON")
    refused(lambda: lamp.decode(b"\xff"), "expected UTF-8 at byte 0")
    scene = b'{"on":true,"mode":"off","mood":null,"type":"lamp","scenes":[{"name":"a"},{"name":"b","after":{}}]}'
    refused(lambda: lamp.decode(scene), "scenes[1].after.name: expected a required value")
    refused(lambda: pack.decode(bytes([0x92, 1, 0xC3])), "[1]: expected a number")
    refused(lambda: pack.decode(bytes([0x91])), "[truncated]")
    refused(lambda: contracts.EVERYTHING_CODEC.encode(contracts.Everything(an_int32=2**31)), "from -2147483648 to 2147483647")
    refused(lambda: contracts.EVERYTHING_CODEC.encode(contracts.Everything(plant_id="\ud800")), "surrogate")
    refused(lambda: contracts.MAPPED_JSON_CODEC.encode(contracts.Mapped(a_uint64=-1)), "from 0 to 18446744073709551615")
    refused(lambda: contracts.MAPPED_PACK_CODEC.encode(contracts.Mapped(at=Timestamp(0, -1))), "nanoseconds")
    endless = contracts.EverythingPart()
    endless.spare = endless
    try:
        contracts.EVERYTHING_CODEC.encode(contracts.Everything(part=endless))
    except tautwire.MqttError as error:
        same(error.code, "payload_invalid")


def open_values() -> None:
    """Null is a value if the schema allows any."""
    text = '{"mode":"off","mood":null,"on":true,"type":"lamp"'
    for rest, value in [("}", ABSENT), (',"anything":null}', None), (',"anything":[1]}', [1])]:
        lamp = contracts.LAMP_CODEC.decode((text + rest).encode())
        same((lamp.anything, lamp.mood), (value, None))
        same(json.loads(contracts.LAMP_CODEC.encode(lamp)), json.loads(text + rest))
        same(copy.deepcopy(lamp), lamp)
    same(pickle.loads(pickle.dumps(ABSENT)) is ABSENT, True)


def times() -> None:
    """Timestamps and durations of Python."""
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000, datetime.timezone.utc)
    same(Timestamp.of(moment), Timestamp(-1, 250_000_000))
    same(Timestamp.of(moment).datetime(), moment)
    for span, expected in [
        (datetime.timedelta(seconds=-1.5), Duration(-1, -500_000_000)),
        (datetime.timedelta(days=1, microseconds=1), Duration(86_400, 1000)),
    ]:
        same(Duration.of(span), expected)
        same(expected.timedelta(), span)
    refused(lambda: Timestamp.of(datetime.datetime(2000, 1, 1)), "time zone")
    for text, found in [
        ("2000-02-29T23:59:59+01:30", Timestamp(951_863_399)),
        ("1969-12-31t23:59:59.5Z", Timestamp(-1, 500_000_000)),
    ]:
        same(contracts.MAPPED_JSON_CODEC.decode(f'{{"at":"{text}"}}'.encode()).at, found)
    refused(lambda: contracts.MAPPED_JSON_CODEC.decode(b'{"at":"2001-02-29T00:00:00Z"}'), "at: expected an RFC 3339 timestamp")


TESTS = [everything, mapped, plain, leaving, broken, transcoded, invalid, threads]


async def run() -> bool:
    is_right = True
    for test in (numbers, wrong, open_values, times):
        is_right &= tell(test.__name__, test)
    async with tautwire.connect(ADDRESS) as client:
        for runs in TESTS:
            try:
                await runs(client)
                print("ok", runs.__name__)
            except Exception as error:
                is_right = False
                print(f"FAIL {runs.__name__}: {type(error).__name__}: {error}")
    return is_right


def tell(name: str, test: Callable[[], None]) -> bool:
    try:
        test()
    except Exception as error:
        print(f"FAIL {name}: {type(error).__name__}: {error}")
        return False
    print("ok", name)
    return True


what, host, port = (sys.argv[1:] + ["", "", ""])[:3]
ADDRESS = f"mqtt://{host}:{port}"

if __name__ == "__main__":
    if what == "encode":
        encode()
    elif what == "decode":
        decode()
    else:
        sys.exit(0 if asyncio.run(run()) else 1)
