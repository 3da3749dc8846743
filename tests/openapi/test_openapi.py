"""Checks the OpenAPI description of the admin API against a broker's answers, on every path."""

from __future__ import annotations

import json
import unittest
from dataclasses import dataclass, field

import jsonschema
import referencing
import referencing.jsonschema

from broker import TOKENS, Broker
from served import ROOT, Answer

DOCUMENT = json.loads((ROOT / "docs" / "reference" / "admin-api.openapi.json").read_text())
METHODS = ("get", "put", "post", "delete")
ROLES = ("read", "operate", "administer")
JSON = {"Content-Type": "application/json"}


@dataclass
class Example:
    """A request, and the status of its answer. `path` is sent; the template is that of the document."""

    template: str
    method: str
    path: str
    status: int
    body: object = None
    fields: dict[str, str] = field(default_factory=dict)


BAN = {"user": "eve"}
CONTRACT = {"topics": "new/#", "format": "json", "schema": '{"type": "object"}', "on_violation": "reject"}
BROKEN = {**CONTRACT, "schema": '{"type": 3}'}
ASKED = {"client_id": "meter-7", "action": "publish", "topic": "power/3/kwh", "qos": 1, "retain": False}
ASKED_MORE = {
    "client_id": "meter-7", "user": "ann", "listener": None, "claims": {"team": "a"}, "roles": ["meters"],
    "action": "subscribe", "filter": "power/#",
}
CLIENT = "/v1/clients/{client}"

