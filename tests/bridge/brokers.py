"""Brokers of the tests: ours, whose bridges are tested, and real ones at the other end. Each can be killed and started again with its state.

A port is picked by the kernel at each start. A relay gives each broker an address that stays the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

for folder in ("mqtt", "scenario"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))

from served import PROGRAM, ROOT, Served  # noqa: E402

import links  # noqa: E402

MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")
PEERS = ROOT / "bench" / "peers" / "bin"
NATS_SERVER = os.environ.get("TAUTWIRE_NATS_SERVER", str(PEERS / "nats-server"))
MOCHI = os.environ.get("TAUTWIRE_MOCHI", str(PEERS / "mochi"))
READY_TIMEOUT_S = 120
TIMEOUT_S = int(os.environ.get("TAUTWIRE_BRIDGE_TIMEOUT_S", 60))
START_ATTEMPTS = 5
LOOK_AGAIN_S = 0.02
TOKEN = "token-of-the-bridge-tests"
Found = TypeVar("Found")


def until(what: str, look: Callable[[], Found], timeout_s: float = TIMEOUT_S) -> Found:
    """Waits until `look` returns something true, and returns it."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:.0f} s: {what}")
        time.sleep(LOOK_AGAIN_S)
    return found


class Broker:
    """A process behind a relay with a fixed port."""

    name = "broker"
    version = 5

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.relay = links.Link()
        self.port = 0

    @property
    def address(self) -> str:
        """The address for bridges."""
        return f"mqtt://127.0.0.1:{self.relay.port}"

    def start(self, is_reachable: bool = True) -> None:
        """Starts it with the state of the folder. With `is_reachable`, the relay leads to it."""
        self._start()
        if is_reachable:
            self.relay.forward(self.port)

    def _start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.kill()
        self.relay.close()


@dataclass
class Bridge:
    """A `[[bridge]]` table: rules as TOML, and further keys."""

    addresses: list[str]
    rules: str
    name: str = "hq"
    more: str = ""

    def table(self) -> str:
        return (
            f"[[bridge]]\nname = {json.dumps(self.name)}\naddresses = {json.dumps(self.addresses)}\nretry_min_s = 1\nretry_max_s = 1\n"
            f"{self.more}\nrules = [{self.rules}]\n"
        )


class Tautwire(Broker):
    """Ours. `bridges` are those of its configuration; `settings` are tables of TOML, and `top` are keys before them."""

    name = "tautwire"

    def __init__(
        self, folder: Path, bridges: list[Bridge] | None = None, settings: str = "", top: str = "", listeners: tuple[str, ...] = ("127.0.0.1:0",),
    ) -> None:
        super().__init__(folder)
        self.bridges, self.settings, self.top, self.listeners = bridges or [], settings, top, listeners
        self.served: Served | None = None

    def write(self) -> Path:
        (self.folder / "token").write_text(TOKEN)
        file = self.folder / "tautwire.toml"
        file.write_text(
            f"listen = {json.dumps(list(self.listeners))}\n{self.top}\n[data]\npath = \"data\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
            f"token_file = \"token\"\n{self.settings}\n" + "".join(bridge.table() for bridge in self.bridges)
        )
        return file

    def _start(self) -> None:
        self.served = Served(self.write(), len(self.listeners) + 1)
        self.port = self.served.ports["mqtt"][0] if "mqtt" in self.served.ports else 0

    def kill(self) -> None:
        if self.served:
            self.served.close()
            self.served = None

    def stop(self) -> None:
        """Stops it in order."""
        assert self.served
        self.served.end()
        self.kill()

    def reload(self) -> None:
        """Writes the configuration, and waits until it is applied."""
        self.write()
        answer = self.ask("POST", "/v1/config/reload")
        assert answer[0] == 200, answer

    def log(self) -> str:
        assert self.served
        return self.served.log()

    def ask(self, method: str, path: str) -> tuple[int, dict]:
        assert self.served
        answer = self.served.ask(method, path, fields={"Authorization": f"Bearer {TOKEN}"})
        return answer.status, json.loads(answer.body) if answer.body else {}

    def connections(self, bridge: str = "hq") -> int:
        """How often the bridge has been connected since the start of this process."""
        return len(re.findall(rf"the bridge is connected bridge={re.escape(bridge)}\b", self.log()))

    def await_connected(self, bridge: str = "hq", times: int = 1) -> None:
        until(f"bridge {bridge} is not connected for the {times}. time:\n{self.log()}", lambda: self.connections(bridge) >= times)

    def await_log(self, text: str) -> str:
        until(f"{text!r} is not in the log", lambda: text in self.log())
        return next(line for line in self.log().splitlines() if text in line)

    def not_forwarded(self, kind: str, bridge: str = "hq") -> int:
        """How many messages of a kind, such as `looped`, the log says were not forwarded since the bridge was connected."""
        numbers = re.findall(rf"messages were not forwarded.* bridge={re.escape(bridge)} .*\b{kind}=(\d+)", self.log())
        return int(numbers[-1]) if numbers else 0

    def session(self, bridge: str = "hq") -> dict | None:
        """The session of the bridge in the API."""
        status, body = self.ask("GET", "/v1/clients/" + urllib.parse.quote(f"bridge/{bridge}", safe=""))
        return body if status == 200 else None


