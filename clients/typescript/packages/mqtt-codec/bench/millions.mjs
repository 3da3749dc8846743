// Many packets (ten million) through one library in a separate process: CPU time, and the peak memory of the process.

import { encode } from "@tautwire/mqtt-codec";
import { kept, LIBRARIES } from "./libraries.mjs";

const [name, way, countText = "10000000"] = process.argv.slice(2);
const COUNT = Number(countText);
const library = await LIBRARIES[name]();
const bytes = library.input(encode({ type: "publish", topic: "test/topic", payload: "payload" }, 4));
const packet = library.packet(bytes, 4);
const feed = library.decoder(4);

const start = process.cpuUsage();
if (way === "decode") for (let i = 0; i < COUNT; i++) feed(bytes);
else for (let i = 0; i < COUNT; i++) kept.value = library.encode(packet, 4);
const { user, system } = process.cpuUsage(start);
console.log(JSON.stringify({ cpu_s: (user + system) / 1e6, max_rss_mb: process.resourceUsage().maxRSS / 1024 }));
