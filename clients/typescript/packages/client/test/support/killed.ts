// A program that the tests of stores kill: node killed.js publish|receive URL PATH VERSION FIRST. Each line of its output is printed
// after the event.

import { writeSync } from "node:fs";
import { createClient } from "@tautwire/client";
import { FileStore } from "@tautwire/client/file-store";

const UNACKNOWLEDGED_MAX = 40;

const [task, url, path, version, first] = process.argv.slice(2);
const store = await FileStore.open(path!);
const client = createClient(url!, {
  clientId: "killed",
  store,
  protocolVersion: version === "4" ? 4 : 5,
  reconnect: { minDelayMs: 5, maxDelayMs: 20 },
});

function say(word: string, number: string): void {
  writeSync(1, `${word} ${number}\n`);
}

if (task === "publish") {
  const open = new Set<Promise<unknown>>();
  for (let number = Number(first); ; number++) {
    const name = String(number);
    say("publishing", name);
    const published = client.publish("numbers", name, { qos: number % 2 === 0 ? 2 : 1 }).then(() => {
      say("acknowledged", name);
      open.delete(published);
    });
    open.add(published);
    void store.sync().then(() => {
      say("stored", name);
    });
    // Output is written between the messages of a burst, too.
    if (number % 5 === 0) await new Promise((resolve) => setImmediate(resolve));
    if (open.size >= UNACKNOWLEDGED_MAX) await Promise.race(open);
  }
} else {
  const subscription = client.subscribe("numbers", { qos: 2, ack: "manual" }, (message) => {
    const name = message.text();
    say("got", name);
    message.acknowledge();
    void store.sync().then(() => {
      say("kept", name);
    });
  });
  await subscription.ready;
  say("ready", "0");
}
