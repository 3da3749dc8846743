"""A bridge of a cluster runs on one node, and moves to another one when that node is killed."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from common import JETSTREAM_MAX, PATIENCE_S
from client import Client
from processes import Broker, Place, Stage, program, wait_until

MESSAGES = 200
# The message after which the node is killed.
KILLED_AFTER = 60
CONNECTED = "the bridge is connected"


class Bridge(unittest.TestCase):
    def test_it_moves_when_its_node_is_killed_and_each_message_arrives_once(self) -> None:
        nats_server, tautwire = program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")
        with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), nats_server, tautwire) as stage:
            remote = self.start_remote(Path(folder), tautwire)
            (Path(folder) / "bridge.toml").write_text(
                f'[[bridge]]\nname = "hq"\naddresses = ["mqtt://{remote.mqtt}"]\nretry_max_s = 1\n'
                'rules = [{ filter = "up/#", direction = "out", qos = 2 }]\n'
            )
            stage.start_servers(3, of_jetstream=JETSTREAM_MAX)
            for _ in range(2):
                stage.add_broker([]).command += ["--config", f"{folder}/bridge.toml"]
            for broker in stage.brokers:
                broker.begin()
            for broker in stage.brokers:
                broker.await_listening()
                wait_until(f"{broker.name} serves", broker.is_serving)
            wait_until("a node runs the bridge", lambda: any(runs_bridge(broker) for broker in stage.brokers), PATIENCE_S)
            wait_until("the nodes agree", lambda: sum(runs_bridge(broker) for broker in stage.brokers) == 1, PATIENCE_S)
            runs, survives = sorted(stage.brokers, key=runs_bridge, reverse=True)
            with Client(remote.port, "reader") as reader, Client(survives.port, "writer") as writer:
                reader.subscribe("up/#", 2)
                for number in range(MESSAGES):
                    writer.deliver("up/x", str(number).encode(), qos=2)
                    if number == KILLED_AFTER:
                        runs.kill()
                received = []
                while len(received) < MESSAGES:
                    received.append(int(reader.receive().payload))
                self.assertEqual(received, list(range(MESSAGES)))
                self.assertTrue(runs_bridge(survives))

    def start_remote(self, folder: Path, tautwire: str) -> Broker:
        place = folder / "remote"
        place.mkdir()
        (place / "token").write_text("a-token-of-the-remote-broker")
        (place / "token").chmod(0o600)
        settings = [f"data.path={place / 'data'}", "admin.listen=127.0.0.1:0", f"admin.token_file={place / 'token'}"]
        command = [tautwire, "serve", "--listen", "127.0.0.1:0"]
        for setting in settings:
            command += ["--set", setting]
        remote = Broker("remote", place, Place(), command)
        remote.start()
        self.addCleanup(remote.stop)
        return remote


def runs_bridge(broker: Broker) -> bool:
    """Whether the last line about the bridge says that it is connected."""
    lines = [line for line in broker.said().splitlines() if "bridge=hq" in line]
    return bool(lines) and CONNECTED in lines[-1]


if __name__ == "__main__":
    unittest.main()
