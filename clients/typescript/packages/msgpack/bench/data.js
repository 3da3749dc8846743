// The seven data sets, made from a fixed seed so that every process measures the same bytes.

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

function randomKeys(next) {
  const items = [];
  for (let i = 0; i < 200; i++) {
    const item = {};
    for (let j = 0; j < 6; j++) item[`k${Math.floor(next() * 1e9).toString(36)}`] = j;
    items.push(item);
  }
  return items;
}

/** As a program would hold it: strings in one piece, not as the concatenations they were made from. */
const settled = (value) => JSON.parse(JSON.stringify(value));

export const sets = settled({
  seed: { a: 1.5, b: "foo", c: [1, 2], d: true, e: {} },
  reading12: reading(random(1), 42),
  "readings×1000": Array.from({ length: 1000 }, ((next) => (_, i) => reading(next, i))(random(2))),
  strings: strings(random(3)),
  numbers: numbers(random(4)),
  deep: deep(random(5), 10),
  json100k: document100k(random(6)),
});

/** Not in the means: keys that never repeat within the set, where learned shapes are of no use. */
export const guards = settled({ "random keys": randomKeys(random(7)) });
