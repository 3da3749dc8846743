"""`tautwire why`, asked at the node that serves the client and at another one."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from common import JETSTREAM_MAX
from client import Client
from processes import Broker, Stage, program, wait_until

ELSEWHERE_EXIT = 3


class Why(unittest.TestCase):
    def test_the_node_that_serves_the_client_knows_and_the_other_says_whom_to_ask(self) -> None:
        nats_server, tautwire = program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")
        with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), nats_server, tautwire) as stage:
            stage.start_servers(3, of_jetstream=JETSTREAM_MAX)
            stage.start_brokers(2)
            serving, other = stage.brokers[:2]
            for broker in (serving, other):
                wait_until(f"{broker.name} serves", broker.is_serving)
            with Client(serving.port, "worker") as worker:
                worker.subscribe("jobs/#", 1)
                told = why(tautwire, serving)
                self.assertEqual((told.returncode, told.stdout.splitlines()[0]), (0, "a message would arrive"), told.stderr)
                self.expect_elsewhere(why(tautwire, other))
                moved = Client(other.port, "worker")
                self.addCleanup(moved.close)
                moved.subscribe("jobs/#", 1)
                self.assertEqual(why(tautwire, other).returncode, 0)
                self.expect_elsewhere(why(tautwire, serving))

    def expect_elsewhere(self, told: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual((told.returncode, told.stderr), (ELSEWHERE_EXIT, ""))
        outcome, finding, change = told.stdout.splitlines()
        self.assertEqual(outcome, "unknown: this node of the cluster does not serve the client")
        self.assertTrue(finding.endswith("[not_served_here]"), finding)
        self.assertIn("`tautwire cluster status`", change)


def why(tautwire: str, asked: Broker) -> subprocess.CompletedProcess[str]:
    where = ["--admin", f"http://{asked.admin}", "--token-file", str(asked.folder / "token")]
    return subprocess.run([tautwire, "why", *where, "worker", "jobs/1"], capture_output=True, text=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
