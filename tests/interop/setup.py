"""Installs what the interop drivers need: packages at the versions their lock files name, and builds.

`python3 tests/interop/setup.py [DRIVER…]` prepares all drivers or those named. What is already in place is
left alone: a stamp under `target/interop-stamps/` holds the hash of the files that a step depends on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

INTEROP = Path(__file__).resolve().parent
ROOT = INTEROP.parent.parent
STAMPS = ROOT / "target" / "interop-stamps"
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"
RUST_TARGET = ROOT / "target" / "interop"
GO_BINARY = INTEROP / "paho-go" / "bin" / "driver"
MOCHI_BINARY = ROOT / "target" / "interop" / "mochi"
PAHO_C_BINARY = ROOT / "target" / "interop" / "paho-c"
RUST_BINARY = RUST_TARGET / "debug" / "tautwire-interop-rumqttc"
CARGO_TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
MOSQUITTO_COMMANDS = ("mosquitto_pub", "mosquitto_sub", "mosquitto_rr")

# The drivers of this repository's own clients.
CLIENTS: dict[str, list[str]] = {
    "typescript": ["node", str(ROOT / "clients" / "typescript" / "packages" / "client" / "interop" / "driver.mjs")],
    "go": [str(ROOT / "target" / "interop" / "go-client")],
    "c": [str(ROOT / "clients" / "c" / "build" / "interop")],
    "rust": [str(CARGO_TARGET / "debug" / "examples" / "interop")],
}


class SetupError(Exception):
    """Something a driver needs is missing; the message says what to do about it."""


def prepare(driver: str) -> None:
    STEPS[driver]()


def prepare_mosquitto() -> None:
    missing = [name for name in MOSQUITTO_COMMANDS if shutil.which(name) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupError(f"{', '.join(missing)} not found: install them (Debian: sudo apt-get install mosquitto-clients)")
    # Another package installation may hold apt's lock for a while.
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "-y", "--no-install-recommends", "mosquitto-clients"]
    if not _succeeds(install):
        _run([*apt, "update"])
        _run(install)


def prepare_mqttjs() -> None:
    folder = INTEROP / "mqttjs"
    _require("npm", "install Node.js 20 or later")
    with _Stamp("mqttjs", [folder / "package-lock.json"], folder / "node_modules") as stamp:
        if stamp.stale:
            _run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder)


def prepare_paho_python() -> None:
    requirements = INTEROP / "paho-python" / "requirements.txt"
    if not VENV_PYTHON.exists():
        _run([sys.executable, "-m", "venv", str(ROOT / ".venv")])
    with _Stamp("paho-python", [requirements], VENV_PYTHON) as stamp:
        if stamp.stale:
            _run([str(VENV_PYTHON), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)])


def prepare_paho_go() -> None:
    folder = INTEROP / "paho-go"
    _require("go", "install Go 1.24 or later")
    sources = [folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))]
    with _Stamp("paho-go", sources, GO_BINARY) as stamp:
        if stamp.stale:
            _run(["go", "build", "-mod=readonly", "-trimpath", "-o", str(GO_BINARY), "."], cwd=folder)


def prepare_paho_c() -> None:
    _require("cc", "install a C compiler (Debian: gcc)")
    _run([str(ROOT / "tools" / "apt.sh"), "/usr/include/MQTTClient.h=libpaho-mqtt-dev"])
    source = INTEROP / "paho-c" / "driver.c"
    with _Stamp("paho-c", [source], PAHO_C_BINARY) as stamp:
        if stamp.stale:
            PAHO_C_BINARY.parent.mkdir(parents=True, exist_ok=True)
            warnings = ["-Wall", "-Wextra", "-Werror"]
            _run(["cc", "-std=gnu11", "-O1", *warnings, "-o", str(PAHO_C_BINARY), str(source), "-lpaho-mqtt3cs"])


def prepare_rumqttc() -> None:
    folder = INTEROP / "rumqttc"
    _require("cargo", "install Rust 1.90 or later")
    sources = [folder / "Cargo.toml", folder / "Cargo.lock", *sorted(folder.glob("src/**/*.rs"))]
    with _Stamp("rumqttc", sources, RUST_BINARY) as stamp:
        if stamp.stale:
            _run(["cargo", "build", "--locked", "--quiet", "--target-dir", str(RUST_TARGET)], cwd=folder)


def prepare_mochi() -> None:
    folder = INTEROP / "brokers" / "mochi"
    _require("go", "install Go 1.24 or later")
    sources = [folder / "go.mod", folder / "go.sum", folder / "main.go"]
    with _Stamp("mochi", sources, MOCHI_BINARY) as stamp:
        if stamp.stale:
            _run(["go", "build", "-mod=readonly", "-trimpath", "-o", str(MOCHI_BINARY), "."], cwd=folder)


def prepare_aedes() -> None:
    folder = INTEROP / "brokers" / "aedes"
    _require("npm", "install Node.js 20 or later")
    with _Stamp("aedes", [folder / "package-lock.json"], folder / "node_modules") as stamp:
        if stamp.stale:
            _run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder)


def prepare_typescript() -> None:
    _require("npm", "install Node.js 20 or later")
    _run(["make", "--silent", "typescript"], cwd=ROOT)


def prepare_go() -> None:
    _require("go", "install Go 1.24 or later")
    _run(["go", "-C", str(ROOT / "clients" / "go"), "build", "-o", CLIENTS["go"][0], "./internal/interop"])


def prepare_c() -> None:
    _require("make", "install GNU make")
    _run(["make", "--silent", "-C", str(ROOT / "clients" / "c"), "interop"])


def prepare_rust() -> None:
    _require("cargo", "install Rust 1.90 or later")
    _run(["cargo", "build", "--locked", "--quiet", "-p", "tautwire-client", "--example", "interop"], cwd=ROOT)


STEPS: dict[str, Callable[[], None]] = {
    "mosquitto": prepare_mosquitto,
    "mqttjs": prepare_mqttjs,
    "paho-python": prepare_paho_python,
    "paho-go": prepare_paho_go,
    "paho-c": prepare_paho_c,
    "rumqttc": prepare_rumqttc,
    "mochi": prepare_mochi,
    "aedes": prepare_aedes,
    "typescript": prepare_typescript,
    "go": prepare_go,
    "c": prepare_c,
    "rust": prepare_rust,
}


class _Stamp:
    """Records the inputs of a successful step, so that it runs again only if they change."""

    def __init__(self, name: str, inputs: list[Path], product: Path) -> None:
        self._file = STAMPS / name
        digest = hashlib.sha256()
        for path in inputs:
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        self._digest = digest.hexdigest()
        recorded = self._file.read_text() if self._file.exists() else ""
        self.stale = recorded != self._digest or not product.exists()

    def __enter__(self) -> _Stamp:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None and self.stale:
            STAMPS.mkdir(parents=True, exist_ok=True)
            self._file.write_text(self._digest)


def _require(command: str, remedy: str) -> None:
    if shutil.which(command) is None:
        raise SetupError(f"{command} not found: {remedy}")


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def _run(command: list[str], cwd: Path | None = None) -> None:
    print("+ " + " ".join(command), file=sys.stderr, flush=True)
    status = subprocess.run(command, cwd=cwd, stdout=sys.stderr).returncode
    if status != 0:
        raise SetupError(f"`{' '.join(command)}` exited with status {status}")


def main() -> int:
    chosen = sys.argv[1:] or list(STEPS)
    unknown = [name for name in chosen if name not in STEPS]
    if unknown:
        print(f"unknown driver: {', '.join(unknown)}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    for name in chosen:
        try:
            prepare(name)
        except SetupError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
