"""Describes each scenario for readers who do not know this suite. A scenario without an entry keeps its title."""

from __future__ import annotations

from results import Result

SITUATIONS = {
    "b1-baseline": "100 clients, 5,000 messages per second, QoS 0",
    "b1-baseline-qos1": "100 clients, 5,000 messages per second, QoS 1",
    "b2-thundering-herd": "10,000 clients connect, and all answer one message",
    "b3-sustained": "1,000 publishers send 10 messages per second each to 1,000 subscribers, for 30 seconds",
    "b3-sustained-10min": "1,000 publishers send 10 messages per second each to 1,000 subscribers, for ten minutes",
    "b4-wildcards": "1,000 subscribers with overlapping wildcards; every message reaches about 750 of them",
    "b5-json": "JSON readings with 12 fields",
    "b5-messagepack": "MessagePack readings with 12 fields",
    "b5-protobuf": "Protobuf readings with 12 fields",
    "b6-churn": "100,000 clients connect, subscribe, publish, receive and disconnect",
    "b7-sizes": "one publisher, one subscriber, payloads from 10 bytes to 1 MiB, QoS 0",
    "b9-connections": "many idle connections",
    "b9-connections-subscribed": "many idle connections with one subscription each",
    "b9-retained": "many retained messages of 64 bytes",
    "b9-subscriptions": "many different wildcard filters",
    "b10-fan-out": "one message to 10,000 subscribers",
    "b10-reconnect-storm": "5,000 clients lose their connections and come back at once",
    "b10-slow-consumer": "one subscriber stops reading while 20 MB per second arrive for it",
    "d1-durable-1-1": "one publisher, one session that lasts, QoS 1, 256 bytes, every message on disk before it is acknowledged",
    "d1-durable-100-1": "the same with 100 publishers",
    "d1-durable-latency": "one message at a time, QoS 1, on disk before it is acknowledged",
    "d2-recovery": "100,000 sessions with a million messages, after a kill",
    "d3-retained-on-disk": "a million retained messages of 1 KB, after a kill",
    "d4-snapshots": "a broker with 200,000 retained messages of 1 KB makes snapshots of its log while 20,000 a second are replaced",
    "t1-handshakes": "clients connect by TLS 1.3 with a full handshake, and leave",
    "t2-handshakes-resumed": "clients connect by TLS 1.3, going back to an earlier session, and leave",
    "t3-flood": "one publisher, one subscriber, QoS 0, 16 bytes, by TLS",
    "t3-flood-batches": "the same, 64 messages in each write",
    "t4-64k": "one publisher, one subscriber, QoS 0, 64 KiB, by TLS",
    "t5-idle": "10,000 idle connections by TLS",
    "c1-qos0-across": "one publisher, one subscriber at another broker of the cluster, QoS 0, 16 bytes",
    "c2-qos1-quorum": "publishing at QoS 1 to a cluster, 256 bytes, on the disks of a quorum before it is acknowledged",
    "c3-idle-sessions": "many idle clients with lasting sessions in a cluster",
    "c4-takeover": "a client goes on at another broker of the cluster",
    "c5-retained-mirror": "a broker joins a cluster with 100,000 retained messages",
    "c6-dead-node": "a broker of a cluster with 10,000 sessions is killed",
    "c7-kills": "a broker of a cluster is killed, or a leader of JetStream, while clients publish at QoS 1",
    "c8-nodes": "what brokers cost that are one",
    "rtt-matrix": "request and answer through the broker, 16 bytes",
    "rtt-self-qos0": "a client sends messages to itself one at a time, QoS 0",
    "rtt-self-qos1": "a client sends messages to itself one at a time, QoS 1",
    "rtt-self-qos2": "a client sends messages to itself one at a time, QoS 2",
}


def situation(result: Result) -> str:
    return SITUATIONS.get(result.name, result.title)