class Foreign(Broker):
    """A broker of others. It listens on a port that was free just before, so several attempts may be necessary."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.process: subprocess.Popen[bytes] | None = None

    def _start(self) -> None:
        for _ in range(START_ATTEMPTS):
            self.port = links.free_port()
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)
            if self._listens():
                return
            self.kill()
        raise AssertionError(f"{self.name} did not start: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    def _listens(self) -> bool:
        deadline = time.monotonic() + READY_TIMEOUT_S
        assert self.process
        while self.process.poll() is None and time.monotonic() < deadline:
            if links.accepts(self.port):
                return True
            time.sleep(LOOK_AGAIN_S)
        return False

    def command(self) -> list[str]:
        raise NotImplementedError

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stops it in order, so that it writes its state."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)
        self.process = None


class Mosquitto(Foreign):
    """It writes its state at each change if it `autosaves`. It syncs nothing before it acknowledges, so a kill may lose messages."""

    name = "mosquitto"

    def __init__(self, folder: Path, autosaves: bool = False, more: str = "") -> None:
        super().__init__(folder)
        self.autosaves, self.more = autosaves, more

    def command(self) -> list[str]:
        assert MOSQUITTO, "mosquitto is not installed"
        autosave = "autosave_on_changes true\nautosave_interval 1\n" if self.autosaves else ""
        # With its default of 20 messages in flight, version 2.0.11 stops delivering at QoS 2 if more are queued.
        (self.folder / "mosquitto.conf").write_text(
            f"user root\nlistener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {self.folder}/\n"
            f"max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\n{autosave}{self.more}"
        )
        return [MOSQUITTO, "-c", "mosquitto.conf"]


class Nats(Foreign):
    """nats-server, which speaks 3.1.1."""

    name = "nats-server"
    version = 4

    def command(self) -> list[str]:
        (self.folder / "nats.conf").write_text(
            f"server_name: peer\nlisten: \"127.0.0.1:{links.free_port()}\"\njetstream {{ store_dir: \"store\"\nsync_interval: always }}\n"
            f"mqtt {{ listen: \"127.0.0.1:{self.port}\" }}\n"
        )
        return [NATS_SERVER, "-c", "nats.conf"]


class Mochi(Foreign):
    """mochi-mqtt, as tests/interop builds it. It keeps nothing, and picks its port by itself."""

    name = "mochi"

    def _start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([MOCHI], stdout=subprocess.PIPE, stderr=log, cwd=self.folder)
        assert self.process.stdout
        line = self.process.stdout.readline().decode()
        found = re.match(r"listening on mqtt://.*:(\d+)", line)
        assert found, line
        self.port = int(found[1])

    def kill(self) -> None:
        if self.process and self.process.stdout:
            self.process.stdout.close()
        super().kill()


class HiveMq(Foreign):
    """HiveMQ Community Edition, as bench/peers installs it. It takes many seconds to start."""

    name = "hivemq"

    def command(self) -> list[str]:
        classes = PEERS / "hivemq"
        return ["java", "-Xmx512m", "-cp", f"{classes}:{classes}/lib/*", "HiveMq", str(self.port)]
