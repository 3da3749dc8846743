"""The telemetry that a broker sends to an OpenTelemetry collector, and its handling of one that refuses it."""

from __future__ import annotations

import re
import socket
import time
import unittest
from collections.abc import Iterator

from broker import Broker
from collector import Answer, Collector, Request
from google.protobuf.message import Message
from judge import Wrong, judge

METRICS, LOGS = "/v1/metrics", "/v1/logs"
# The time limit for stopping the broker, including the two seconds for the collector, on a busy machine.
END_S = 15
FAST = "metrics_interval_s = 1\n"


def attributes(holder: Message) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in holder.attributes}


def metrics_of(request: Request) -> Iterator[Message]:
    for resource in request.message.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def records_of(requests: list[Request]) -> Iterator[Message]:
    for request in requests:
        for resource in request.message.resource_logs:
            for scope in resource.scope_logs:
                yield from scope.log_records


def has(path: str, count: int = 1):
    return lambda requests: sum(request.path == path for request in requests) >= count


class Telemetry(unittest.TestCase):
    def collector(self, port: int = 0) -> Collector:
        collector = Collector(port)
        self.addCleanup(collector.close)
        return collector

    def broker(self, settings: str, **more: object) -> Broker:
        broker = Broker(settings, **more)
        self.addCleanup(broker.close)
        return broker

    def wait_until(self, holds, what: str) -> None:
        until = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.02)

    def test_all_metrics_of_the_admin_api_are_sent(self) -> None:
        collector = self.collector()
        broker = self.broker(f'endpoint = "{collector.url}"\nlogs = false\n{FAST}')
        broker.refuse_connects(3)
        collector.wait_for(has(METRICS, 2), "metrics")
        first, second = collector.of(METRICS)[:2]
        text = broker.told("GET", "/metrics")
        for request in (first, second):
            sent = {metric.name: metric for metric in metrics_of(request)}
            named = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
            self.assertEqual(sent.keys(), named.keys())
            kinds = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}
            self.assertEqual({name: metric.WhichOneof("data") for name, metric in sent.items()}, {name: kinds[kind] for name, kind in named.items()})
        sent = {metric.name: metric for metric in metrics_of(second)}
        refused = sent["tautwire_connects_refused_total"].sum
        self.assertTrue(refused.is_monotonic)
        self.assertEqual(refused.aggregation_temporality, 2)
        self.assertEqual(refused.data_points[0].as_int, 3)
        point = refused.data_points[0]
        self.assertLess(point.start_time_unix_nano, point.time_unix_nano)
        self.assertLess(abs(point.time_unix_nano / 1e9 - time.time()), 60)
        listeners = sent["tautwire_listener_connections"].gauge.data_points
        self.assertEqual([attributes(point) for point in listeners], [{"listener": re.search('listener="([^"]+)"', text)[1]}])
        self.assertEqual((sent["tautwire_stored_bytes"].unit, sent["tautwire_uptime_seconds"].unit), ("By", "s"))

    def test_the_broker_sends_its_resource_attributes(self) -> None:
        collector = self.collector()
        settings = f'endpoint = "{collector.url}"\n{FAST}'
        self.broker(settings + 'attributes = ["deployment.environment.name=test", "host.name=here"]\nservice_name = "plant-7"\n')
        collector.wait_for(lambda requests: has(METRICS)(requests) and has(LOGS)(requests), "metrics and log")
        [metrics] = collector.of(METRICS)[0].message.resource_metrics
        [logs] = collector.of(LOGS)[0].message.resource_logs
        said = attributes(metrics.resource)
        self.assertEqual(said, attributes(logs.resource))
        self.assertEqual((said["service.name"], said["host.name"], said["deployment.environment.name"]), ("plant-7", "here", "test"))
        self.assertRegex(said["service.instance.id"], r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertRegex(said["service.version"], r"^\d+\.\d+\.\d+")

    def test_log_lines_are_sent_from_start_to_stop(self) -> None:
        collector = self.collector()
        broker = self.broker(f'endpoint = "{collector.url}"\nmetrics = false\n', more="log.level = \"debug\"\nlog.format = \"json\"")
        broker.refuse_connects(2)
        broker.end()
        records = list(records_of(collector.of(LOGS)))
        bodies = [record.body.string_value for record in records]
        self.assertIn("state is stored in memory only: a restart loses it", bodies)
        self.assertIn("stopping", bodies)
        self.assertEqual(sum("refused connection" in body for body in bodies), 2, bodies)
        for record in records:
            self.assertEqual((record.severity_number, record.severity_text) in {(17, "ERROR"), (13, "WARN"), (9, "INFO"), (5, "DEBUG")}, True)
            self.assertIn("target", attributes(record))
        # Everything on standard error, except the lines before the destination was known, and those about sending itself.
        lines = re.findall(r'"target":"([^"]*)","message":"((?:[^"\\\\]|\\\\.)*)"', broker.log(), re.M)
        own = re.compile("ureq|rustls|tautwire::telemetry")
        self.assertEqual([message for target, message in lines if not own.match(target)][-len(bodies):], [body.replace('"', '\\"') for body in bodies])
        self.assertEqual([], collector.wrong)

    def test_disabled_telemetry_sends_nothing_and_has_no_thread(self) -> None:
        broker = self.broker("")
        threads = [path.read_text().strip() for path in broker.threads()]
        self.assertNotIn("telemetry", threads)
        broker.end()

    def test_a_late_collector_receives_earlier_log_lines(self) -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        broker = self.broker(f'endpoint = "http://127.0.0.1:{port}"\n{FAST}')
        broker.refuse_connects(1)
        self.wait_until(lambda: broker.metric("telemetry_requests_failed_total") >= 2, "it is tried again")
        self.assertEqual(broker.log().count("cannot send telemetry to the collector"), 1)
        collector = self.collector(port)
        collector.wait_for(has(METRICS), "metrics")

        def refusals() -> int:
            """Earlier log lines may arrive in several requests."""
            return sum("refused connection" in record.body.string_value for record in records_of(collector.of(LOGS)))

        self.wait_until(lambda: refusals() > 0, "the log of before has come")
        self.assertEqual(refusals(), 1)
        self.wait_until(lambda: "collector accepts requests again" in broker.log(), "it is told")
        self.assertEqual(broker.metric("telemetry_log_records_dropped_total"), 0)

    def test_permanently_failed_batches_are_counted_and_dropped(self) -> None:
        for answer in (Answer(500), Answer(400), Answer(302, fields={"Location": "/v1/elsewhere"})):
            with self.subTest(answer=answer):
                collector = self.collector()
                collector.answer = lambda request, answer=answer: answer if request.path == LOGS else Answer()
                broker = self.broker(f'endpoint = "{collector.url}"\nmetrics = false\n')
                collector.wait_for(has(LOGS), "the log")
                lost = len(list(records_of(collector.of(LOGS)[:1])))
                self.wait_until(lambda: broker.metric("telemetry_items_refused_total") >= lost, "it is counted")
                first = collector.of(LOGS)[0].body
                broker.refuse_connects(1)
                collector.wait_for(has(LOGS, 2), "what comes later")
                self.assertNotEqual(first, collector.of(LOGS)[1].body)

    def test_retryable_batches_are_resent_unchanged(self) -> None:
        for status in (429, 502, 503, 504):
            with self.subTest(status=status):
                collector = self.collector()
                collector.answer = lambda _, status=status: Answer(status if len(collector.requests) == 1 else 200)
                broker = self.broker(f'endpoint = "{collector.url}"\nmetrics = false\n')
                collector.wait_for(has(LOGS, 2), "it is tried again")
                first, second = collector.of(LOGS)[:2]
                self.assertEqual(first.body, second.body)
                self.assertGreater(second.at_s - first.at_s, 0.4)
                self.wait_until(lambda: broker.metric("telemetry_items_sent_total") > 0, "it is counted")

    def test_retry_after_is_respected(self) -> None:
        collector = self.collector()
        collector.answer = lambda _: Answer(429, fields={"Retry-After": "3"}) if len(collector.requests) == 1 else Answer()
        self.broker(f'endpoint = "{collector.url}"\n{FAST}')
        collector.wait_for(lambda requests: len(requests) >= 2, "it is tried again")
        # Metrics are due each second, and wait as well.
        first, second = collector.requests[:2]
        self.assertGreaterEqual(second.at_s - first.at_s, 3)

    def test_a_collector_can_refuse_some_items(self) -> None:
        collector = self.collector()
        refusal = Answer(body=b'{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"x"}}')
        # Of the first request alone: how many requests the lines of a start take depends on the machine.
        collector.answer = lambda _: refusal if len(collector.requests) == 1 else Answer()
        broker = self.broker(f'endpoint = "{collector.url}"\nmetrics = false\n')
        collector.wait_for(has(LOGS), "the log")
        self.wait_until(lambda: broker.metric("telemetry_items_refused_total") == 1, "it is counted")
        self.assertEqual(broker.metric("telemetry_requests_failed_total"), 0)

    def test_an_unresponsive_collector_delays_nothing(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        broker = self.broker(f'endpoint = "{url}"\n{FAST}', more='log.level = "info"\nlog.rate_limit_burst = 0')
        # More lines than there is room for.
        broker.refuse_connects(3_000)
        self.assertGreater(broker.metric("telemetry_log_records_dropped_total"), 0)
        begin = time.monotonic()
        broker.end()
        self.assertLess(time.monotonic() - begin, END_S)

    def test_request_headers_come_from_a_file_and_stay_secret(self) -> None:
        collector, other = self.collector(), self.collector()
        broker = self.broker("", more='log.level = "debug"')
        (broker.folder / "headers").write_text("Authorization: Bearer very-secret\nx-scope: 7\n")
        reloaded = broker.reload(f'endpoint = "{collector.url}"\nheaders_file = "headers"\n{FAST}')
        self.assertIn("telemetry.headers_file", reloaded["applied"])
        collector.wait_for(lambda requests: has(METRICS)(requests) and has(LOGS)(requests), "both")
        for request in collector.requests:
            self.assertEqual((request.fields["authorization"], request.fields["x-scope"]), ("Bearer very-secret", "7"))
        broker.reload(f'endpoint = "{other.url}"\n{FAST}')
        other.wait_for(has(METRICS), "the other")
        self.assertNotIn("authorization", other.requests[0].fields)
        broker.end()
        self.assertNotIn("very-secret", broker.log())
        self.assertFalse([record for record in records_of(collector.of(LOGS)) if "very-secret" in record.body.string_value])

    def test_telemetry_can_be_disabled_by_a_reload(self) -> None:
        collector = self.collector()
        broker = self.broker(f'endpoint = "{collector.url}"\n{FAST}')
        collector.wait_for(has(METRICS), "metrics")
        broker.reload("")
        sent = broker.metric("telemetry_requests_total")
        # Requests in flight may still arrive.
        time.sleep(2.5)
        self.assertLessEqual(broker.metric("telemetry_requests_total"), sent + 1)


class Judge(unittest.TestCase):
    """It detects errors."""

    def test_invalid_settings_are_refused(self) -> None:
        record = '{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}'
        judge(LOGS, record.format('{"timeUnixNano":"1","severityNumber":9}'))
        wrong = [
            '{"timeUnixNano":1}', '{"time_unix_nano":"1"}', '{"severityNumber":"9"}', '{"severityNumber":99}',
            '{"traceId":"xyz"}', '{"other":1}', '{"flags":1,"flags":1}', '{"spanId":"0000000000000000"}',
        ]
        for text in wrong:
            with self.subTest(text=text), self.assertRaises(Wrong):
                judge(LOGS, record.format(text))


if __name__ == "__main__":
    unittest.main()
