"""What comes in is checked like what any client publishes: access rules, contracts, limits."""

from __future__ import annotations

import unittest

from brokers import Tautwire, until
from stage import Stage, received

RULES = '{ filter = "up/#", direction = "out", qos = 2 }, { filter = "down/#", direction = "in", qos = 2 }'
ACCESS = """
[[role]]
name = "bridges"
rules = [
    { deny = "publish", topics = "down/secret/#" },
    { allow = "publish", topics = "down/#" },
    { deny = "subscribe", topics = "#" },
]
[[role]]
name = "everybody"
rules = [{ allow = ["publish", "subscribe"], topics = "#" }]
[[assign]]
anonymous = true
roles = ["everybody"]
"""
CONTRACT = '[[contract]]\nname = "state"\ntopics = "down/state/{id}"\nformat = "json"\nschema = "state.json"\non_violation = "reject"\n'
SCHEMA = '{"type": "object", "required": ["id"]}'


class Rights(Stage):
    def ours_with(self, settings: str, files: dict[str, str], more: str = ""):
        other = self.started(Tautwire(self.folder / "other"))
        folder = self.folder / "ours"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        return self.ours(RULES, other, settings=settings, more=more), other

    def send(self, ours, other, topic: str, payload: bytes, qos: int) -> None:
        self.client(other, f"publisher-{topic.replace('/', '-')}-{qos}-{len(payload)}").deliver(topic, payload, qos=qos)

    def test_access_rules_refuse_messages_and_subscriptions(self) -> None:
        ours, other = self.ours_with('[acl]\nfile = "access.toml"\n', {"access.toml": ACCESS}, 'roles = ["bridges"]\n')
        here = self.observer(ours, "down/#")
        for qos in (0, 1, 2):
            self.send(ours, other, "down/secret/x", b"secret", qos)
        self.send(ours, other, "down/open", b"open", 2)
        self.assertEqual(here.receive().payload, b"open")
        until("the refusals are not counted", lambda: ours.not_forwarded("refused_in") == 2)
        line = ours.await_log("refused the subscription of a rule")
        self.assertIn("filter=up/#", line)
        self.assertIn("this broker", line)
        self.assertEqual(ours.connections(), 1)

    def test_contracts_refuse_messages(self) -> None:
        files = {"contracts/contracts.toml": CONTRACT, "contracts/state.json": SCHEMA}
        ours, other = self.ours_with('[contracts]\npath = "contracts"\n', files)
        here = self.observer(ours, "down/#")
        for qos in (1, 2):
            self.send(ours, other, "down/state/a", b"no object", qos)
        self.send(ours, other, "down/state/a", b'{"id": 1}', 2)
        self.assertEqual(here.receive().payload, b'{"id": 1}')
        until("the refusals are not counted", lambda: ours.not_forwarded("refused_in") == 2)
        # The other broker has removed the messages: they do not come again.
        other.relay.cut()
        ours.await_connected(times=2)
        self.send(ours, other, "down/open", b"open", 2)
        self.assertEqual(here.receive().payload, b"open")
        self.assertEqual(ours.not_forwarded("refused_in"), 2)

    def test_the_limit_of_payloads_is_that_of_clients(self) -> None:
        ours, other = self.ours_with("[limits]\npayload_bytes = 100\n", {})
        here = self.observer(ours, "down/#")
        self.send(ours, other, "down/x", bytes(200), 1)
        self.send(ours, other, "down/x", b"small", 1)
        self.assertEqual([message.payload for message in received(here, 1)], [b"small"])
        until("the refusal is not counted", lambda: ours.not_forwarded("refused_in") == 1)

    def test_the_rate_of_the_bridge_is_that_of_a_client(self) -> None:
        ours, other = self.ours_with("[limits]\npublish_messages_per_s = 20\n", {})
        here = self.observer(ours, "down/#")
        publisher = self.client(other, "publisher")
        for number in range(60):
            publisher.deliver("down/x", b"%d" % number, qos=1)
        self.assertEqual([message.payload for message in received(here, 60)], [b"%d" % number for number in range(60)])
        session = ours.session()
        self.assertTrue(session is not None and ours.connections() == 1)


if __name__ == "__main__":
    unittest.main()
