"""nats-servers and brokers on loopback, each with its own folder. They can be killed, paused and restarted, and all of them end
with the stage."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# Longer than any step takes on a busy machine.
PATIENCE_S = 90
LISTENING = re.compile(r"^listening on (mqtt|http)://([\d.]+:\d+)$")


class StageError(Exception):
    """A process did not start, or not in time."""


def wait_until(what: str, holds, patience_s: float = PATIENCE_S):
    """Waits until `holds` returns a true value, and returns it."""
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise StageError(f"{what}: timed out after {patience_s} s")
        time.sleep(0.02)
    return found


def free_ports(count: int) -> list[int]:
    """Returns ports that are free now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def fetch(url: str, token: str | None = None, method: str = "GET", timeout_s: float = 5) -> str | None:
    """Returns the body of the response; None if there is no response or an error status."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.read().decode()
    except (OSError, urllib.error.URLError):
        return None


@dataclass(frozen=True)
class Place:
    """Where a process runs: an address, and the command prefix that starts a program there."""

    host: str = "127.0.0.1"
    wrapper: tuple[str, ...] = ()


@dataclass
class Process:
    """A program that can be restarted with the same command."""

    name: str
    folder: Path
    place: Place
    command: list[str]
    child: subprocess.Popen | None = None

    def spawn(self) -> None:
        with open(self.folder / "log", "ab") as log:
            # Ctrl-C is for this process, which stops the others in order.
            self.child = subprocess.Popen(
                [*self.place.wrapper, *self.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )

    @property
    def is_running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def send(self, number: int) -> None:
        if self.is_running:
            self.child.send_signal(number)

    def kill(self) -> None:
        """Kills it without a shutdown."""
        self.send(signal.SIGKILL)
        self.wait()

    def pause(self) -> None:
        """Stops it with SIGSTOP; its peers are not notified."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def wait(self, timeout_s: float = PATIENCE_S) -> int | None:
        return None if self.child is None else self.child.wait(timeout_s)

    def stop(self) -> None:
        """Shuts it down; kills it if that takes too long."""
        self.resume()
        self.send(signal.SIGTERM)
        try:
            self.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@dataclass
class NatsServer(Process):
    clients: int = 0
    monitoring: int = 0
    routes: int = 0
    # The MQTT port of the server itself; 0 if MQTT is off.
    mqtt: int = 0

    @property
    def address(self) -> str:
        return f"nats://{self.place.host}:{self.clients}"

    @property
    def monitor(self) -> str:
        return f"{self.place.host}:{self.monitoring}"

    def is_well(self) -> bool:
        answer = fetch(f"http://{self.monitor}/healthz", timeout_s=1)
        return answer is not None and '"ok"' in answer

    def must_be_well(self) -> bool:
        if not self.is_running:
            raise StageError(f"{self.name} is not running:\n{self.said()[-2000:]}")
        return self.is_well()

    def leads(self, stream: str | None) -> bool:
        """Whether this server reports itself as leader of a stream, or of the JetStream meta group for `None`."""
        answer = fetch(f"http://{self.monitor}/jsz?streams=true", timeout_s=2)
        if answer is None:
            return False
        if stream is None:
            return (json.loads(answer).get("meta_cluster") or {}).get("leader") == self.name
        accounts = json.loads(answer).get("account_details") or []
        streams = [one for account in accounts for one in account.get("stream_detail") or []]
        own = [one for one in streams if one["name"] == stream]
        return any((one.get("cluster") or {}).get("leader") == self.name for one in own)


@dataclass
class Broker(Process):
    token: str = ""
    mqtt: str = ""
    admin: str = ""
    said_before: int = field(default=0)

    def start(self, patience_s: float = PATIENCE_S) -> None:
        """Starts it, and waits until it prints its addresses."""
        self.begin()
        self.await_listening(patience_s)

    def begin(self) -> None:
        self.mqtt = self.admin = ""
        self.said_before = len(self.said()) if (self.folder / "log").exists() else 0
        self.spawn()

    def await_listening(self, patience_s: float = PATIENCE_S) -> None:
        def listens() -> bool:
            if not self.is_running:
                raise StageError(f"{self.name} did not start:\n{self.said()[self.said_before :]}")
            for line in self.said()[self.said_before :].splitlines():
                if found := LISTENING.match(line):
                    if found[1] == "mqtt":
                        self.mqtt = found[2]
                    else:
                        self.admin = found[2]
            return bool(self.mqtt and self.admin)

        wait_until(f"{self.name} listens", listens, patience_s)

    @property
    def port(self) -> int:
        return int(self.mqtt.rsplit(":", 1)[1])

    def ask(self, path: str, method: str = "GET") -> dict | None:
        answer = fetch(f"http://{self.admin}{path}", self.token, method)
        return None if answer is None else json.loads(answer)

    def is_serving(self) -> bool:
        status = self.ask("/v1/cluster")
        return status is not None and status["serving"]


