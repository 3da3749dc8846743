"""`tautwire why`, asked at the node that serves the client and at another one."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from common import JETSTREAM_MAX
import wire
from client import Client
from processes import Broker, Stage, program, wait_until

ELSEWHERE_EXIT = 3
# [MQTT 5.0 section 3.14.2.1]
USE_ANOTHER_SERVER = 0x9C


class Why(unittest.TestCase):
    def test_only_the_serving_node_knows_and_others_refer_to_it(self) -> None:
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

    def test_a_draining_node_refuses_clients_and_another_serves_them(self) -> None:
        nats_server, tautwire = program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")
        with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), nats_server, tautwire) as stage:
            stage.start_servers(3, of_jetstream=JETSTREAM_MAX)
            stage.start_brokers(2)
            drained, other = stage.brokers[:2]
            for broker in (drained, other):
                wait_until(f"{broker.name} serves", broker.is_serving)
            wait_until("the nodes list each other", lambda: len((drained.ask("/v1/cluster") or {}).get("nodes", [])) == 2)
            worker = Client(drained.port, "worker")
            self.addCleanup(worker.cut)
            worker.subscribe("jobs/#", 1)
            self.assertNotIn("[draining]", why(tautwire, drained).stdout)
            self.assertEqual(drained.ask("/v1/cluster/drain", "POST"), {"started": True})
            # The client is redirected to another node, and refused if it comes back.
            self.assertEqual(worker.await_end(), USE_ANOTHER_SERVER)
            told = why(tautwire, drained)
            self.assertEqual((told.returncode, told.stderr), (ELSEWHERE_EXIT, ""))
            self.assertIn("its clients are sent to other nodes, and it accepts no new ones [draining]", told.stdout)
            refused = Client(drained.port, "worker", may_be_refused=True)
            self.addCleanup(refused.cut)
            self.assertNotEqual(refused.reason, wire.SUCCESS)
            with Client(other.port, "worker") as moved:
                moved.subscribe("jobs/#", 1)
                told = why(tautwire, other)
                self.assertEqual((told.returncode, told.stdout.splitlines()[0]), (0, "a message would arrive"), told.stderr)
                self.assertNotIn("[draining]", told.stdout)
                moved.deliver("jobs/1", b"a job", qos=1)
                self.assertEqual(moved.receive().payload, b"a job")

    def expect_elsewhere(self, told: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual((told.returncode, told.stderr), (ELSEWHERE_EXIT, ""))
        outcome, finding, change = told.stdout.splitlines()
        self.assertEqual(outcome, "unknown: this node of the cluster does not serve the client")
        self.assertTrue(finding.endswith("[other_node]"), finding)
        self.assertIn("`tautwire cluster status`", change)


def why(tautwire: str, asked: Broker) -> subprocess.CompletedProcess[str]:
    where = ["--admin", f"http://{asked.admin}", "--token-file", str(asked.folder / "token")]
    return subprocess.run([tautwire, "why", *where, "worker", "jobs/1"], capture_output=True, text=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
