"""A reload changes the broker's access to the servers without affecting clients."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from common import JETSTREAM_MAX
import wire
from client import Client
from processes import Broker, NatsServer, Stage, fetch, program, wait_until

USERS = """authorization { users: [
  { user: one, password: first }, { user: two, password: second }, { user: gone, password: third }
] }"""


class Access(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tautwire-access-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.stage = Stage(self.folder, program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE"))
        self.addCleanup(self.stage.stop)
        self.stage.start_servers(1, more=USERS, of_jetstream=JETSTREAM_MAX)
        self.password = self.folder / "password"
        self.config = self.folder / "tautwire.toml"
        self.be("one", "first")
        broker = self.stage.add_broker(["auth.anonymous=true"])
        broker.command += ["--config", str(self.config)]
        broker.start()
        wait_until("the broker serves clients", broker.is_serving)

    @property
    def broker(self) -> Broker:
        return self.stage.brokers[0]

    def be(self, user: str, password: str) -> None:
        """Sets the password that the next reload reads."""
        self.password.write_text(password)
        self.password.chmod(0o600)
        self.config.write_text(f'[cluster]\nuser = "{user}"\npassword_file = "{self.password}"\n')

    def reload(self) -> None:
        self.assertIsNotNone(self.broker.ask("/v1/config/reload", "POST"))

    def users(self, server: NatsServer) -> set[str]:
        """Returns the users that are connected to a server."""
        answer = json.loads(fetch(f"http://{server.monitor}/connz?auth=true") or "{}")
        return {each.get("authorized_user") for each in answer.get("connections", [])}

    def test_changing_the_user_disconnects_no_client(self) -> None:
        server, life = self.stage.servers[0], self.broker.ask("/v1/cluster")["incarnation"]
        self.assertEqual(self.users(server), {"one"})
        with Client(self.broker.port, "c") as client:
            client.subscribe("a/#", 1)
            self.be("two", "second")
            self.reload()
            wait_until("the broker is the other user", lambda: "two" in self.users(server))
            self.assertIn(client.deliver("a/b", b"by the new way", qos=1), (wire.SUCCESS, wire.NO_MATCHING_SUBSCRIBERS))
            self.assertEqual(client.receive().payload, b"by the new way")
            wait_until("the old connection is given up", lambda: self.users(server) == {"two"})
        status = self.broker.ask("/v1/cluster")
        self.assertEqual((status["incarnation"], status["nats"]), (life, {"state": "ready", "reason": None}))

    def test_a_changed_password_file_is_reloaded(self) -> None:
        self.be("one", "not right")
        self.reload()
        why = wait_until("the status says why", lambda: self.broker.ask("/v1/cluster")["nats"]["reason"])
        self.assertIn("authorization", why.lower())
        self.assertNotIn("not right", why)
        with Client(self.broker.port, "c") as client:
            self.assertLess(client.deliver("a", b"by the way before", qos=1), wire.FIRST_ERROR)
        self.be("one", "first")
        self.reload()
        wait_until("the way is good again", lambda: self.broker.ask("/v1/cluster")["nats"]["reason"] is None)


if __name__ == "__main__":
    unittest.main()