# In the order in which they are sent: deleted objects are created before.
EXAMPLES = [
    Example("/", "get", "/", 200),
    Example("/", "get", "/", 200, fields={"Accept-Encoding": "gzip"}),
    Example("/ui/{name}", "get", "/ui/app.js", 200),
    Example("/ui/{name}", "get", "/ui/app.css", 200),
    Example("/ui/{name}", "get", "/ui/other.js", 404),
    Example("/openapi.json", "get", "/openapi.json", 200),
    Example("/health", "get", "/health", 200),
    Example("/health/live", "get", "/health/live", 200),
    Example("/health/ready", "get", "/health/ready", 200),
    Example("/metrics", "get", "/metrics", 200),
    Example("/metrics", "get", "/metrics", 200, fields={"Accept": "application/json"}),
    Example("/session", "get", "/session", 200),
    Example("/session", "post", "/session", 200, {"token": TOKENS["read"]}, JSON),
    Example("/session", "post", "/session", 200, {"user": "ann", "password": "secret"}, JSON),
    Example("/session", "post", "/session", 401, {"user": "ann", "password": "wrong"}, JSON),
    Example("/session", "delete", "/session", 204),
    Example("/v1/bans", "post", "/v1/bans", 201, BAN),
    Example("/v1/bans", "post", "/v1/bans", 201, {"network": "192.0.2.0/24", "seconds": 60, "reason": "a test"}),
    Example("/v1/bans", "post", "/v1/bans", 422, {}),
    Example("/v1/bans", "get", "/v1/bans", 200),
    Example("/v1/bans", "delete", "/v1/bans", 204, BAN),
    Example("/v1/clients", "get", "/v1/clients", 200),
    Example("/v1/clients", "get", "/v1/clients?search=METER&connected=true&sort=queued_bytes&descending=true&limit=1", 200),
    Example("/v1/clients", "get", "/v1/clients?limit=0", 400),
    Example(CLIENT, "get", "/v1/clients/meter-7", 200),
    Example(CLIENT, "get", "/v1/clients/away", 200),
    Example(CLIENT, "get", "/v1/clients/nobody", 404),
    Example(f"{CLIENT}/subscriptions", "get", "/v1/clients/meter-7/subscriptions", 200),
    Example(f"{CLIENT}/why", "get", "/v1/clients/meter-7/why?topic=power/3/kwh&qos=0", 200),
    Example(f"{CLIENT}/why", "get", "/v1/clients/away/why?topic=other", 200),
    Example(f"{CLIENT}/why", "get", "/v1/clients/away/why?topic=other&retain=true&payload=x&publisher=meter-7", 200),
    Example(f"{CLIENT}/why", "get", "/v1/clients/away/why?topic=other&payload=x&payload_bytes=1", 400),
    Example(f"{CLIENT}/connection", "delete", "/v1/clients/meter-7/connection", 204),
    Example(f"{CLIENT}/session", "delete", "/v1/clients/meter-7/session", 204),
    Example("/v1/cluster", "get", "/v1/cluster", 404),
    Example("/v1/cluster/configuration", "get", "/v1/cluster/configuration?content=true", 404),
    Example("/v1/cluster/configuration", "put", "/v1/cluster/configuration?if_revision=0", 404, {"acl": None}),
    Example("/v1/cluster/drain", "post", "/v1/cluster/drain", 404),
    Example("/v1/cluster/rebalance", "post", "/v1/cluster/rebalance", 404),
    Example("/v1/config", "get", "/v1/config", 200),
    Example("/v1/config/diff", "get", "/v1/config/diff", 200),
    Example("/v1/config/reload", "post", "/v1/config/reload", 200),
    Example("/v1/contracts/{name}", "put", "/v1/contracts/new", 201, CONTRACT),
    Example("/v1/contracts/{name}", "put", "/v1/contracts/new", 200, CONTRACT),
    Example("/v1/contracts/{name}", "put", "/v1/contracts/broken", 422, BROKEN),
    Example("/v1/contracts", "get", "/v1/contracts", 200),
    Example("/v1/contracts/{name}", "get", "/v1/contracts/state", 200),
    Example("/v1/contracts/{name}", "delete", "/v1/contracts/new", 204),
    Example("/v1/explain", "post", "/v1/explain", 200, ASKED),
    Example("/v1/explain", "post", "/v1/explain", 200, ASKED_MORE),
    Example("/v1/explain", "post", "/v1/explain", 422, {"client_id": "a"}),
    Example("/v1/bridges", "get", "/v1/bridges", 200),
    Example("/v1/bridges/{bridge}", "get", "/v1/bridges/hq", 200),
    Example("/v1/bridges/{bridge}", "get", "/v1/bridges/none", 404),
    Example("/v1/bridges/{bridge}/pause", "post", "/v1/bridges/hq/pause", 204),
    Example("/v1/bridges/{bridge}/resume", "post", "/v1/bridges/hq/resume", 204),
    Example("/v1/bridges/{bridge}/test", "post", "/v1/bridges/hq/test", 200),
    Example("/v1/listeners", "get", "/v1/listeners", 200),
    Example("/v1/messages/{topic}", "post", "/v1/messages/power/3/kwh?qos=1", 200, {"kwh": 1}),
    Example("/v1/messages/{topic}", "post", "/v1/messages/state/a", 422, {"id": 1}),
    Example("/v1/messages/{topic}", "post", "/v1/messages/state/a?retain=true", 200, {"id": "a"}),
    Example("/v1/contracts", "get", "/v1/contracts", 200),
    Example("/v1/contracts/{name}", "get", "/v1/contracts/state", 200),
    Example("/v1/overview", "get", "/v1/overview", 200),
    Example("/v1/overview/history", "get", "/v1/overview/history", 200),
    Example("/v1/topics", "get", "/v1/topics", 200),
    Example("/v1/topics", "get", "/v1/topics?parent=state", 200),
    Example("/v1/retained/{topic}", "get", "/v1/retained/state/a", 200),
    Example("/v1/retained/{topic}", "get", "/v1/retained/state/b", 404),
    Example("/v1/retained", "get", "/v1/retained?filter=state/%2B&limit=1", 200),
    Example("/v1/retained", "delete", "/v1/retained?filter=state/a", 200),
    Example("/v1/rules", "get", "/v1/rules", 200),
    Example("/v1/rules", "get", "/v1/rules?role=all&limit=1&after=0", 200),
    Example("/v1/rules", "get", "/v1/rules?after=x", 400),
    Example("/v1/topic-metrics", "get", "/v1/topic-metrics", 200),
    Example("/v1/tap", "get", "/v1/tap?filter=power/%23&rate=10", 200),
]

REGISTRY = referencing.Registry().with_resource(
    "openapi.json", referencing.jsonschema.DRAFT202012.create_resource(DOCUMENT)
)


def operation(template: str, method: str) -> dict:
    return DOCUMENT["paths"][template][method]


