"""Tests of the compose file: the broker and nats-server accept their configurations."""

import os
import textwrap
import unittest

import common
from support import BROKER, WithProject

COMPOSE = common.ROOT / "packaging/compose/compose.yaml"
# The version that the Makefile names. An installed one may be older and support fewer settings.
NATS_SERVER = os.environ.get("TAUTWIRE_NATS_SERVER")


def config(name: str) -> str:
    """Returns `content` of one of the configurations, as a container sees it."""
    block = COMPOSE.read_text().partition("\nconfigs:\n")[2].partition(f"  {name}:\n    content: |\n")[2]
    lines = []
    for line in block.splitlines():
        if line and not line.startswith("      "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines)).strip().replace("$$", "$") + "\n"


class Compose(WithProject):
    def test_the_broker_accepts_its_configuration(self) -> None:
        (self.project / "tautwire.toml").write_text(config("broker"))
        self.run_in(BROKER, "config", "check", "--config", "tautwire.toml")

    @unittest.skipUnless(NATS_SERVER, "TAUTWIRE_NATS_SERVER names no nats-server; `make test-packages` sets it")
    def test_the_servers_accept_their_configuration(self) -> None:
        (self.project / "nats.conf").write_text(config("nats").replace("$HOSTNAME", "one"))
        self.run_in(NATS_SERVER, "-t", "-c", "nats.conf")

    def test_all_host_names_are_services(self) -> None:
        text = COMPOSE.read_text()
        for number in (1, 2, 3):
            for name in (f"nats-{number}", f"broker-{number}"):
                self.assertIn(f"  {name}: {{<<:", text)
                self.assertIn(f"hostname: {name},", text)
        self.assertEqual(config("broker").count("nats://nats-"), 3)


if __name__ == "__main__":
    unittest.main()