class Stage:
    """Servers and brokers that belong together. `place` maps the name of each process to where it runs; by default all run on
    loopback."""

    def __init__(self, folder: Path, nats_server: str, tautwire: str, place: Callable[[str], Place] | None = None) -> None:
        self.folder, self.nats_server, self.tautwire = folder, nats_server, tautwire
        self._place = place or (lambda _: Place())
        self.servers: list[NatsServer] = []
        self.brokers: list[Broker] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def start_servers(self, count: int, more: str = "", of_jetstream: str = "", with_mqtt: bool = False) -> None:
        """`more`: extra lines for the configuration of each server; `of_jetstream`: lines for its `jetstream` block. `with_mqtt`:
        each server also speaks MQTT."""
        ports = free_ports(4 * count)
        for at in range(count):
            clients, monitoring, routes, mqtt = ports[4 * at : 4 * at + 4]
            folder = self.folder / f"nats-{at + 1}"
            folder.mkdir(parents=True, exist_ok=True)
            command = [self.nats_server, "-c", str(folder / "server.conf")]
            place = self._place(folder.name)
            self.servers.append(NatsServer(folder.name, folder, place, command, None, clients, monitoring, routes, mqtt if with_mqtt else 0))
        for server in self.servers:
            (server.folder / "server.conf").write_text(self._config_of(server, more, of_jetstream))
            server.spawn()
        self.await_servers()

    def await_servers(self) -> None:
        for server in self.servers:
            wait_until(f"{server.name} is healthy", server.must_be_well)

    def start_brokers(self, count: int, settings: list[str] | None = None, replicas: int | None = None) -> None:
        """Starts all at once: they create the streams together."""
        new = [self.add_broker(settings or [], replicas) for _ in range(count)]
        for broker in new:
            broker.begin()
        for broker in new:
            broker.await_listening()

    def add_broker(self, settings: list[str], replicas: int | None = None) -> Broker:
        """Adds one more broker, which is not started yet."""
        folder = self.folder / f"broker-{len(self.brokers) + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        place = self._place(folder.name)
        token = secrets.token_urlsafe(24)
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        own = [
            f"data.path={folder / 'data'}",
            f"cluster.name={folder.name}",
            f"cluster.monitoring_addresses={','.join(server.monitor for server in self.servers)}",
            f"cluster.replicas={replicas or min(3, len(self.servers))}",
            f"admin.listen={place.host}:0",
            f"admin.token_file={folder / 'token'}",
        ]
        servers = ",".join(server.address for server in self.servers)
        command = [self.tautwire, "serve", "--listen", f"{place.host}:{free_ports(1)[0]}", "--cluster", servers]
        for setting in own + settings:
            command += ["--set", setting]
        broker = Broker(folder.name, folder, place, command, None, token)
        self.brokers.append(broker)
        return broker

    def stop(self) -> None:
        """Brokers first: they leave the cluster properly."""
        for broker in self.brokers:
            broker.resume()
            broker.send(signal.SIGTERM)
        for process in [*self.brokers, *self.servers]:
            process.stop()

    def _config_of(self, server: NatsServer, more: str, of_jetstream: str) -> str:
        routes = ", ".join(f"nats://{other.place.host}:{other.routes}" for other in self.servers)
        alone = len(self.servers) == 1
        mqtt = f"mqtt {{ listen: {server.place.host}:{server.mqtt} }}\n" if server.mqtt else ""
        cluster = "" if alone else f"cluster {{ name: tautwire, listen: {server.place.host}:{server.routes}, routes: [{routes}] }}\n"
        return (
            f"server_name: {server.name}\n"
            f"listen: {server.place.host}:{server.clients}\n"
            f"http: {server.monitor}\n"
            f'jetstream {{ store_dir: "{server.folder}", sync_interval: always, {of_jetstream} }}\n'
            f"{cluster}{mqtt}{more}\n"
        )


def program(variable: str) -> str:
    """Returns the program that an environment variable names."""
    if not (path := os.environ.get(variable)):
        raise StageError(f"{variable} is not set; run this with make")
    return path
