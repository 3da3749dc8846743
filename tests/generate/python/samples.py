"""The values that all drivers encode. The bytes are the same in every language."""

from __future__ import annotations

import struct

import contracts as c

LONG = "x" * 200
FLOAT: float = struct.unpack("<f", struct.pack("<f", 0.1))[0]


def everything() -> c.Everything:
    part = c.EverythingPart
    return c.Everything(
        plant_id="7",
        a_double=21.5,
        a_float=FLOAT,
        an_int32=-5,
        an_int64=-9007199254740993,
        a_uint32=4294967295,
        a_uint64=18446744073709551615,
        a_sint32=-1,
        a_sint64=-1099511627776,
        a_fixed32=1,
        a_fixed64=2,
        a_sfixed32=-3,
        a_sfixed64=-4,
        a_bool=True,
        some_bytes=bytes([0, 255, 16]),
        unit=c.Unit.CELSIUS,
        maybe_int32=0,
        maybe_text="",
        maybe_unit=c.Unit.BELOW,
        part=part(name=LONG, parts=[part(name="bolt"), part(name="nut")], spare=part(name='é"\n')),
        texts=["a", "", "ü"],
        numbers=[1, -1, 300],
        doubles=[0.5, -0.25],
        loose=[-1, 1],
        units=[c.Unit.KELVIN, 9],
        parts=[part(), part(name="p")],
        counts={"a": 1, "b": -2},
        parts_by_number={2: part(name="two"), 5: part()},
        by_bool={False: "no", True: "yes"},
        units_by_number={5: c.Unit.CELSIUS},
        at=c.Timestamp(1700000000, 123456789),
        took=c.Duration(-1, -500000000),
        wrapped=c.StringValue(value="w"),
        extra=c.Struct(fields={"k": c.Value(kind=("bool_value", True))}),
        moments=[c.Timestamp(0, 0), c.Timestamp(253402300799, 999999999)],
        result=("replacement", part(name="new")),
        type="t",
        has_type="c",
    )


def mapped() -> c.Mapped:
    part = c.MappedPart
    return c.Mapped(
        plant_id="7",
        a_double=21.5,
        a_float=FLOAT,
        an_int32=-5,
        an_int64=-9007199254740993,
        a_uint32=4294967295,
        a_uint64=18446744073709551615,
        a_sint32=-1,
        a_sint64=-1099511627776,
        a_fixed32=1,
        a_fixed64=2,
        a_sfixed32=-3,
        a_sfixed64=-4,
        a_bool=True,
        some_bytes=bytes([0, 255, 16]),
        unit=c.AcmeMappedUnit.CELSIUS,
        maybe_int32=0,
        maybe_text="",
        maybe_unit=c.AcmeMappedUnit.BELOW,
        part=part(name=LONG, parts=[part(name="bolt"), part(name="nut")], spare=part(name='é"\n')),
        texts=["a", "", "ü"],
        numbers=[1, -1, 300],
        doubles=[0.5, -0.25],
        loose=[-1, 1],
        units=[c.AcmeMappedUnit.KELVIN, 9],
        parts=[part(), part(name="p")],
        counts={"a": 1, "b": -2},
        parts_by_number={2: part(name="two"), 5: part()},
        by_bool={False: "no", True: "yes"},
        units_by_number={5: c.AcmeMappedUnit.CELSIUS},
        at=c.Timestamp(1700000000, 123456789),
        took=c.Duration(-1, -500000000),
        wrapped="w",
        extra={"k": True},
        moments=[c.Timestamp(0, 0), c.Timestamp(253402300799, 999999999)],
        result=("replacement", part(name="new")),
        type="t",
        has_type="c",
    )


def old() -> c.Old:
    return c.Old(
        id="",
        level=c.Level.HIGH,
        count=0,
        levels=[c.Level.LOW, c.Level.HIGH],
        loose=[-1, 128],
        inner=c.Inner(data=b"\x01"),
        by_name={"l": c.Level.LOW},
    )


def lamp() -> c.Lamp:
    return c.Lamp(
        on=True,
        brightness=80,
        warmth=2700.5,
        colour="#ffaa00",
        mode="by hand",
        mood=None,
        scenes=[c.Scene(name="dusk", after=c.Scene(name="night\x01\\"), pair=["x", 1])],
        grid=[[1, 2.5], [3]],
        tags={"floor": "1"},
        anything={"deep": [1, None]},
        first_scene=c.Scene(name="dawn"),
        type="lamp",
    )


def samples() -> c.Samples:
    return c.Samples(value=[0.5, -7, 1e300])
