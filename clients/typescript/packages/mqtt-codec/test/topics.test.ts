import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { encode, MqttEncodeError, type PacketInit } from "@tautwire/mqtt-codec";

type Part = { hex: string } | { repeat: string; count: number };

interface TopicVector {
  id: string;
  topic?: string;
  topic_parts?: Part[];
  filter?: string;
  filter_parts?: Part[];
  cause: string | null;
}

function vectors(name: string): TopicVector[] {
  const url = new URL(`../../../../../../spec/vectors/topics/${name}.json`, import.meta.url);
  return (JSON.parse(readFileSync(url, "utf8")) as { vectors: TopicVector[] }).vectors;
}

function joined(parts: Part[] = []): string {
  const hex = parts.map((part) => ("hex" in part ? part.hex : part.repeat.repeat(part.count)));
  return Buffer.from(hex.join(""), "hex").toString("utf8");
}

function codeOf(packet: PacketInit): string | null {
  try {
    encode(packet);
    return null;
  } catch (error) {
    assert.ok(error instanceof MqttEncodeError);
    return error.code;
  }
}

test("topic names are encoded or refused like the vectors, with their codes", () => {
  for (const { id, topic, topic_parts, cause } of vectors("names")) {
    assert.equal(codeOf({ type: "publish", topic: topic ?? joined(topic_parts) }), cause, id);
  }
});

test("topic filters are encoded or refused like the vectors, with their codes", () => {
  for (const { id, filter: whole, filter_parts, cause } of vectors("filters")) {
    const filter = whole ?? joined(filter_parts);
    assert.equal(codeOf({ type: "subscribe", packetId: 1, requests: [{ filter }] }), cause, id);
    assert.equal(codeOf({ type: "unsubscribe", packetId: 1, filters: [filter] }), cause, id);
  }
});
