"""The brokers that clients are tested with: how to install each, and how to start it on a port that the kernel picked."""

from __future__ import annotations

import os
import queue
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import setup

READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
# The port is free when it is picked, but another process may take it before the broker does.
START_ATTEMPTS = 5
NATS_SERVER = setup.ROOT / "bench" / "peers" / "bin" / "nats-server"


class BrokerError(Exception):
    """A broker is missing, did not start, or did not exit cleanly."""


@dataclass(frozen=True)
class Broker:
    """The title and the capabilities of a broker."""

    title: str
    versions: tuple[str, ...]
    version_of: Callable[[], str]
    prepare: Callable[[], None]
    command: Callable[[Path, int], list[str]]
    # It prints its port; the others get one.
    announces: bool = False


@contextmanager
def running(broker: Broker) -> Iterator[tuple[str, str]]:
    """Runs the broker in a new folder; yields its host and port, and stops it."""
    with tempfile.TemporaryDirectory(prefix="tautwire-interop-") as folder:
        process, host, port = _start(broker, Path(folder))
        try:
            yield host, port
            if process.poll() is not None:
                raise BrokerError(f"{broker.title} exited unexpectedly with status {process.returncode}")
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(broker: Broker, folder: Path) -> tuple[subprocess.Popen[str], str, str]:
    for _ in range(START_ATTEMPTS):
        port = 0 if broker.announces else _free_port()
        with open(folder / "log", "ab") as log:
            output = subprocess.PIPE if broker.announces else log
            command = broker.command(folder, port)
            process = subprocess.Popen(command, stdout=output, stderr=log, text=True, cwd=folder)
        where = announced(process) if broker.announces else _accepts(process, port)
        if where is not None:
            return process, *where
        process.kill()
        process.wait()
    said = (folder / "log").read_text(errors="replace").strip().splitlines()
    raise BrokerError(f"{broker.title} did not start: {(said or ['no message'])[-1]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _accepts(process: subprocess.Popen[str], port: int) -> tuple[str, str] | None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return "127.0.0.1", str(port)
        except OSError:
            time.sleep(0.01)
    return None


def announced(process: subprocess.Popen[str]) -> tuple[str, str] | None:
    """Returns host and port from the broker's output; None if the process exits first, or is not ready in time."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        # Reads to the end, so that the broker never blocks on a full pipe.
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        if line is None:
            return None
        if ready := re.fullmatch(r"listening on mqtts?://(.+):(\d+)\s*", line):
            return ready[1], ready[2]


def _first_line(*command: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True)
    return ((run.stdout or run.stderr).strip().splitlines() or ["unknown"])[0]


def _number(text: str) -> str:
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found[0] if found else "unknown"


def _locked(folder: str, package: str) -> str:
    lock = (setup.INTEROP / "brokers" / folder / ("package-lock.json" if folder == "aedes" else "go.mod")).read_text()
    pattern = rf'node_modules/{package}": {{\s*"version": "([^"]+)"' if folder == "aedes" else rf"{package} v(\S+)"
    found = re.search(pattern, lock)
    return found[1] if found else "unknown"


def _mosquitto() -> str:
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "mosquitto"


def _prepare_peers() -> None:
    run = subprocess.run([str(setup.ROOT / "bench" / "peers" / "install.sh")], capture_output=True, text=True)
    if run.returncode != 0:
        raise BrokerError(run.stderr.strip())


def _mosquitto_command(folder: Path, port: int) -> list[str]:
    configuration = folder / "mosquitto.conf"
    configuration.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n")
    return [_mosquitto(), "-c", str(configuration)]


def _nats_command(folder: Path, port: int) -> list[str]:
    configuration = folder / "nats.conf"
    # A message that was in flight when the connection broke is redelivered after this time, 30 s by default.
    configuration.write_text(
        f'server_name: interop\nlisten: "127.0.0.1:{_free_port()}"\n'
        f'jetstream {{ store_dir: "{folder}/store" }}\nmqtt {{ listen: "127.0.0.1:{port}", ack_wait: "2s" }}\n'
    )
    return [str(NATS_SERVER), "-c", str(configuration)]


def _ours() -> Path:
    return setup.ROOT / "bin" / "tautwire"


def _need_ours() -> None:
    if not _ours().exists():
        raise BrokerError("bin/tautwire is missing; run `make build`")


ALL: dict[str, Broker] = {
    "tautwire": Broker(
        title="Tautwire",
        versions=("v3", "v5"),
        version_of=lambda: _number(_first_line(str(_ours()), "--version")),
        prepare=_need_ours,
        command=lambda _folder, _port: [str(_ours()), "serve", "--memory", "--listen", "127.0.0.1:0"],
        announces=True,
    ),
    "mosquitto": Broker(
        title="mosquitto",
        versions=("v3", "v5"),
        version_of=lambda: _number(_first_line(_mosquitto(), "-h")),
        prepare=_prepare_peers,
        command=_mosquitto_command,
    ),
    "mochi": Broker(
        title="mochi-mqtt",
        versions=("v3", "v5"),
        version_of=lambda: _locked("mochi", "github.com/mochi-mqtt/server/v2"),
        prepare=lambda: setup.prepare("mochi"),
        command=lambda _folder, _port: [str(setup.MOCHI_BINARY)],
        announces=True,
    ),
    "aedes": Broker(
        title="Aedes",
        versions=("v3",),
        version_of=lambda: _locked("aedes", "aedes"),
        prepare=lambda: setup.prepare("aedes"),
        command=lambda _folder, _port: ["node", str(setup.INTEROP / "brokers" / "aedes" / "broker.mjs")],
        announces=True,
    ),
    "nats-server": Broker(
        title="nats-server",
        versions=("v3",),
        version_of=lambda: _number(_first_line(str(NATS_SERVER), "--version")),
        prepare=_prepare_peers,
        command=_nats_command,
    ),
}