def at(*names: str) -> dict:
    """Returns the schema at this place of the document."""
    escaped = [name.replace("~", "~0").replace("/", "~1") for name in names]
    return {"$ref": "openapi.json#/" + "/".join(escaped)}


def check(value: object, schema: dict) -> None:
    jsonschema.Draft202012Validator(schema, registry=REGISTRY).validate(value)


class OpenApi(unittest.TestCase):
    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = Broker()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.broker.close()

    def test_schemas_are_valid_and_operations_have_unique_names(self) -> None:
        for schema in DOCUMENT["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)
        names = [operation(path, method)["operationId"] for path, method in self.operations()]
        self.assertEqual(len(names), len(set(names)))

    def test_the_broker_serves_the_document(self) -> None:
        self.assertEqual(json.loads(self.broker.ask("GET", "/openapi.json").body), DOCUMENT)

    def test_each_operation_responds_as_documented(self) -> None:
        self.broker.connect("meter-7")
        self.broker.connect("away").close()
        seen = set()
        for example in EXAMPLES:
            with self.subTest(f"{example.method} {example.path}"):
                needs = operation(example.template, example.method)["x-required-role"]
                answer = self.sent(example, "payloads" if needs == "payloads" else "administer")
                self.assertEqual(answer.status, example.status, answer.body)
                self.check_answer(example, answer)
                seen.add((example.template, example.method, str(answer.status)))
        for path, method in self.operations():
            # A failed disk, a stopping broker and unchanged content have tests of their own. This broker is not in a cluster.
            if path.startswith("/v1/cluster"):
                continue
            expected = {status for status in operation(path, method)["responses"] if status.startswith("2")}
            missing = {status for status in expected if (path, method, status) not in seen}
            self.assertFalse(missing, f"{method} {path} has no example that is answered with {missing}")

    def test_an_operation_requires_its_documented_role(self) -> None:
        for path, method in self.operations():
            needs = operation(path, method)["x-required-role"]
            # Requests that change nothing: they are refused, or invalid.
            sent = next(e for e in EXAMPLES if (e.template, e.method) == (path, method))
            harmless = Example(path, method, sent.path.replace("meter-7", "nobody"), 0, {}, sent.fields)
            with self.subTest(f"{method} {path}"):
                nobody = self.sent(harmless, None).status
                # A login without credentials is invalid, not refused.
                self.assertEqual(nobody == 401, needs != "none")
                for role in ("payloads", *ROLES):
                    self.assertEqual(self.sent(harmless, role).status == 403, not self.may(role, needs), role)

    def may(self, role: str, needs: str) -> bool:
        if needs in ("none", "authenticated"):
            return True
        if needs == "payloads":
            return role == "payloads"
        return ROLES.index("read" if role == "payloads" else role) >= ROLES.index(needs)

    def sent(self, example: Example, who: str | None) -> Answer:
        fields = dict(example.fields)
        if who is not None:
            fields["Authorization"] = f"Bearer {TOKENS[who]}"
        takes_body = "requestBody" in operation(example.template, example.method)
        body = json.dumps(example.body).encode() if takes_body else None
        return self.broker.ask(example.method.upper(), example.path, body, fields)

    def check_answer(self, example: Example, answer: Answer) -> None:
        described = operation(example.template, example.method)
        if answer.status < 400 and "application/json" in described.get("requestBody", {}).get("content", {}):
            place = ("paths", example.template, example.method, "requestBody", "content", "application/json", "schema")
            check(example.body, at(*place))
        status = str(answer.status)
        if status not in described["responses"]:
            self.assertGreaterEqual(answer.status, 400, "it is not described")
            check(json.loads(answer.body), at("components", "schemas", "Error"))
            return
        response = described["responses"][status]
        content = response.get("content")
        if content is None:
            self.assertEqual(answer.body, b"")
            return
        self.assertIn(answer.media_type, content)
        if answer.media_type == "application/json":
            place = ("paths", example.template, example.method, "responses", status)
            check(json.loads(answer.body), at(*place, "content", answer.media_type, "schema"))

    def operations(self) -> list[tuple[str, str]]:
        return [(path, method) for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item]


if __name__ == "__main__":
    unittest.main()
