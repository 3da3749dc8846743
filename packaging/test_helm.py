"""The chart: linted, and what its templates make of values; the configuration that it writes, checked by the broker."""

import os
import shutil
import unittest
from pathlib import Path

import common
from support import BROKER, TARGET, WithProject, only

HELM = shutil.which("helm") or TARGET / "helm/bin/helm"
IN_CLUSTER = ["--set", "anonymous=true", "--set", "cluster.servers={nats://nats:4222}", "--set", "cluster.monitors={nats-0:8222,nats-1:8222}"]
WITH_TLS = ["--set", "users.secret=people", "--set", "tls.secret=web", "--set", "admin.tokenSecret=token", "--set", "acl.configMap=rules"]


@unittest.skipUnless(Path(HELM).exists() or os.environ.get("TAUTWIRE_PACKAGES") == "all", "no helm; make test-packages-all installs it")
class Chart(WithProject):
    def template(self, *values: str) -> str:
        return self.run_in(HELM, "template", "one", only("helm/*.tgz"), "--kube-version", "1.30.0", *values)

    def test_it_is_linted(self) -> None:
        self.run_in(HELM, "lint", "--strict", common.ROOT / "packaging/helm/tautwire", "--set", "anonymous=true")
        self.run_in(HELM, "lint", "--strict", common.ROOT / "packaging/helm/tautwire", *WITH_TLS)
        self.run_in(HELM, "lint", "--strict", common.ROOT / "packaging/helm/tautwire", *IN_CLUSTER)

    def test_nobody_is_let_in_by_accident(self) -> None:
        with self.assertRaisesRegex(common.Failure, "nobody could connect"):
            self.template()

    def test_wrong_values_are_refused(self) -> None:
        for wrong in ["service.mqtt=none", "podDisruptionBudget.maxUnavailable=2", "image.pullPolicy=Sometimes"]:
            with self.assertRaisesRegex(common.Failure, "schema"):
                self.template("--set", f"anonymous=true,{wrong}")

    def test_without_tls_it_serves_in_the_clear_and_probes_the_port(self) -> None:
        made = self.template("--set", "anonymous=true")
        for part in ["kind: StatefulSet", "kind: PodDisruptionBudget", "kind: NetworkPolicy", "containerPort: 1883", "tcpSocket:", "replicas: 1"]:
            self.assertIn(part, made)
        self.assertNotIn("8883", made)

    def test_with_tls_certificates_come_from_the_secret_and_are_read_again(self) -> None:
        made = self.template(*WITH_TLS)
        for part in ["secretName: web", "watch_files_s = 10", "path: /health/ready", "path: /health/live", "containerPort: 8883"]:
            self.assertIn(part, made)
        # Such a mount never changes.
        self.assertNotIn("subPath", made)
        self.assertNotIn("containerPort: 1883", made)

    def test_several_brokers_have_the_cluster_and_names_of_their_own(self) -> None:
        made = self.template(*IN_CLUSTER, "--set", "cluster.credentialsSecret=nats", "--set", "cluster.reference=$(POD_NAME).example.org:1883")
        for part in ["replicas: 3", "fieldPath: metadata.name", 'servers = ["nats://nats:4222"]', '"cluster.reference=$(POD_NAME).example.org:1883"', "secretName: nats", "nats/nats.creds"]:
            self.assertIn(part, made)
        alone = self.template("--set", "anonymous=true")
        for part in ["[cluster]", "cluster.reference", "POD_NAME", "nats"]:
            self.assertNotIn(part, alone)

    def test_the_broker_takes_the_configuration(self) -> None:
        for values in (
            ["--set", "anonymous=true"],
            ["--set", "anonymous=true", "--set", "service.websocket=0", "--set", "watchFilesSeconds=0"],
            IN_CLUSTER,
        ):
            made = self.template(*values, "--show-only", "templates/configmap.yaml")
            lines = made.partition("tautwire.toml: |\n")[2].splitlines()
            (self.project / "tautwire.toml").write_text("".join(f"{line.removeprefix('    ')}\n" for line in lines))
            self.run_in(BROKER, "config", "check", "--config", "tautwire.toml")
