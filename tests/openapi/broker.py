"""A broker with everything that the admin API can report."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

from client import Client  # noqa: E402
from served import PROGRAM, Served  # noqa: E402

CONTRACTS = """
[[contract]]
name = "state"
topics = "state/{id}"
format = "json"
schema = "state.json"
on_violation = "reject"
topic_fields = { id = "id" }
"""
SCHEMA = '{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}'
# The callers, by role.
TOKENS = {name: f"{name}-token-0123456789" for name in ("read", "operate", "administer", "payloads")}


class Broker(Served):
    """All tests use the same configuration."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tautwire-openapi-")
        folder = Path(self._folder.name)
        self._write(folder)
        self._clients: list[Client] = []
        super().__init__(folder / "tautwire.toml", 3, "--memory")

    def _write(self, folder: Path) -> None:
        (folder / "contracts").mkdir()
        (folder / "contracts" / "contracts.toml").write_text(CONTRACTS)
        (folder / "contracts" / "state.json").write_text(SCHEMA)
        salt = b"a salt of 16 byt"
        proof = hashlib.sha512(b"secret" + salt).digest()
        users = f"ann:$6${base64.b64encode(salt).decode()}${base64.b64encode(proof).decode()}\n"
        (folder / "users").write_text(users)
        tables = [token_table(name) for name in TOKENS]
        (folder / "tokens.toml").write_text("\n".join(tables))
        certificates = folder / "certificates"
        made = [PROGRAM, "cert", "--dir", str(certificates)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        (folder / "tautwire.toml").write_text(f"""
listen = ["127.0.0.1:0", "mqtts://127.0.0.1:0"]
[auth]
password_file = "users"
anonymous = true
[contracts]
path = "contracts"
[tls]
certificate = "{certificates / 'server.pem'}"
key = "{certificates / 'server.key'}"
[admin]
listen = "127.0.0.1:0"
tokens_file = "tokens.toml"
roles = ["ann = operate payloads"]
[[bridge]]
name = "hq"
addresses = ["mqtt://127.0.0.1:1"]
rules = [{{ filter = "up/#", direction = "out", remote_prefix = "site/" }}]
""")

    def close(self) -> None:
        for client in self._clients:
            client.cut()
        super().close()
        self._folder.cleanup()

    def connect(self, client_id: str) -> Client:
        """A client of MQTT 3.1.1 with a persistent session, subscribed to power/#."""
        client = Client(self.port, client_id, version=4, clean=False)
        self._clients.append(client)
        client.subscribe("power/#", 1)
        return client


def token_table(name: str) -> str:
    role = "read" if name == "payloads" else name
    digest = hashlib.sha256(TOKENS[name].encode()).hexdigest()
    more = "payloads = true\n" if name == "payloads" else ""
    return f'[[token]]\nname = "{name}"\nrole = "{role}"\n{more}sha256 = "{digest}"\n'
