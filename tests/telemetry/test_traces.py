"""The trace spans that a broker sends for messages."""

from __future__ import annotations

import time
import unittest

from google.protobuf.message import Message

# Imported before the module of the same name in `tests/mqtt`.
from broker import Broker
from collector import Collector, Request

import wire
from client import Client

TRACES = "/v1/traces"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FOLLOWED = [("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "a=1,b=2")]
NOT_FOLLOWED = [("traceparent", f"00-{TRACE}-{PARENT}-00")]
TRACED = "metrics = false\nlogs = false\ntraces = true\n"


def spans_of(requests: list[Request]) -> list[Message]:
    found = []
    for request in requests:
        if request.path == TRACES:
            for resource in request.message.resource_spans:
                for scope in resource.scope_spans:
                    found += scope.spans
    return found


def attributes(span: Message) -> dict[str, object]:
    values = {attribute.key: attribute.value for attribute in span.attributes}
    return {name: getattr(value, value.WhichOneof("value")) for name, value in values.items()}


def described(properties: list[tuple[str, str]]) -> bytes:
    return b"".join(wire.user_property(*pair) for pair in properties)


class Traces(unittest.TestCase):
    def scene(self, settings: str = "", **more: object) -> tuple[Collector, Broker]:
        collector = Collector()
        self.addCleanup(collector.close)
        broker = Broker(f'endpoint = "{collector.url}"\n{TRACED}{settings}', **more)
        self.addCleanup(broker.close)
        return collector, broker

    def client(self, broker: Broker, client_id: str, **more: object) -> Client:
        """Its session is persistent if it has an expiry interval."""
        client = Client(broker.port, client_id, clean="expiry_s" not in more, **more)
        self.addCleanup(client.cut)
        return client

    def spans(self, collector: Collector, count: int) -> list[Message]:
        collector.wait_for(lambda requests: len(spans_of(requests)) >= count, f"{count} spans")
        return spans_of(collector.requests)

    def test_a_message_is_traced_from_publisher_to_each_receiver(self) -> None:
        # With several threads, receivers are on all of them.
        for threads in (1, 3):
            for qos in (0, 1, 2):
                with self.subTest(threads=threads, qos=qos):
                    collector, broker = self.scene(threads=threads)
                    receivers = [self.client(broker, f"receiver-{number}") for number in range(6)]
                    for receiver in receivers:
                        receiver.subscribe("plant/+", 1)
                    begin_ns = time.time_ns()
                    self.client(broker, "publisher").deliver("plant/7", b"hello", qos=qos, properties=described([("x", "y"), *FOLLOWED]))
                    for receiver in receivers:
                        # [MQTT-3.3.2-17], [MQTT-3.3.2-18]
                        self.assertEqual(receiver.receive().user_properties, [("x", "y"), *FOLLOWED])
                    spans = self.spans(collector, 7)
                    [published] = [span for span in spans if span.name == "publish"]
                    delivered = [span for span in spans if span.name == "deliver"]
                    self.assertEqual(len(spans), 7)
                    for span in spans:
                        self.assertEqual((span.trace_id.hex(), span.trace_state), (TRACE, "a=1,b=2"))
                        self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano)
                        # The clock of a turn has milliseconds, and lags behind by the duration of the turn.
                        self.assertGreater(span.start_time_unix_nano, begin_ns - 2_000_000_000)
                        self.assertLessEqual(span.end_time_unix_nano, time.time_ns())
                        told = attributes(span)
                        self.assertEqual((told["messaging.system"], told["messaging.destination.name"]), ("mqtt", "plant/7"))
                        self.assertEqual((told["messaging.operation.name"], told["messaging.message.body.size"]), (span.name, 5))
                    self.assertEqual((published.parent_span_id.hex(), published.kind, published.flags), (PARENT, 2, 0x301))
                    told = attributes(published)
                    self.assertEqual((told["messaging.client.id"], told["mqtt.qos"], told["mqtt.reason_code"]), ("publisher", qos, 0))
                    self.assertEqual({span.parent_span_id for span in delivered}, {published.span_id})
                    self.assertEqual({(span.kind, span.flags) for span in delivered}, {(4, 0x101)})
                    self.assertEqual({attributes(span)["messaging.client.id"] for span in delivered}, {f"receiver-{number}" for number in range(6)})
                    self.assertEqual({attributes(span)["mqtt.qos"] for span in delivered}, {min(qos, 1)})
                    self.assertEqual({attributes(span)["tautwire.delivery"] for span in delivered}, {"sent"})
                    self.assertEqual(len({span.span_id for span in spans}), 7)
                    self.assertEqual(len({attributes(span)["messaging.message.id"] for span in spans}), 1)

    def test_payloads_are_not_exported(self) -> None:
        collector, broker = self.scene()
        self.client(broker, "publisher").deliver("t", b"very-secret", qos=1, properties=described(FOLLOWED))
        self.spans(collector, 1)
        self.assertFalse([request for request in collector.requests if "very-secret" in request.body])

    def test_unsampled_traces_are_not_exported(self) -> None:
        collector, broker = self.scene()
        publisher = self.client(broker, "publisher")
        wrong = [
            [], NOT_FOLLOWED, [("traceparent", f"00-{TRACE.upper()}-{PARENT}-01")], [*FOLLOWED, FOLLOWED[0]],
            [("traceparent", f"ff-{TRACE}-{PARENT}-01")], [("traceparent", f"00-{'0' * 32}-{PARENT}-01")],
        ]
        for properties in wrong:
            publisher.deliver("t", qos=1, properties=described(properties))
        publisher.deliver("last", qos=1, properties=described(FOLLOWED))
        [span] = self.spans(collector, 1)
        self.assertEqual(attributes(span)["messaging.destination.name"], "last")

    def test_messages_without_a_parent_are_sampled(self) -> None:
        collector, broker = self.scene("trace_sample_ratio = 1\n", threads=2)
        self.client(broker, "receiver").subscribe("t", 0)
        self.client(broker, "old", version=4).deliver("t", qos=1)
        publisher = self.client(broker, "publisher")
        publisher.deliver("t", qos=1, properties=described(NOT_FOLLOWED))
        publisher.deliver("t", qos=1)
        spans = self.spans(collector, 4)
        self.assertEqual(len(spans), 4)
        for client_id in ("old", "publisher"):
            [published] = [span for span in spans if attributes(span)["messaging.client.id"] == client_id]
            self.assertEqual((published.parent_span_id, published.flags), (b"", 1))
            [delivered] = [span for span in spans if span.parent_span_id == published.span_id]
            self.assertEqual(delivered.trace_id, published.trace_id)

    def test_the_sampling_ratio_is_respected(self) -> None:
        collector, broker = self.scene("trace_sample_ratio = 0.1\n")
        publisher = self.client(broker, "publisher")
        for _ in range(1_000):
            publisher.deliver("t", qos=0)
        publisher.deliver("last", qos=1, properties=described(FOLLOWED))
        collector.wait_for(
            lambda requests: any(span.trace_id.hex() == TRACE for span in spans_of(requests)), "the last"
        )
        self.assertIn(len(spans_of(collector.requests)), range(50, 160))

    def test_a_refusal_is_an_error_and_no_subscriber_is_not(self) -> None:
        rules = '[[role]]\nname = "r"\nrules = [{ deny = ["publish"], topics = "closed" }, { allow = ["publish"], topics = "#" }]\n[[assign]]\neveryone = true\nroles = "r"\n'
        collector, broker = self.scene(more='acl.file = "rules.toml"', files={"rules.toml": rules})
        publisher = self.client(broker, "publisher")
        self.assertEqual(publisher.deliver("closed", qos=1, properties=described(FOLLOWED)), 0x87)
        self.assertEqual(publisher.deliver("open", qos=1, properties=described(FOLLOWED)), 0x10)
        refused, unwanted = self.spans(collector, 2)
        self.assertEqual((attributes(refused)["mqtt.reason_code"], refused.status.code), (0x87, 2))
        self.assertEqual((attributes(unwanted)["mqtt.reason_code"], unwanted.status.code), (0x10, 0))

    def test_a_message_for_an_offline_client_is_in_its_queue(self) -> None:
        collector, broker = self.scene()
        receiver = self.client(broker, "receiver", expiry_s=300)
        receiver.subscribe("t", 1)
        receiver.cut()
        publisher = self.client(broker, "publisher")
        # Until the broker has noticed the disconnect.
        until = time.monotonic() + 60
        while broker.metric("sessions_connected") > 1:
            self.assertLess(time.monotonic(), until)
        publisher.deliver("t", qos=1, properties=described(FOLLOWED))
        spans = self.spans(collector, 2)
        [queued] = [span for span in spans if span.name == "deliver"]
        self.assertEqual(attributes(queued)["tautwire.delivery"], "queued")
        self.client(broker, "receiver", expiry_s=300).receive()
        [sent] = [span for span in self.spans(collector, 3) if span.name == "deliver" and span.span_id != queued.span_id]
        self.assertEqual((attributes(sent)["tautwire.delivery"], attributes(sent)["messaging.client.id"]), ("sent", "receiver"))
        self.assertEqual((sent.parent_span_id, sent.trace_id), (queued.parent_span_id, queued.trace_id))
        self.assertGreaterEqual(sent.end_time_unix_nano, queued.end_time_unix_nano)

    def test_a_message_awaiting_an_acknowledgement_is_in_the_queue(self) -> None:
        collector, broker = self.scene()
        receiver = self.client(broker, "receiver", receive_maximum=1)
        receiver.subscribe("t", 1)
        publisher = self.client(broker, "publisher")
        for _ in range(2):
            publisher.deliver("t", qos=1, properties=described(FOLLOWED))
        delivered = [attributes(span)["tautwire.delivery"] for span in self.spans(collector, 4) if span.name == "deliver"]
        self.assertEqual(delivered, ["sent", "queued"])
        receiver.receive()
        receiver.receive()
        delivered = [attributes(span)["tautwire.delivery"] for span in self.spans(collector, 5) if span.name == "deliver"]
        self.assertEqual(delivered, ["sent", "queued", "sent"])

    def deliveries(self, collector: Collector, count: int) -> list[Message]:
        """The spans below the one in which the message was published, of so many in total."""
        spans = self.spans(collector, count)
        self.assertEqual((len(spans), len({span.span_id for span in spans})), (count, count))
        [published] = [span for span in spans if span.name == "publish"]
        delivered = [span for span in spans if span.name == "deliver"]
        self.assertEqual({(span.trace_id.hex(), span.parent_span_id) for span in delivered}, {(TRACE, published.span_id)})
        return delivered

    def test_a_message_resent_after_a_reconnect_is_traced_each_time(self) -> None:
        for on_disk in (False, True):
            with self.subTest(on_disk=on_disk):
                collector, broker = self.scene(on_disk=on_disk)
                receiver = self.client(broker, "receiver", expiry_s=300, acknowledges=False)
                receiver.subscribe("t", 1)
                self.client(broker, "publisher").deliver("t", qos=1, properties=described(FOLLOWED))
                receiver.receive()
                for _ in range(2):
                    receiver.cut()
                    receiver = self.client(broker, "receiver", expiry_s=300, acknowledges=False)
                    receiver.receive()
                told = [attributes(span) for span in self.deliveries(collector, 4)]
                self.assertEqual([each["tautwire.delivery"] for each in told], ["sent", "resent", "resent"])
                self.assertEqual({each["messaging.client.id"] for each in told}, {"receiver"})
                self.assertEqual(len({each["messaging.message.id"] for each in told}), 1)

    def test_a_retained_message_is_traced_to_each_new_subscription(self) -> None:
        for qos in (0, 1, 2):
            with self.subTest(qos=qos):
                collector, broker = self.scene(threads=2)
                publisher = self.client(broker, "publisher")
                publisher.deliver("t", b"kept", qos=2, retain=True, properties=described(FOLLOWED))
                for number in range(2):
                    receiver = self.client(broker, f"receiver-{number}")
                    receiver.subscribe("t", qos)
                    self.assertEqual(receiver.receive().user_properties, FOLLOWED)
                told = [attributes(span) for span in self.deliveries(collector, 3)]
                self.assertEqual([each["tautwire.delivery"] for each in told], ["retained"] * 2)
                self.assertEqual([each["messaging.client.id"] for each in told], ["receiver-0", "receiver-1"])
                self.assertEqual({each["mqtt.qos"] for each in told}, {qos})

    def test_a_will_is_traced(self) -> None:
        for on_disk in (False, True):
            with self.subTest(on_disk=on_disk):
                collector, broker = self.scene(on_disk=on_disk)
                receiver = self.client(broker, "receiver")
                receiver.subscribe("gone", 1)
                self.client(broker, "mortal", will=wire.Will("gone", properties=described(FOLLOWED), qos=1)).cut()
                self.assertEqual(receiver.receive().user_properties, FOLLOWED)
                published, delivered = sorted(self.spans(collector, 2), key=lambda span: span.name, reverse=True)
                self.assertEqual((published.name, attributes(published)["messaging.client.id"]), ("publish", "mortal"))
                self.assertEqual((published.parent_span_id.hex(), published.trace_id.hex()), (PARENT, TRACE))
                self.assertEqual(delivered.parent_span_id, published.span_id)

    def test_a_shared_subscription_member_is_traced(self) -> None:
        for threads in (1, 3):
            with self.subTest(threads=threads):
                collector, broker = self.scene(threads=threads)
                for number in range(3):
                    self.client(broker, f"member-{number}").subscribe("$share/g/t", 1)
                publisher = self.client(broker, "publisher")
                for _ in range(6):
                    self.assertEqual(publisher.deliver("t", qos=1, properties=described(FOLLOWED)), 0)
                delivered = [span for span in self.spans(collector, 12) if span.name == "deliver"]
                members = [attributes(span)["messaging.client.id"] for span in delivered]
                self.assertEqual(sorted(members), sorted([f"member-{number}" for number in range(3)] * 2))

    def test_spans_per_message_are_limited_and_the_rest_counted(self) -> None:
        collector, broker = self.scene()
        for number in range(20):
            self.client(broker, f"receiver-{number}").subscribe("t", 0)
        self.client(broker, "publisher").deliver("t", qos=1, properties=described(FOLLOWED))
        self.assertEqual(len(self.spans(collector, 17)), 17)
        self.assertEqual(broker.metric("telemetry_spans_dropped_total"), 4)

    def test_a_stored_message_is_traced_until_acknowledged(self) -> None:
        collector, broker = self.scene(on_disk=True)
        receiver = self.client(broker, "receiver", expiry_s=300)
        receiver.subscribe("t", 1)
        publisher = self.client(broker, "publisher")
        for _ in range(50):
            self.assertEqual(publisher.deliver("t", qos=1, properties=described(FOLLOWED)), 0)
        # No span is missing.
        spans = self.spans(collector, 100)
        self.assertEqual(sorted(span.name for span in spans), ["deliver"] * 50 + ["publish"] * 50)
        ended = {attributes(span)["messaging.message.id"]: span.end_time_unix_nano for span in spans if span.name == "deliver"}
        published = [span for span in spans if span.name == "publish"]
        # The acknowledgement waits for the disk; delivery is reported when the message is in the window.
        self.assertTrue(all(span.end_time_unix_nano >= ended[attributes(span)["messaging.message.id"]] for span in published))

    def test_a_disconnected_publisher_leaves_no_span(self) -> None:
        collector, broker = self.scene(on_disk=True)
        self.client(broker, "receiver", expiry_s=300).subscribe("t", 1)
        for number in range(20):
            publisher = self.client(broker, f"publisher-{number}")
            publisher.publish("t", qos=1, properties=described(FOLLOWED))
            publisher.cut()
        self.spans(collector, 40)

    def test_topics_are_exported_only_if_configured(self) -> None:
        collector, broker = self.scene("trace_topics = false\n")
        self.client(broker, "publisher").deliver("very/secret", qos=1, properties=described(FOLLOWED))
        [span] = self.spans(collector, 1)
        self.assertNotIn("messaging.destination.name", attributes(span))
        self.assertNotIn("very/secret", collector.requests[0].body)

    def test_sys_messages_are_not_traced(self) -> None:
        collector, broker = self.scene("trace_sample_ratio = 1\n", more="sys.interval_s = 1", threads=2)
        self.client(broker, "receiver").subscribe("$SYS/#", 0)
        watcher = self.client(broker, "watcher")
        watcher.subscribe("$SYS/broker/uptime", 0)
        watcher.receive()
        watcher.deliver("last", qos=1)
        spans = self.spans(collector, 1)
        self.assertEqual([attributes(span)["messaging.destination.name"] for span in spans], ["last"])


if __name__ == "__main__":
    unittest.main()
