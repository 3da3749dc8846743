"""Tests of the alerts and the Grafana dashboard: with promtool, and with a Prometheus that scrapes a broker."""

import json
import os
import re
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from support import BROKER, ROOT, WithProject

MONITORING = ROOT / "packaging/monitoring"
DASHBOARD = json.loads((MONITORING / "grafana.json").read_text())
TOKEN = "a-token-for-tests-0123456789"
PATIENCE_S = 60
METRIC = re.compile(r"\btautwire_[a-z_0-9]+")
OF_CLUSTERS = "tautwire_cluster_"
# Counted by the engine, which has its counters without a cluster, too.
OF_EVERY_BROKER = {"tautwire_cluster_lease_expirations_total"}
# The values that Grafana substitutes for its variables.
VARIABLES = {"$instance": ".*", "$__rate_interval": "1m"}


def queries() -> list[str]:
    """Yields the queries of the dashboard, as Grafana would send them."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    for name, value in VARIABLES.items():
        found = [query.replace(name, value) for query in found]
    return found


def metrics_of_clusters() -> set[str]:
    """The metrics that only a broker in a cluster has."""
    own = re.findall(r'"(cluster_[a-z_]+)"', (ROOT / "broker/server/src/admin/metrics.rs").read_text())
    counters = (ROOT / "broker/nats/src/counters.rs").read_text().partition("\ncounters! {")[2].partition("\n}")[0]
    return {f"tautwire_{name}" for name in own} | {f"{OF_CLUSTERS}{name}" for name in re.findall(r"^    ([a-z_]+),$", counters, re.M)}


class Monitoring(WithProject):
    def setUp(self) -> None:
        super().setUp()
        for program in ["prometheus", "promtool"]:
            if shutil.which(program) is None:
                self.assertIsNone(os.environ.get("TAUTWIRE_REQUIRED"), f"{program} is missing (Debian: sudo apt-get install prometheus)")
                self.skipTest(f"no {program}")

    def started(self, *command: str | Path, said_by: str = "stdout") -> subprocess.Popen:
        streams = {name: subprocess.PIPE if name == said_by else subprocess.DEVNULL for name in ["stdout", "stderr"]}
        process = subprocess.Popen(command, cwd=self.project, text=True, **streams)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def broker(self) -> str:
        """Starts a broker, and yields the address of its admin API."""
        (self.project / "token").write_text(TOKEN)
        # Nothing listens there, but a bridge that is not connected has all metrics.
        (self.project / "tautwire.toml").write_text(
            '[[bridge]]\nname = "cloud"\naddresses = ["mqtt://127.0.0.1:1"]\nrules = [{ filter = "#", direction = "out" }]\n'
        )
        self.run_in(BROKER, "cert", "--dir", "tls")
        settings = ["admin.listen=127.0.0.1:0", "admin.token_file=token", "data.path=data", "tls.certificate=tls/server.pem", "tls.key=tls/server.key"]
        listeners = ["--listen", "127.0.0.1:0", "--listen", "mqtts://127.0.0.1:0"]
        options = [*listeners, *(part for setting in settings for part in ["--set", setting])]
        process = self.started(BROKER, "serve", "--config", "tautwire.toml", *options)
        for line in process.stdout:
            if line.startswith("listening on http://"):
                return line.removeprefix("listening on http://").strip()
        raise AssertionError("the broker did not start")

    def test_alerts_fire_exactly_when_expected(self) -> None:
        self.run_in("promtool", "check", "rules", MONITORING / "alerts.yml")
        self.run_in("promtool", "test", "rules", MONITORING / "alerts.test.yml")

    def test_each_panel_has_a_unique_id(self) -> None:
        numbers = [panel["id"] for panel in DASHBOARD["panels"]]
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_prometheus_scrapes_the_broker_and_answers_every_query(self) -> None:
        address = self.broker()
        request = urllib.request.Request(f"http://{address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        self.assertNotIn("error", checked.stderr)
        there = set(METRIC.findall(text))
        used = set(METRIC.findall("\n".join(queries()) + (MONITORING / "alerts.yml").read_text()))
        self.assertEqual(used - there, {name for name in used if name.startswith(OF_CLUSTERS)} - OF_EVERY_BROKER, "no such metrics")
        self.assertEqual({name for name in used - there if name.removesuffix("_total") not in metrics_of_clusters()}, set(), "no such metrics")
        prometheus = self.prometheus(address)
        # Wait for the second scrape.
        deadline = time.monotonic() + PATIENCE_S
        while len(self.asked(prometheus, "tautwire_uptime_seconds[1m]", 2)) < 2:
            self.assertLess(time.monotonic(), deadline, "Prometheus does not read the broker")
        for query in queries():
            # This is a single broker.
            if OF_CLUSTERS in query:
                continue
            with self.subTest(query):
                self.assertNotEqual(self.asked(prometheus, query), [], "nothing is shown")

    def prometheus(self, target: str) -> str:
        config = {
            "global": {"scrape_interval": "1s"},
            "rule_files": [str(MONITORING / "alerts.yml")],
            "scrape_configs": [
                {"job_name": "tautwire", "authorization": {"credentials_file": str(self.project / "token")}, "static_configs": [{"targets": [target]}]}
            ],
        }
        # JSON is valid YAML.
        (self.project / "prometheus.yml").write_text(json.dumps(config))
        process = self.started(
            "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=series", "--web.listen-address=127.0.0.1:0", said_by="stderr"
        )
        for line in process.stderr:
            if found := re.search(r'msg="Listening on" address=(\S+)', line):
                return found[1]
        raise AssertionError("Prometheus did not start")

    def asked(self, prometheus: str, query: str, least: int = 0) -> list:
        url = f"http://{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(url) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []
            raise
        return result[0]["values"] if least and result else result


if __name__ == "__main__":
    unittest.main()
