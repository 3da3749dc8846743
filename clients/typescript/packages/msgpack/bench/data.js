// The data sets, generated from fixed seeds so that every process measures the same bytes.

function random(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 4294967296;
  };
}

const WORDS = (
  "river stone lantern harbour winter copper meadow signal orchard velvet thunder paper anchor silver garden mirror " +
  "candle forest bridge window ocean planet market engine ribbon saddle valley whisper compass feather hollow island"
).split(" ");

function sentence(next, words) {
  let text = "";
  for (let i = 0; i < words; i++) text += (i ? " " : "") + WORDS[Math.floor(next() * WORDS.length)];
  return text;
}

function reading(next, i) {
  return {
    deviceId: `sensor-${String(i % 250).padStart(4, "0")}`,
    site: WORDS[i % 7],
    sequence: i * 17,
    timestamp: 1_700_000_000_000 + i * 1000,
    temperature: Math.round(next() * 4000) / 100 + 0.005,
    humidity: Math.round(next() * 10000) / 100 + 0.005,
    pressure: 980 + next() * 60,
    battery: Math.floor(next() * 101),
    rssi: -30 - Math.floor(next() * 80),
    online: next() > 0.1,
    firmware: "2.14.3",
    error: null,
  };
}

function strings(next) {
  const items = [];
  for (let i = 0; i < 100; i++) {
    items.push({
      title: sentence(next, 3),
      author: sentence(next, 2),
      body: sentence(next, 4 + Math.floor(next() * 10)),
      language: i % 10 === 0 ? "français – été" : "en",
    });
  }
  return { kind: "library", items };
}

function numbers(next) {
  const items = [];
  for (let i = 0; i < 10000; i++) {
    const kind = i % 4;
    items.push(kind === 0 ? i % 128 : kind === 1 ? Math.floor(next() * 65536) : kind === 2 ? Math.floor(next() * 2e9) - 1e9 : next() * 1000);
  }
  return items;
}

function deep(next, levels) {
  if (levels === 0) return { leaf: true, value: Math.floor(next() * 1000) };
  return { name: WORDS[levels], level: levels, left: deep(next, levels - 1), right: levels % 2 ? deep(next, levels - 1) : [levels] };
}

function document100k(next) {
  const users = [];
  for (let i = 0; i < 165; i++) {
    users.push({
      id: i,
      guid: `${Math.floor(next() * 1e9).toString(16)}-${Math.floor(next() * 1e9).toString(16)}`,
      active: next() > 0.5,
      balance: `$${(next() * 4000).toFixed(2)}`,
      age: 20 + Math.floor(next() * 40),
      name: sentence(next, 2),
      company: sentence(next, 1).toUpperCase(),
      email: `${WORDS[i % 30]}@example.com`,
      address: `${Math.floor(next() * 999)} ${sentence(next, 3)}`,
      about: sentence(next, 25),
      latitude: next() * 180 - 90,
      longitude: next() * 360 - 180,
      tags: [sentence(next, 1), sentence(next, 1), sentence(next, 1)],
      friends: [0, 1, 2].map((n) => ({ id: n, name: sentence(next, 2) })),
    });
  }
  return users;
}

/** The letters of alphabets, as ranges of code points. */
const SCRIPTS = {
  accents: [[0x61, 0x7a], [0x61, 0x7a], [0x61, 0x7a], [0xe0, 0xf6]],
  greek: [[0x3b1, 0x3c9]],
  cyrillic: [[0x430, 0x44f]],
  hebrew: [[0x5d0, 0x5ea]],
  arabic: [[0x627, 0x64a]],
  hindi: [[0x905, 0x939]],
  thai: [[0xe01, 0xe2e]],
  chinese: [[0x4e00, 0x9fa5]],
  japanese: [[0x3041, 0x3096], [0x30a1, 0x30fa], [0x4e00, 0x9fa5]],
  korean: [[0xac00, 0xd7a3]],
};

/** Text of `letters` letters, in words if the script has them. */
function written(next, script, letters) {
  const ranges = SCRIPTS[script];
  const hasSpaces = script !== "chinese" && script !== "japanese" && script !== "thai";
  let text = "";
  for (let i = 0, word = 0; i < letters; i++) {
    if (hasSpaces && word > 3 && i < letters - 1 && next() < 0.2) {
      text += " ";
      word = 0;
      continue;
    }
    const [from, to] = ranges[Math.floor(next() * ranges.length)];
    text += String.fromCodePoint(from + Math.floor(next() * (to - from + 1)));
    word++;
  }
  return text;
}

