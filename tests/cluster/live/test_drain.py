"""An operator drains a node by the admin API of another node."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from common import JETSTREAM_MAX
from processes import Broker, Stage, program, wait_until


class Drain(unittest.TestCase):
    def test_any_node_forwards_a_drain_and_both_log_the_operator(self) -> None:
        nats_server, tautwire = program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")
        with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), nats_server, tautwire) as stage:
            stage.start_servers(3, of_jetstream=JETSTREAM_MAX)
            for number in range(2):
                stage.add_broker([f"audit.file={folder}/audit-{number}"])
            for broker in stage.brokers:
                broker.begin()
            for broker in stage.brokers:
                broker.await_listening()
                wait_until(f"{broker.name} serves", broker.is_serving)
            asked, drained = stage.brokers
            wait_until("they know each other", lambda: len(nodes_of(asked)) == 2)

            unknown = drain(tautwire, asked, "broker-9")
            self.assertNotEqual(unknown.returncode, 0)
            self.assertIn("no live node is named broker-9", unknown.stderr)
            told = drain(tautwire, asked, drained.name)
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            wait_until("nothing of it is left", lambda: not drained.is_serving())
            self.assertTrue(asked.is_serving())
            self.assertFalse((asked.ask("/v1/cluster") or {})["draining"])
            for number, words in enumerate(['"node":"broker-2"', '"through":"']):
                audit = Path(f"{folder}/audit-{number}").read_text()
                lines = [line for line in audit.splitlines() if '"cluster_drain"' in line and words in line]
                self.assertEqual(len(lines), 1, audit)


def nodes_of(broker: Broker) -> list[dict]:
    return (broker.ask("/v1/cluster") or {}).get("nodes", [])


def drain(tautwire: str, asked: Broker, name: str) -> subprocess.CompletedProcess[str]:
    where = ["--admin", f"http://{asked.admin}", "--token-file", str(asked.folder / "token")]
    return subprocess.run([tautwire, "cluster", "drain", *where, name], capture_output=True, text=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
