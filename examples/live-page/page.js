// Plots the readings of all sensors as they arrive. ?broker=ws://HOST:PORT/PATH names the broker.

import { createClient, text, topic } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";
import { Chart } from "./chart.js";
import { mark } from "./marks.js";

/** @typedef {{ celsius: number, humidity: number, at: Date }} Reading */
/** @typedef {import("./chart.js").Series & { latest: Reading, status: string, card: Card }} Sensor */
/** @typedef {{ item: HTMLLIElement, celsius: HTMLElement, details: HTMLElement }} Card */

/** Limits on what the page stores, whatever is published. */
const MAX_SENSORS = 12;
const MAX_POINTS = 1_200;
/** A sensor without a reading for so long is shown as silent. */
const SILENT_MS = 5_000;

const reading = topic("sensors/{id}/reading", msgpack({ parse: parseReading }));
const status = topic("sensors/{id}/status", text);
const url = new URLSearchParams(location.search).get("broker") ?? `ws://${location.hostname}:8083/mqtt`;

/** @type {Map<string, Sensor>} */
const sensors = new Map();
const chart = new Chart(/** @type {SVGSVGElement} */ (document.querySelector("#chart")), sensors);
const connection = element("#connection");

const client = createClient(url);
client.on("connected", () => say("● connected"));
client.on("reconnecting", ({ delayMs }) => say(`○ no connection, next attempt in ${(delayMs / 1000).toFixed(1)} s`));
client.on("closed", ({ error }) => say(`○ closed${error === null ? "" : `: ${error.message}`}`));
// An invalid payload is an error of its handler, and is reported here.
client.on("error", ({ message, cause }) => console.info(message, cause));

client.subscribe(reading, ({ params, value }) => add(params.id, value));
client.subscribe(status, ({ params, value }) => {
  const sensor = sensors.get(params.id);
  if (sensor !== undefined) sensor.status = value;
  redraw();
});
setInterval(redraw, 1_000);

/** @param {string} state */
function say(state) {
  connection.textContent = state;
}

/**
 * What comes from outside is checked: anybody may publish anything.
 *
 * @param {unknown} value
 * @returns {Reading}
 */
function parseReading(value) {
  const { celsius, humidity, at } = /** @type {Partial<Reading>} */ (value ?? {});
  if (typeof celsius !== "number" || typeof humidity !== "number" || !(at instanceof Date)) {
    throw new TypeError("not a reading: { celsius, humidity, at }");
  }
  return { celsius, humidity, at };
}

/**
 * @param {string} id
 * @param {Reading} latest
 */
function add(id, latest) {
  let sensor = sensors.get(id);
  if (sensor === undefined) {
    if (sensors.size === MAX_SENSORS) return;
    sensor = { id, index: sensors.size, points: [], latest, status: "", card: newCard(id, sensors.size) };
    sensors.set(id, sensor);
  }
  sensor.latest = latest;
  // A reading shows that the sensor is online.
  sensor.status = "";
  sensor.points.push({ at: latest.at.getTime(), value: latest.celsius });
  if (sensor.points.length > MAX_POINTS) sensor.points.shift();
  redraw();
}

let isDue = false;

/** Redraws at most once a frame, and not while the page is hidden. */
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

function draw() {
  element("#empty").hidden = sensors.size > 0;
  element("#figure").hidden = sensors.size === 0;
  const now = Date.now();
  for (const { card, latest, status } of sensors.values()) {
    const silentMs = now - latest.at.getTime();
    const silence = silentMs > SILENT_MS ? `silent for ${Math.round(silentMs / 1000)} s` : "";
    card.celsius.textContent = `${latest.celsius.toFixed(1)} °C`;
    card.details.textContent = [`${latest.humidity.toFixed(0)} % humidity`, status === "online" ? "" : status, silence]
      .filter((part) => part !== "")
      .join(", ");
  }
  if (sensors.size > 0) chart.draw(now);
}

/**
 * @param {string} id
 * @param {number} index
 * @returns {Card}
 */
function newCard(id, index) {
  const item = document.createElement("li");
  const name = child(item, "name");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  shape.setAttribute("viewBox", "-7 -7 14 14");
  shape.setAttribute("aria-hidden", "true");
  shape.append(mark(index));
  // Names come from topics: they are text, never markup.
  const label = document.createElement("span");
  label.textContent = id;
  name.append(shape, label);
  const card = { item, celsius: child(item, "celsius"), details: child(item, "quiet") };
  element("#sensors").append(item);
  return card;
}

/**
 * @param {HTMLElement} parent
 * @param {string} className
 */
function child(parent, className) {
  const node = document.createElement("div");
  node.className = className;
  parent.append(node);
  return node;
}

/**
 * @param {string} selector
 * @returns {HTMLElement}
 */
function element(selector) {
  return /** @type {HTMLElement} */ (document.querySelector(selector));
}
