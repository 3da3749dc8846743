"""A reload adds, changes and removes bridges, and touches nothing else."""

from __future__ import annotations

import unittest

from brokers import Bridge, Tautwire, until
from stage import Stage, received

UP = '{ filter = "up/#", direction = "out", qos = 2 }'
DOWN = '{ filter = "down/#", direction = "in", qos = 2 }'


class Reload(Stage):
    def setUp(self) -> None:
        super().setUp()
        self.other = self.started(Tautwire(self.folder / "other"))
        self.broker = self.ours(f"{UP}, {DOWN}", self.other)
        self.bystander = self.client(self.broker, "bystander")

    def filters(self, broker: Tautwire, client_id: str) -> list[str]:
        status, body = broker.ask("GET", f"/v1/clients/{client_id.replace('/', '%2F')}/subscriptions")
        return sorted(each["filter"] for each in body["subscriptions"]) if status == 200 else []

    def remote_client(self) -> str:
        clients = self.other.ask("GET", "/v1/clients")[1]["clients"]
        return next(each["client_id"] for each in clients if each["client_id"].endswith("-hq"))

    def test_an_unchanged_bridge_stays_connected_while_others_come_and_go(self) -> None:
        self.broker.bridges.append(Bridge([self.other.address], '{ filter = "more/#", direction = "out" }', name="more"))
        self.broker.reload()
        self.broker.await_connected("more")
        there = self.observer(self.other, "#")
        self.client(self.broker, "publisher").deliver("more/x", b"1", qos=1)
        self.assertEqual(there.receive().topic, "more/x")
        self.broker.bridges.pop()
        self.broker.reload()
        self.broker.await_log("the bridge has stopped bridge=more")
        self.client(self.broker, "publisher-2").deliver("more/x", b"2", qos=1)
        self.client(self.broker, "publisher-2").deliver("up/x", b"3", qos=1)
        self.assertEqual(there.receive().topic, "up/x")
        self.assertEqual((self.broker.connections("hq"), self.broker.connections("more")), (1, 1))
        self.bystander.ping()

    def test_changed_rules_lose_nothing_and_unsubscribe(self) -> None:
        here, there = self.observer(self.broker, "down/#", "other/#"), self.observer(self.other, "#")
        remote = self.remote_client()
        self.other.relay.refuse()
        self.broker.await_log("the bridge is not connected")
        self.client(self.broker, "publisher").deliver("up/x", b"queued under the old rules", qos=2)
        self.broker.bridges[0].rules = (
            '{ filter = "up/#", direction = "out", qos = 2, remote_prefix = "site/" }, { filter = "other/#", direction = "in", qos = 2 }'
        )
        self.broker.reload()
        self.client(self.broker, "publisher-2").deliver("up/x", b"new", qos=2)
        self.other.relay.forward(self.other.port)
        self.broker.await_connected(times=2)
        self.assertEqual([(message.topic, message.payload) for message in received(there, 2)],
                         [("site/up/x", b"queued under the old rules"), ("site/up/x", b"new")])
        until("it is still subscribed", lambda: self.filters(self.other, remote) == ["other/#"])
        self.client(self.other, "publisher-3").deliver("other/x", b"in", qos=2)
        self.assertEqual(here.receive().topic, "other/x")
        self.broker.bridges[0].rules = '{ filter = "else/#", direction = "out" }'
        self.broker.reload()
        self.broker.await_connected(times=3)
        until("it is still subscribed", lambda: self.filters(self.broker, "bridge/hq") == ["else/#"])
        until("it is still subscribed", lambda: self.filters(self.other, remote) == [])
        self.bystander.ping()

    def test_a_stream_survives_changes_of_the_prefix(self) -> None:
        there = self.observer(self.other, "+/up/#", "up/#")
        publisher = self.client(self.broker, "publisher")
        for number in range(30):
            publisher.deliver("up/x", b"%d" % number, qos=2)
            if number % 10 == 5:
                self.broker.bridges[0].rules = f'{{ filter = "up/#", direction = "out", qos = 2, remote_prefix = "p{number}/" }}, {DOWN}'
                self.broker.reload()
        self.assertEqual([message.payload for message in received(there, 30)], [b"%d" % number for number in range(30)])


if __name__ == "__main__":
    unittest.main()
