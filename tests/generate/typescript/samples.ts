// The values that all drivers encode. The bytes are the same in every language.

import {
  createEverything,
  createEverythingPart,
  createInner,
  createMapped,
  createMappedPart,
  createOld,
  AcmeMappedUnit,
  Level,
  Unit,
  type Everything,
  type Lamp,
  type Mapped,
  type Old,
  type Samples,
} from "./contracts/index.js";

export const LONG = "x".repeat(200);

export function everything(): Everything {
  return createEverything({
    plantId: "7",
    aDouble: 21.5,
    aFloat: Math.fround(0.1),
    anInt32: -5,
    anInt64: -9007199254740993n,
    aUint32: 4294967295,
    aUint64: 18446744073709551615n,
    aSint32: -1,
    aSint64: -1099511627776n,
    aFixed32: 1,
    aFixed64: 2n,
    aSfixed32: -3,
    aSfixed64: -4n,
    aBool: true,
    someBytes: Uint8Array.of(0, 255, 16),
    unit: Unit.Celsius,
    maybeInt32: 0,
    maybeText: "",
    maybeUnit: Unit.Below,
    part: createEverythingPart({
      name: LONG,
      parts: [createEverythingPart({ name: "bolt" }), createEverythingPart({ name: "nut" })],
      spare: createEverythingPart({ name: 'é"\n' }),
    }),
    texts: ["a", "", "ü"],
    numbers: [1, -1, 300],
    doubles: [0.5, -0.25],
    loose: [-1n, 1n],
    units: [Unit.Kelvin, 9],
    parts: [createEverythingPart(), createEverythingPart({ name: "p" })],
    counts: new Map([
      ["a", 1],
      ["b", -2],
    ]),
    partsByNumber: new Map([
      [2, createEverythingPart({ name: "two" })],
      [5, createEverythingPart()],
    ]),
    byBool: new Map([
      [false, "no"],
      [true, "yes"],
    ]),
    unitsByNumber: new Map([[5n, Unit.Celsius]]),
    at: { seconds: 1700000000n, nanos: 123456789 },
    took: { seconds: -1n, nanos: -500000000 },
    wrapped: { value: "w" },
    extra: { fields: new Map([["k", { kind: { case: "boolValue", value: true } }]]) },
    moments: [
      { seconds: 0n, nanos: 0 },
      { seconds: 253402300799n, nanos: 999999999 },
    ],
    result: { case: "replacement", value: createEverythingPart({ name: "new" }) },
    type: "t",
    class: "c",
  });
}

export function mapped(): Mapped {
  return createMapped({
    plantId: "7",
    aDouble: 21.5,
    aFloat: Math.fround(0.1),
    anInt32: -5,
    anInt64: -9007199254740993n,
    aUint32: 4294967295,
    aUint64: 18446744073709551615n,
    aSint32: -1,
    aSint64: -1099511627776n,
    aFixed32: 1,
    aFixed64: 2n,
    aSfixed32: -3,
    aSfixed64: -4n,
    aBool: true,
    someBytes: Uint8Array.of(0, 255, 16),
    unit: AcmeMappedUnit.Celsius,
    maybeInt32: 0,
    maybeText: "",
    maybeUnit: AcmeMappedUnit.Below,
    part: createMappedPart({
      name: LONG,
      parts: [createMappedPart({ name: "bolt" }), createMappedPart({ name: "nut" })],
      spare: createMappedPart({ name: 'é"\n' }),
    }),
    texts: ["a", "", "ü"],
    numbers: [1, -1, 300],
    doubles: [0.5, -0.25],
    loose: [-1n, 1n],
    units: [AcmeMappedUnit.Kelvin, 9],
    parts: [createMappedPart(), createMappedPart({ name: "p" })],
    counts: new Map([
      ["a", 1],
      ["b", -2],
    ]),
    partsByNumber: new Map([
      [2, createMappedPart({ name: "two" })],
      [5, createMappedPart()],
    ]),
    byBool: new Map([
      [false, "no"],
      [true, "yes"],
    ]),
    unitsByNumber: new Map([[5n, AcmeMappedUnit.Celsius]]),
    at: { seconds: 1700000000n, nanos: 123456789 },
    took: { seconds: -1n, nanos: -500000000 },
    wrapped: "w",
    extra: new Map([["k", true]]),
    moments: [
      { seconds: 0n, nanos: 0 },
      { seconds: 253402300799n, nanos: 999999999 },
    ],
    result: { case: "replacement", value: createMappedPart({ name: "new" }) },
    type: "t",
    class: "c",
  });
}

export function old(): Old {
  return createOld({
    id: "",
    level: Level.High,
    count: 0,
    levels: [Level.Low, Level.High],
    loose: [-1, 128],
    inner: createInner({ data: Uint8Array.of(1) }),
    byName: new Map([["l", Level.Low]]),
  });
}

export function lamp(): Lamp {
  return {
    on: true,
    brightness: 80,
    warmth: 2700.5,
    colour: "#ffaa00",
    mode: "by hand",
    mood: null,
    scenes: [{ name: "dusk", after: { name: "night\u0001\\" }, pair: ["x", 1] }],
    grid: [[1, 2.5], [3]],
    tags: { floor: "1" },
    anything: { deep: [1, null] },
    "first scene": { name: "dawn" },
    type: "lamp",
  };
}

export function samples(): Samples {
  return { value: [0.5, -7, 1e300] };
}
