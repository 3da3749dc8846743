"""The shared configuration of a cluster: pushed to one node, it applies to all. Three nats-servers
and three brokers, from the paths that `make test-cluster` sets."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import JETSTREAM_MAX, PATIENCE_S
import wire
from client import Client
from processes import Broker, Stage, program, wait_until

PATH = "/v1/cluster/configuration"
BAD_USER_NAME_OR_PASSWORD, NOT_AUTHORIZED, PAYLOAD_FORMAT_INVALID = 0x86, 0x87, 0x99
BANNED, ADMINISTRATIVE_ACTION = 0x8A, 0x98
TAKEN = (wire.SUCCESS, wire.NO_MATCHING_SUBSCRIBERS)
REFUSED_EXIT = 3
PASSWORD = "correct horse"

RULES = """
[[role]]
name = "writer"
rules = [{ allow = ["publish", "subscribe"], topics = "%s/#" }]

[users]
ann = "writer"
bob = "writer"
"""
CONTRACTS = """
[[contract]]
name = "reading"
topics = "readings"
format = "json"
schema = "reading.json"
on_violation = "reject"
"""
SCHEMA = '{"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}'


class Configuration(unittest.TestCase):
    stage: Stage

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="tautwire-configuration-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.stage = cls.enterClassContext(Stage(cls.folder, program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")))
        cls.stage.start_servers(3, of_jetstream=JETSTREAM_MAX)
        cls.stage.start_brokers(3)
        for name in ("ann", "bob"):
            (cls.folder / "password").write_text(PASSWORD)
            words = ["user", "add", name, "--no-scram", "--file", str(cls.folder / "users"), "--password-file", str(cls.folder / "password")]
            subprocess.run([program("TAUTWIRE"), *words], check=True, capture_output=True)
        cls.users = (cls.folder / "users").read_text()
        cls.ann_alone = "".join(line for line in cls.users.splitlines(True) if line.startswith("ann:"))

    def setUp(self) -> None:
        """Each node has its own rules, users and contracts, which are empty."""
        self.brokers = list(self.stage.brokers[:3])
        for broker in self.brokers:
            wait_until(f"{broker.name} serves", broker.is_serving, PATIENCE_S)
        self.put(self.brokers[0], {"acl": None, "users": None, "contracts": None, "bans": None})

    def test_rules_and_users_apply_on_all_nodes_without_disconnects(self) -> None:
        self.put(self.brokers[0], {"users": self.users, "acl": RULES % "a"})
        clients = [self.client(broker, f"ann-{broker.name}", "ann") for broker in self.brokers]
        for client, broker in zip(clients, self.brokers):
            self.assertIn(client.deliver("a/1", qos=1), TAKEN, broker.name)
            self.assertEqual(client.deliver("b/1", qos=1), NOT_AUTHORIZED, broker.name)
            self.assertEqual(self.client(broker, "nobody").reason, NOT_AUTHORIZED)
        self.put(self.brokers[1], {"acl": RULES % "b"})
        for client, broker in zip(clients, self.brokers):
            self.assertIn(client.deliver("b/1", qos=1), TAKEN, broker.name)
            self.assertEqual(client.deliver("a/1", qos=1), NOT_AUTHORIZED, broker.name)

    def test_a_removed_user_is_disconnected_from_all_nodes(self) -> None:
        self.put(self.brokers[0], {"users": self.users})
        anns = [self.client(broker, f"ann-{broker.name}", "ann") for broker in self.brokers]
        bobs = [self.client(broker, f"bob-{broker.name}", "bob") for broker in self.brokers]
        self.assertEqual([client.reason for client in anns + bobs], [wire.SUCCESS] * 6)
        self.put(self.brokers[2], {"users": self.ann_alone})
        self.assertEqual([bob.await_end() for bob in bobs], [NOT_AUTHORIZED] * 3)
        for ann in anns:
            ann.ping()
        for broker in self.brokers:
            self.assertEqual(self.client(broker, "bob-again", "bob").reason, BAD_USER_NAME_OR_PASSWORD)

    def test_one_of_two_concurrent_changes_is_refused(self) -> None:
        number = self.shown(self.brokers[0])["number"]
        bodies = [{"acl": RULES % "a"}, {"acl": RULES % "b"}]
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda at: self.request(self.brokers[at], "PUT", f"{PATH}?if_revision={number}", bodies[at]), range(2)))
        self.assertEqual(sorted(status for status, _ in answers), [200, 409])
        self.assertIn("configuration_changed", {body.get("code") for _, body in answers})
        status, body = self.request(self.brokers[2], "PUT", f"{PATH}?if_revision={number}", bodies[0])
        self.assertEqual((status, body["code"]), (409, "configuration_changed"))
        status, body = self.request(self.brokers[2], "PUT", PATH, bodies[0])
        self.assertEqual((status, body["code"]), (400, "bad_query"))

    def test_an_invalid_change_has_no_effect_on_any_node(self) -> None:
        self.put(self.brokers[0], {"users": self.users, "acl": RULES % "a"})
        number = self.shown(self.brokers[0])["number"]
        for wrong in ({"acl": "[[role]]\nname = 1\n"}, {"users": "ann"}, {"contracts": {"contracts.toml": "x"}}):
            status, body = self.request(self.brokers[1], "PUT", f"{PATH}?if_revision={number}", wrong)
            self.assertEqual((status, body["code"]), (422, "config_wrong"), body)
            self.assertTrue(body["errors"][0].startswith(f"cluster/{next(iter(wrong))}"), body)
        for broker in self.brokers:
            self.assertEqual(self.shown(broker)["number"], number)
            self.assertIn(self.client(broker, "ann", "ann").deliver("a/1", qos=1), TAKEN)

    def test_a_restarted_node_applies_the_configuration_before_it_serves(self) -> None:
        broker = self.brokers[2]
        port = broker.port
        broker.stop()
        self.put(self.brokers[0], {"users": self.users}, self.brokers[:2])
        broker.begin()
        codes: set[int | None] = set()

        def serves() -> bool:
            try:
                client = Client(port, "early", may_be_refused=True)
            except OSError:
                return False
            codes.add(client.reason)
            client.close()
            return client.reason == NOT_AUTHORIZED

        # Its own users file is empty, so it would accept every client.
        wait_until("the node knows the users", serves, PATIENCE_S)
        self.assertNotIn(wire.SUCCESS, codes)
        broker.await_listening()
        self.assertEqual(self.client(broker, "ann", "ann").reason, wire.SUCCESS)

    def test_contracts_apply_on_all_nodes_and_a_new_one_is_a_revision(self) -> None:
        self.put(self.brokers[0], {"contracts": {"contracts.toml": CONTRACTS, "reading.json": SCHEMA}})
        self.expect_contract("readings")
        # The reload of one node changes nothing.
        self.assertEqual(self.request(self.brokers[0], "POST", "/v1/config/reload")[0], 200)
        self.expect_contract("readings")
        number = self.shown(self.brokers[0])["number"]
        entry = {"topics": "more", "format": "json", "schema": SCHEMA, "on_violation": "reject"}
        self.assertEqual(self.request(self.brokers[1], "PUT", "/v1/contracts/more", entry)[0], 201)
        self.await_number(number + 1, self.brokers)
        self.expect_contract("more")
        self.assertEqual(self.request(self.brokers[2], "DELETE", "/v1/contracts/reading")[0], 204)
        self.await_number(number + 2, self.brokers)
        for broker in self.brokers:
            self.assertIn(self.client(broker, "reader").deliver("readings", b"{}", qos=1), TAKEN)
        self.assertEqual(self.request(self.brokers[2], "DELETE", "/v1/contracts/reading")[0], 404)

    def test_a_ban_applies_on_all_nodes_until_any_node_lifts_it(self) -> None:
        self.put(self.brokers[0], {"users": self.users})
        anns = [self.client(broker, f"ann-{broker.name}", "ann") for broker in self.brokers]
        bobs = [self.client(broker, f"bob-{broker.name}", "bob") for broker in self.brokers]
        self.assertEqual([client.reason for client in anns + bobs], [wire.SUCCESS] * 6)
        # Two operators at once, at two nodes: neither ban is lost.
        bans = [{"user": "bob", "reason": "noise"}, {"client_id": "eve"}]
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda at: self.request(self.brokers[at], "POST", "/v1/bans", bans[at]), range(2)))
        self.assertEqual([status for status, _ in answers], [201, 201], answers)
        self.await_number(max(self.shown(broker)["number"] for broker in self.brokers[:2]), self.brokers)
        self.assertEqual([bob.await_end() for bob in bobs], [ADMINISTRATIVE_ACTION] * 3)
        for ann in anns:
            ann.ping()
        # A new node has them before it serves, although no file contains them.
        late = self.stage.add_broker([])
        self.addCleanup(self.stage.brokers.remove, late)
        self.addCleanup(late.stop)
        late.start()
        wait_until("it serves", late.is_serving, PATIENCE_S)
        for broker in [*self.brokers, late]:
            self.assertEqual(self.client(broker, "bob-again", "bob").reason, BANNED, broker.name)
            self.assertEqual(self.client(broker, "eve", "ann").reason, BANNED, broker.name)
            self.assertFalse(list(broker.folder.rglob("bans.json")))
        self.assertEqual(self.request(late, "DELETE", "/v1/bans", {"user": "bob"})[0], 204)
        self.await_number(self.shown(late)["number"], self.brokers)
        for broker in self.brokers:
            self.assertEqual(self.client(broker, "bob-again", "bob").reason, wire.SUCCESS, broker.name)
            self.assertEqual(self.client(broker, "eve", "ann").reason, BANNED, broker.name)
        self.assertEqual(self.request(self.brokers[0], "DELETE", "/v1/bans", {"user": "bob"})[0], 404)

    def test_the_command_shows_pushes_and_pulls(self) -> None:
        contracts = self.folder / "contracts"
        contracts.mkdir()
        (contracts / "contracts.toml").write_text(CONTRACTS)
        (contracts / "reading.json").write_text(SCHEMA)
        pushed = self.run_command(1, "push", "--users", str(self.folder / "users"), "--contracts", str(contracts))
        self.assertEqual(pushed.returncode, 0, pushed.stderr)
        number = self.shown(self.brokers[1])["number"]
        self.await_number(number, self.brokers)
        shown = self.run_command(0, "show")
        self.assertIn(f"revision    {number}\n", shown.stdout)
        self.assertNotIn("argon2id", shown.stdout + pushed.stdout)
        pulled = self.run_command(2, "pull", str(self.folder / "pulled"))
        self.assertEqual(pulled.returncode, 0, pulled.stderr)
        self.assertEqual((self.folder / "pulled" / "users").read_text(), self.users)
        self.assertEqual((self.folder / "pulled" / "users").stat().st_mode & 0o077, 0)
        self.assertEqual((self.folder / "pulled" / "contracts" / "reading.json").read_text(), SCHEMA)
        again = self.run_command(2, "push", "--remove", "contracts", "--if-revision", str(number))
        self.assertEqual(again.returncode, 0, again.stderr)
        late = self.run_command(0, "push", "--remove", "users", "--if-revision", str(number))
        self.assertEqual(late.returncode, REFUSED_EXIT, late.stdout + late.stderr)
        self.assertIn("configuration_changed", late.stderr)
        for broker in self.brokers:
            self.assertNotIn("argon2id", broker.said())

    def test_a_node_that_cannot_apply_a_revision_reports_it(self) -> None:
        secret = self.folder / "jwt.secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        secret.chmod(0o600)
        self.put(self.brokers[0], {"users": self.users})
        odd = self.stage.add_broker([f"auth.jwt_secret_file={secret}"])
        self.addCleanup(self.stage.brokers.remove, odd)
        self.addCleanup(odd.stop)
        odd.start()
        wait_until("it serves", odd.is_serving, PATIENCE_S)
        ann = self.client(odd, "ann", "ann")
        self.assertEqual(ann.reason, wire.SUCCESS)
        secret.rename(self.folder / "away")
        self.put(self.brokers[0], {"acl": RULES % "a"})
        wait_until("it is behind", lambda: self.shown(odd)["lagging"], PATIENCE_S)
        self.assertIn("jwt.secret", self.shown(odd)["reasons"][0])
        self.assertEqual(self.request(odd, "GET", "/health/ready"), (503, {"status": "waiting", "cluster": "configuration"}))
        ann.ping()
        self.assertNotEqual(self.client(odd, "late", "ann").reason, wire.SUCCESS)
        status, metrics = self.request(odd, "GET", "/metrics")
        self.assertEqual((status, "tautwire_cluster_configuration_lagging 1" in metrics), (200, True))
        (self.folder / "away").rename(secret)
        self.assertEqual(self.request(odd, "POST", "/v1/config/reload")[0], 200)
        wait_until("it has it", lambda: not self.shown(odd)["lagging"], PATIENCE_S)
        wait_until("it is open", lambda: self.client(odd, "late", "ann").reason == wire.SUCCESS, PATIENCE_S)
        self.assertEqual(ann.deliver("b/1", qos=1), NOT_AUTHORIZED)

    def expect_contract(self, topic: str) -> None:
        for broker in self.brokers:
            client = self.client(broker, f"{topic}-{broker.name}")
            self.assertEqual(client.deliver(topic, b'{"celsius": "warm"}', qos=1), PAYLOAD_FORMAT_INVALID, broker.name)
            self.assertIn(client.deliver(topic, b'{"celsius": 1}', qos=1), TAKEN, broker.name)

    def client(self, broker: Broker, name: str, user: str | None = None) -> Client:
        client = Client(broker.port, name, login=(user, PASSWORD) if user else None, may_be_refused=True)
        self.addCleanup(client.close)
        return client

    def run_command(self, at: int, *words: str) -> subprocess.CompletedProcess[str]:
        broker = self.brokers[at]
        where = ["--admin", f"http://{broker.admin}", "--token-file", str(broker.folder / "token")]
        return subprocess.run([program("TAUTWIRE"), "cluster", "config", *words, *where], capture_output=True, text=True)

    def put(self, broker: Broker, parts: dict, brokers: list[Broker] | None = None) -> None:
        """Pushes to one node, and waits until the others have it, too."""

        def pushed() -> int | None:
            number = self.shown(broker)["number"]
            status, body = self.request(broker, "PUT", f"{PATH}?if_revision={number}", parts)
            self.assertIn(status, (200, 409, 503), body)
            return body["number"] if status == 200 else None

        number = wait_until("the revision is accepted", pushed, PATIENCE_S)
        self.await_number(number, self.brokers if brokers is None else brokers)

    def await_number(self, number: int, brokers: list[Broker]) -> None:
        for broker in brokers:
            wait_until(f"{broker.name} has revision {number}", lambda broker=broker: self.shown(broker)["current"] >= number, PATIENCE_S)

    def shown(self, broker: Broker) -> dict:
        status, body = self.request(broker, "GET", PATH)
        self.assertEqual(status, 200, body)
        return body

    def request(self, broker: Broker, method: str, path: str, body: dict | None = None) -> tuple[int, dict | str]:
        data = None if body is None and method == "GET" else json.dumps(body or {}).encode()
        headers = {"Authorization": f"Bearer {broker.token}"}
        request = urllib.request.Request(f"http://{broker.admin}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            status, text = refusal.code, refusal.read().decode()
        return status, json.loads(text) if text.startswith("{") else text


if __name__ == "__main__":
    unittest.main()