function scripts(next, count, least, most) {
  const names = Object.keys(SCRIPTS);
  return Array.from({ length: count }, (_, i) => written(next, names[i % names.length], least + Math.floor(next() * (most - least + 1))));
}

function chat(next) {
  const EMOJI = ["😀", "🎉", "👍🏽", "❤️", "🚀", "🤖", "👩‍👩‍👧", "🇫🇷", "✅", "🌧"];
  const one = () => EMOJI[Math.floor(next() * EMOJI.length)];
  return Array.from({ length: 100 }, (_, i) => ({
    id: 100000 + i,
    from: WORDS[i % 30],
    text: i % 4 === 0 ? one() + one() : `${sentence(next, 1 + Math.floor(next() * 12))} ${one()}`,
    reactions: Array.from({ length: i % 3 }, one),
  }));
}

/** The same number of integers of each width, in random order. */
function integers(next) {
  return Array.from({ length: 10000 }, () => {
    const n = Math.floor(next() * 2 ** [5, 7, 8, 15, 16, 31, 32, 45][Math.floor(next() * 8)]);
    return next() < 0.5 ? n : -n - 1;
  });
}

/** Objects with a random subset of the fields. */
function sparse(next) {
  const fields = Array.from({ length: 24 }, (_, i) => `${WORDS[i]}${i % 3 ? "" : "Count"}`);
  return Array.from({ length: 1000 }, (_, i) => {
    const o = { id: i };
    for (const field of fields) if (next() < 0.3) o[field] = field.endsWith("Count") ? Math.floor(next() * 1000) : WORDS[Math.floor(next() * 30)];
    return o;
  });
}

function dictionary(next) {
  const o = {};
  for (let i = 0; i < 500; i++) {
    o[`device-${Math.floor(next() * 1e9).toString(16)}`] = { name: WORDS[i % 30], level: Math.floor(next() * 100), ratio: next(), online: next() > 0.5 };
  }
  return o;
}

function table(next) {
  const columns = Array.from({ length: 100 }, (_, i) => `${WORDS[i % 30]}_${i}`);
  return Array.from({ length: 50 }, () => {
    const row = {};
    columns.forEach((column, i) => (row[column] = i % 4 === 0 ? WORDS[Math.floor(next() * 30)] : i % 4 === 1 ? next() * 100 : Math.floor(next() * 5000)));
    return row;
  });
}

function shape(next) {
  const ring = (points) => Array.from({ length: points }, () => [next() * 360 - 180, next() * 180 - 90]);
  return {
    type: "FeatureCollection",
    features: Array.from({ length: 20 }, (_, i) => ({
      type: "Feature",
      properties: { name: WORDS[i], population: Math.floor(next() * 1e6) },
      geometry: { type: "Polygon", coordinates: [ring(50), ring(10)] },
    })),
  };
}

function randomKeys(next, count) {
  const items = [];
  for (let i = 0; i < count; i++) {
    const item = {};
    for (let j = 0; j < 6; j++) item[`k${Math.floor(next() * 1e9).toString(36)}`] = j;
    items.push(item);
  }
  return items;
}

/** Flattens strings, so that they are not ropes. */
const settled = (value) => JSON.parse(JSON.stringify(value));

export const sets = settled({
  seed: { a: 1.5, b: "foo", c: [1, 2], d: true, e: {} },
  reading12: reading(random(1), 42),
  "readings×1000": Array.from({ length: 1000 }, ((next) => (_, i) => reading(next, i))(random(2))),
  strings: strings(random(3)),
  numbers: numbers(random(4)),
  deep: deep(random(5), 10),
  json100k: document100k(random(6)),
  "short scripts": scripts(random(8), 300, 8, 22),
  "long scripts": scripts(random(9), 60, 100, 500),
  emoji: chat(random(10)),
  integers: integers(random(11)),
  "integers to a million": Array.from({ length: 20000 }, ((next) => () => Math.floor(next() * 1e6))(random(12))),
  sparse: sparse(random(13)),
  dictionary: dictionary(random(14)),
  table: table(random(15)),
  coordinates: shape(random(16)),
});

/** Not in the means: keys that never repeat within the set, which is encoded again and again. */
export const guards = settled({ "random keys": randomKeys(random(7), 200) });

/** Not in the means: a different value each time, so that keys rarely repeat, and learned shapes are useless. */
export const streams = settled({ "fresh keys": ((next) => Array.from({ length: 400 }, () => randomKeys(next, 20)))(random(17)) });
