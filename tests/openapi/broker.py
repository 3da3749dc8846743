"""A broker with everything that the admin API can tell of, and requests to it."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import queue
import re
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("TAUTWIRE_TEST_BINARY", ROOT / "bin" / "tautwire"))
READY_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 30

CONTRACTS = """
[[contract]]
name = "state"
topics = "state/{id}"
format = "json"
schema = "state.json"
on_violation = "reject"
ties = { id = "id" }
"""
SCHEMA = '{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}'
# Who asks, by the role that it has.
TOKENS = {name: f"{name}-token-0123456789" for name in ("read", "operate", "administer", "payloads")}


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def media_type(self) -> str:
        return (self.headers.get("Content-Type") or "").split(";")[0]


class Broker:
    """Runs until it is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tautwire-openapi-")
        folder = Path(self._folder.name)
        self._write(folder)
        arguments = ["serve", "--memory", "--config", str(folder / "tautwire.toml")]
        self._process = subprocess.Popen(
            [PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        ports = self._ports()
        self.port, self._admin_port = ports["mqtt"], ports["http"]
        self._clients: list[socket.socket] = []

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
""")

    def _ports(self) -> dict[str, int]:
        """Where it listens, by scheme, once it says so of the admin API, which comes last."""
        lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(lines,))
        self._reader.start()
        ports: dict[str, int] = {}
        while "http" not in ports:
            line = lines.get(timeout=READY_TIMEOUT_S)
            found = re.match(r"listening on (\w+)://.*:(\d+)", line)
            if found:
                ports[found[1]] = int(found[2])
            elif not line:
                raise RuntimeError("the broker has ended before it listened")
        return ports

    def _read(self, lines: queue.Queue[str]) -> None:
        """Reads to the end, so that the broker can always write; an empty line is the end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lines.put(line)
        lines.put("")

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    def connect(self, client_id: str) -> socket.socket:
        """A client of MQTT 3.1.1 whose session stays, subscribed to power/#."""
        client = socket.create_connection(("127.0.0.1", self.port), ANSWER_TIMEOUT_S)
        self._clients.append(client)
        body = text("MQTT") + bytes([4, 0, 0, 60]) + text(client_id)
        client.sendall(bytes([0x10, len(body)]) + body)
        assert client.recv(4)[:2] == b"\x20\x02"
        body = b"\x00\x01" + text("power/#") + b"\x01"
        client.sendall(bytes([0x82, len(body)]) + body)
        assert client.recv(5)[0] == 0x90
        return client

    def ask(
        self, method: str, path: str, body: bytes | None = None, fields: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._admin_port, timeout=ANSWER_TIMEOUT_S)
        connection.request(method, path, body, fields or {})
        response = connection.getresponse()
        # A stream has no end: its first line is enough.
        is_stream = response.headers.get_content_type() == "text/event-stream"
        body = response.readline() if is_stream else response.read()
        answer = Answer(response.status, response.headers, body)
        connection.close()
        return answer


def text(content: str) -> bytes:
    """A string as MQTT writes it."""
    return len(content).to_bytes(2, "big") + content.encode()


def token_table(name: str) -> str:
    role = "read" if name == "payloads" else name
    digest = hashlib.sha256(TOKENS[name].encode()).hexdigest()
    more = "payloads = true\n" if name == "payloads" else ""
    return f'[[token]]\nname = "{name}"\nrole = "{role}"\n{more}sha256 = "{digest}"\n'
