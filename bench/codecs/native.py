"""The native programs: how each is built and run, in full and quick runs, and the parser of its output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import forms
from forms import Measured

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench" / "rtt"))
from drivers import pinned  # noqa: E402

BROKER = Path(os.environ.get("TAUTWIRE_BIN", ROOT / "bin" / "tautwire"))
GO = ROOT / "clients" / "go" / "bench"
C = ROOT / "clients" / "c"
TYPESCRIPT = ROOT / "clients" / "typescript"
PYTHON = ROOT / "clients" / "python" / "bench"
C_PEERS = {"paho": "libpaho-mqtt-dev", "paho_sync": "libpaho-mqtt-dev", "libmosquitto": "libmosquitto-dev"}
GO_PEERS = ("github.com/eclipse/paho.golang", "github.com/gregoryv/mq", "github.com/mochi-mqtt/server/v2", "github.com/soypat/natiu-mqtt")
TIMEOUT_S = 3600

FREE = "free"
# The garbage collector runs on the measured thread, so its time counts.
ONE_THREAD = "GOMAXPROCS=1"
# Round trips across processors mostly measure where the scheduler places the broker.
ONE_CPU = "broker=0,generator=0"


class Unavailable(Exception):
    """A benchmark that this machine cannot run, with the reason."""


@dataclass(frozen=True)
class Benchmark:
    """`language` and `part` are its names in the report."""

    title: str
    language: str
    part: str
    run: Callable[[bool], Measured]
    placement: str = FREE


def _say(command: list[str], environment: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    """Returns its standard output; progress on standard error passes through."""
    if not shutil.which(command[0]):
        raise Unavailable(f"{command[0]} is not installed")
    try:
        variables = os.environ | (environment or {})
        done = subprocess.run(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)} was not done in {TIMEOUT_S} s") from None
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise Unavailable(f"{' '.join(command)} ended with {done.returncode}")
    return done.stdout


def _first_line(*command: str) -> str:
    return _say(list(command)).partition("\n")[0]


def _cargo(folder: str, quick: bool) -> dict:
    manifest = str(ROOT / "bench" / folder / "Cargo.toml")
    with tempfile.TemporaryDirectory() as out:
        path = Path(out) / "result.json"
        options = ["--output", str(path), *(["--quick"] if quick else []), *(["--broker", str(BROKER)] if folder == "rust-client" else [])]
        sys.stderr.write(_say(["cargo", "run", "--release", "--locked", "--quiet", "--manifest-path", manifest, "--", *options]))
        return json.loads(path.read_text())


def _need_broker() -> None:
    if not BROKER.exists():
        raise Unavailable(f"{BROKER} is not there: `make build`")


def _codec_rust(quick: bool) -> Measured:
    measured = forms.rust_cases(_cargo("codec", quick))
    measured.versions["rustc"] = _first_line("rustc", "--version")
    return measured


def _client_rust(quick: bool) -> Measured:
    _need_broker()
    measured = forms.rust_client(_cargo("rust-client", quick))
    measured.versions["rustc"] = _first_line("rustc", "--version")
    return measured


def _contracts(quick: bool) -> Measured:
    measured = forms.rust_cases(_cargo("contracts", quick))
    measured.versions["rustc"] = _first_line("rustc", "--version")
    return measured


def _codec_go(quick: bool) -> Measured:
    short = {"ROUNDS": "2", "BENCHTIME": "10ms"} if quick else {}
    measured = forms.go_codec(_say([str(GO / "run.sh")], short) if shutil.which("go") else _say(["go"]))
    required = (GO / "go.mod").read_text()
    found = {peer: re.search(rf"{re.escape(peer)} (\S+)", required) for peer in GO_PEERS}
    measured.versions = {peer: version[1] for peer, version in found.items() if version} | {"go": _first_line("go", "version")}
    return measured


def _make_c(target: str, *variables: str) -> str:
    return _say(["make", "-C", str(C), "--silent", "--no-print-directory", target, f"TAUTWIRE_BIN={BROKER}", *variables])


def _codec_c(quick: bool) -> Measured:
    measured = forms.c_codec(json.loads(_make_c("bench-codec", "ROUNDS=5" if quick else "ROUNDS=51")))
    measured.versions["compiler"] = _first_line(os.environ.get("CC", "gcc"), "--version")
    return measured


def _client_c(quick: bool) -> Measured:
    _need_broker()
    with pinned(0):
        data = json.loads(_make_c("bench-client", "BENCH_ARGS=--rounds 2 --count 500" if quick else "BENCH_ARGS="))
    measured = forms.c_client(data)
    present = {library for level in data["samples"].values() for library in level}
    measured.left_out = {library: f"{package} is not installed" for library, package in C_PEERS.items() if library not in present}
    measured.versions = {"compiler": _first_line(os.environ.get("CC", "gcc"), "--version"), **_debian_versions(set(C_PEERS.values()))}
    return measured


def _debian_versions(packages: set[str]) -> dict[str, str]:
    if not shutil.which("dpkg-query"):
        return {}
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n", *sorted(packages)]
    lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    return dict(words for line in lines if len(words := line.split()) == 2)


def _npm(folder: Path, *options: str) -> None:
    """Installs the packages of the lock file, unless they are installed already."""
    lock = folder / "package-lock.json"
    installed = folder / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        sys.stderr.write(_say(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", *options], folder=folder))


def _node(package: str, script: str, *arguments: str, environment: dict[str, str] | None = None) -> dict:
    _npm(TYPESCRIPT)
    sys.stderr.write(_say(["npm", "run", "--silent", "build"], folder=TYPESCRIPT))
    folder = TYPESCRIPT / "packages" / package
    return json.loads(_say(["node", str(folder / "bench" / script), *arguments], environment, folder))


def _codec_js(quick: bool) -> Measured:
    short = {"ROUNDS": "1", "SAMPLES": "1", "COUNT": "200000"} if quick else {}
    return forms.js_codec(_node("mqtt-codec", "run.mjs", environment=short))


def _msgpack_js(quick: bool) -> Measured:
    _npm(TYPESCRIPT / "packages" / "msgpack" / "bench", "--workspaces=false")
    short = {"SAMPLES": "2"} if quick else {}
    return forms.js_msgpack(_node("msgpack", "run.js", "--processes", "1" if quick else "3", environment=short))


def _client_js(quick: bool) -> Measured:
    _need_broker()
    short = {"ROUNDS": "1", "COUNT": "40000", "TRIPS": "1000"} if quick else {}
    return forms.js_client(_node("client", "run.mjs", environment={"TAUTWIRE_BIN": str(BROKER), **short}))


def _client_python_one_cpu(quick: bool) -> Measured:
    with pinned(0):
        return _client_python(quick)


def _client_python(quick: bool) -> Measured:
    _need_broker()
    python = Path(os.environ.get("PYTHON_VENV", ROOT / "target" / "python-venv")) / "bin" / "python"
    if not python.exists():
        raise Unavailable(f"{python} is not there: `make python-venv`")
    script = [str(python), "-B", str(PYTHON / "run.py"), "--json", "--broker", str(BROKER)]
    return forms.python_client(json.loads(_say([*script, *(["--quick", "--rounds", "2"] if quick else [])])))


BENCHMARKS = {
    "codec-rust": Benchmark("the Rust codec beside three others: CPU time for a packet", "Rust", "codec", _codec_rust),
    "client-rust": Benchmark("the Rust client beside rumqttc: messages a second of its CPU", "Rust", "client", _client_rust),
    "codec-go": Benchmark("the Go codec beside four others: CPU time and allocations for a packet", "Go", "codec", _codec_go, ONE_THREAD),
    "codec-c": Benchmark("the C codec: CPU time for a packet", "C", "codec", _codec_c),
    "client-c": Benchmark("the C client beside paho and libmosquitto: round trips", "C", "client", _client_c, ONE_CPU),
    "codec-js": Benchmark("the TypeScript codec beside mqtt-packet: CPU time for a packet", "JavaScript", "codec", _codec_js),
    "msgpack-js": Benchmark("MessagePack in TypeScript beside others: CPU time for a value", "JavaScript", "MessagePack", _msgpack_js),
    "client-js": Benchmark("the TypeScript client beside MQTT.js: messages a second of its CPU", "JavaScript", "client", _client_js),
    "client-python": Benchmark("the Python client beside aiomqtt and paho-mqtt: messages a second", "Python", "client", _client_python),
    "client-python-one-cpu": Benchmark(
        "the Python client beside aiomqtt and paho-mqtt, with the broker on one CPU: messages a second",
        "Python", "client and broker on one CPU", _client_python_one_cpu, ONE_CPU,
    ),
    "contracts": Benchmark("contracts beside libraries that parse the same bytes: CPU time for a payload", "Rust", "contracts", _contracts),
}
