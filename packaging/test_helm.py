"""Tests of the chart: lint, rendered templates, and the broker's check of the rendered configuration."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

import common
from support import BROKER, TARGET, WithProject, only

HELM = shutil.which("helm") or TARGET / "helm/bin/helm"
IN_CLUSTER = ["--set", "anonymous=true", "--set", "cluster.servers={nats://nats:4222}", "--set", "cluster.monitoring_addresses={nats-0:8222,nats-1:8222}"]
# Keys before the first table, tables, and a table that the chart also writes.
VALUES = """
config: |
  # Equal to the CPU limit.
  threads = 2

  [limits]
  connections = 777
  [mqtt]
  max_qos = 1
"""
WITH_TLS = ["--set", "users.secret=people", "--set", "tls.secret=web", "--set", "admin.tokenSecret=token", "--set", "acl.configMap=rules"]


@unittest.skipUnless(Path(HELM).exists() or os.environ.get("TAUTWIRE_PACKAGES") == "all", "no helm; make test-packages-all installs it")
class Chart(WithProject):
    def template(self, *values: str) -> str:
        return self.run_in(HELM, "template", "one", only("helm/*.tgz"), "--kube-version", "1.30.0", *values)

    def test_the_chart_passes_lint(self) -> None:
        self.run_in(HELM, "lint", "--strict", common.ROOT / "packaging/helm/tautwire", "--set", "anonymous=true")
        self.run_in(HELM, "lint", "--strict", common.ROOT / "packaging/helm/tautwire", *WITH_TLS)
        self.run_in(HELM, "lint", "--strict", common.ROOT / "packaging/helm/tautwire", *IN_CLUSTER)

    def test_clients_are_refused_by_default(self) -> None:
        with self.assertRaisesRegex(common.Failure, "nobody could connect"):
            self.template()

    def test_invalid_values_are_refused(self) -> None:
        for wrong in ["service.mqtt=none", "podDisruptionBudget.maxUnavailable=2", "image.pullPolicy=Sometimes"]:
            with self.assertRaisesRegex(common.Failure, "schema"):
                self.template("--set", f"anonymous=true,{wrong}")

    def test_without_tls_it_serves_plain_mqtt_and_probes_the_port(self) -> None:
        made = self.template("--set", "anonymous=true")
        for part in ["kind: StatefulSet", "kind: PodDisruptionBudget", "kind: NetworkPolicy", "containerPort: 1883", "tcpSocket:", "replicas: 1"]:
            self.assertIn(part, made)
        self.assertNotIn("8883", made)

    def test_with_tls_certificates_come_from_the_secret_and_are_reloaded(self) -> None:
        made = self.template(*WITH_TLS)
        for part in ["secretName: web", "file_watch_interval_s = 10", "path: /health/ready", "path: /health/live", "containerPort: 8883"]:
            self.assertIn(part, made)
        # Kubernetes never updates such a mount.
        self.assertNotIn("subPath", made)
        self.assertNotIn("containerPort: 1883", made)

    def test_several_brokers_have_a_cluster_and_unique_names(self) -> None:
        made = self.template(*IN_CLUSTER, "--set", "cluster.credentialsSecret=nats", "--set", "cluster.server_reference=$(POD_NAME).example.org:1883")
        for part in ["replicas: 3", "fieldPath: metadata.name", 'servers = ["nats://nats:4222"]', '"cluster.server_reference=$(POD_NAME).example.org:1883"', "secretName: nats", "nats/nats.creds"]:
            self.assertIn(part, made)
        alone = self.template("--set", "anonymous=true")
        for part in ["[cluster]", "cluster.server_reference", "POD_NAME", "nats"]:
            self.assertNotIn(part, alone)

    def test_the_broker_accepts_the_configuration(self) -> None:
        for values in (
            ["--set", "anonymous=true"],
            ["--set", "anonymous=true", "--set", "service.websocket=0", "--set", "watchFilesSeconds=0"],
            IN_CLUSTER,
        ):
            self.write_configuration(*values)
            self.run_in(BROKER, "config", "check", "--config", "tautwire.toml")

    def test_configuration_values_apply_and_the_broker_starts(self) -> None:
        (self.project / "values.yaml").write_text(VALUES)
        (self.project / "token").write_text("0123456789abcdef0123456789abcdef\n")
        with_users = ["--set", "users.secret=people,tls.secret=web,admin.tokenSecret=token,acl.configMap=rules"]
        for values in (["--set", "anonymous=true"], ["--set", "anonymous=true,admin.tokenSecret=token"], with_users):
            self.write_configuration("--values", "values.yaml", *values)
            shown = self.run_in(BROKER, "config", "show", "--config", "tautwire.toml")
            for line in ["threads = 2", "connections = 777", "max_qos = 1"]:
                self.assertIn(f"\n{line}\n", shown, f"{values}: {line}")
        # Files that are mounted in a pod do not exist here.
        self.write_configuration("--values", "values.yaml", "--set", "anonymous=true,admin.tokenSecret=token")
        here = ["--listen", "127.0.0.1:0", "--memory", "--set", "admin.listen=127.0.0.1:0", "--set", "admin.token_file=token"]
        command = [BROKER, "serve", "--config", "tautwire.toml", *here]
        with subprocess.Popen(command, cwd=self.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
            try:
                line = broker.stdout.readline()
            finally:
                broker.terminate()
            said = broker.stderr.read()
        self.assertTrue(line.startswith("listening on mqtt://127.0.0.1:"), f"it did not start: {line}{said}")

    def test_prometheus_discovers_the_metrics(self) -> None:
        values = ["--set", "anonymous=true", "--set", "serviceMonitor.enabled=true,serviceMonitor.interval=15s"]
        with self.assertRaisesRegex(common.Failure, "needs admin.tokenSecret"):
            self.template(*values)
        made = self.template(*values, "--set", "admin.tokenSecret=token", "--show-only", "templates/servicemonitor.yaml")
        for part in ["kind: ServiceMonitor", "port: admin", "path: /metrics", "interval: 15s", "name: token\n", "key: token\n"]:
            self.assertIn(part, made)
        service = self.template("--set", "anonymous=true,admin.tokenSecret=token", "--show-only", "templates/service.yaml")
        self.assertEqual(service.count("    - name: admin\n      port: 9183\n"), 2, "of both services")
        self.assertIn("app.kubernetes.io/component: headless", service)
        self.assertNotIn("kind: ServiceMonitor", self.template("--set", "anonymous=true"))
        without = self.template("--set", "anonymous=true,admin.tokenSecret=token,service.admin=0", "--show-only", "templates/service.yaml")
        self.assertEqual(without.count("    - name: admin\n"), 1)

    def test_volumes_and_variables_of_the_values_are_in_the_pod(self) -> None:
        (self.project / "values.yaml").write_text(
            "anonymous: true\nextraEnv: [{name: SSL_CERT_FILE, value: /authorities/ca.crt}]\n"
            "extraVolumes: [{name: authorities, configMap: {name: our-authorities}}]\n"
            "extraVolumeMounts: [{name: authorities, mountPath: /authorities, readOnly: true}]\n"
        )
        for more in ([], IN_CLUSTER):
            made = self.template("--values", "values.yaml", *more, "--show-only", "templates/statefulset.yaml")
            for part in ["name: SSL_CERT_FILE", "value: /authorities/ca.crt", "mountPath: /authorities", "name: our-authorities"]:
                self.assertIn(part, made)
            self.assertEqual(made.count("          env:\n"), 1)

    def write_configuration(self, *values: str) -> None:
        made = self.template(*values, "--show-only", "templates/configmap.yaml")
        lines = made.partition("tautwire.toml: |\n")[2].splitlines()
        (self.project / "tautwire.toml").write_text("".join(f"{line.removeprefix('    ')}\n" for line in lines))
