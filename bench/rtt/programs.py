"""The programs of the matrix: brokers, drivers, and the bare sockets that are the floor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "rtt"

sys.path.insert(0, str(ROOT / "tests" / "interop"))
import brokers as interop_brokers  # noqa: E402
import setup as interop_setup  # noqa: E402

C_FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
C_LIBRARY = ROOT / "clients" / "c" / "dist"
JAVASCRIPT = ROOT / "clients" / "typescript" / "packages" / "client"


@dataclass(frozen=True)
class Client:
    """A library with its driver. `digit` (hexadecimal) identifies the client in a payload."""

    name: str
    title: str
    ours: bool
    digit: str
    command: tuple[str, ...]
    # Shows the effect of TCP_NODELAY: only exchanges with a server of its own kind, and not at QoS 0.
    about_nodelay: bool = False
    # A virtual machine compiles hot code on the shared CPU. Until then, the measurement is mostly its own work.
    warm_up_exchanges: int = 0


PYTHON = (str(ROOT / ".venv" / "bin" / "python"), "-B")
PYTHON_DRIVER = (*PYTHON, str(HERE / "python" / "driver.py"))
JAVA_FOLDER = TARGET / "java"
# A small heap, no garbage collector threads, and no threads that wake up periodically.
JAVA = ("java", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx64m", "-cp", f"{JAVA_FOLDER / 'classes'}:{JAVA_FOLDER / 'libraries'}/*", "rtt.Driver")
C_PAHO = (str(TARGET / "c-paho"),)
C_PAHO_NODELAY = ("env", f"LD_PRELOAD={TARGET / 'nodelay.so'}", *C_PAHO)

CLIENTS = {
    client.name: client
    for client in (
        Client("c", "C, Tautwire", True, "0", (str(TARGET / "c-tautwire"),)),
        Client("c-paho", "C, paho", False, "1", C_PAHO),
        Client("rust", "Rust, Tautwire", True, "2", (str(TARGET / "release" / "tautwire-rtt"),)),
        Client("go", "Go, Tautwire", True, "3", (str(TARGET / "go"), "tautwire")),
        Client("go-paho", "Go, paho", False, "4", (str(TARGET / "go"), "paho")),
        Client("js", "JavaScript, Tautwire", True, "5", ("node", str(HERE / "javascript" / "driver.mjs"), "tautwire")),
        Client("js-mqttjs", "JavaScript, MQTT.js", False, "6", ("node", str(HERE / "javascript" / "driver.mjs"), "mqttjs")),
        Client("python", "Python, paho", False, "7", PYTHON_DRIVER),
        Client("python-nagle", "Python, paho, as it comes", False, "8", (*PYTHON_DRIVER, "--nagle"), about_nodelay=True),
        Client("c-paho-nodelay", "C, paho, TCP_NODELAY", False, "9", C_PAHO_NODELAY, about_nodelay=True),
        Client("java", "Java, paho", False, "a", (*JAVA, "mqttv3"), about_nodelay=True, warm_up_exchanges=20_000),
        Client("java-nagle", "Java, paho, as it comes", False, "b", (*JAVA, "mqttv3", "--nagle"), about_nodelay=True, warm_up_exchanges=20_000),
    )
}

# The raw programs by language and protocol.
RAW = {
    (language, protocol): (*command, protocol)
    for language, command in (("c", (str(TARGET / "raw"),)), ("js", ("node", str(HERE / "javascript" / "raw.mjs"))))
    for protocol in ("tcp", "udp")
} | {("c", "relay"): (str(TARGET / "raw"), "relay")}

BROKERS = {
    # One thread, as in the other scenarios: the other cores are for client and server.
    "tautwire": replace(
        interop_brokers.ALL["tautwire"],
        command=lambda _folder, _port: [str(ROOT / "bin" / "tautwire"), "serve", "--memory", "--listen", "127.0.0.1:0", "--threads", "1"],
    ),
    "mosquitto": interop_brokers.ALL["mosquitto"],
    "aedes": replace(
        interop_brokers.ALL["aedes"], command=lambda _folder, _port: ["node", str(HERE / "javascript" / "aedes.mjs")]
    ),
}


class Unavailable(Exception):
    """A program is not available here; the message has the reason."""


def prepare_broker(name: str) -> None:
    if name == "mosquitto" and shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return
    try:
        BROKERS[name].prepare()
    except (interop_setup.SetupError, interop_brokers.BrokerError) as error:
        raise Unavailable(str(error)) from error


def prepare_client(name: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    try:
        PREPARE[name]()
    except (interop_setup.SetupError, subprocess.CalledProcessError, OSError) as error:
        raise Unavailable(str(error)) from error


def prepare_raw() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    _compile("raw", "raw.c")


def _c_tautwire() -> None:
    _compile("c-tautwire", "driver.c", "tautwire.c", library=[f"-I{C_LIBRARY}", str(C_LIBRARY / "tautwire.c")])


def _c_paho() -> None:
    subprocess.run([str(ROOT / "tools" / "apt.sh"), "/usr/include/MQTTClient.h=libpaho-mqtt-dev"], check=True)
    _compile("c-paho", "driver.c", "paho.c", library=["-lpaho-mqtt3c"])


def _c_paho_nodelay() -> None:
    _c_paho()
    _compile("nodelay.so", "nodelay.c", library=["-shared", "-fPIC"])


def _java() -> None:
    subprocess.run([str(ROOT / "tools" / "apt.sh"), "javac=default-jdk-headless", "mvn=maven"], check=True)
    goals = ["compile", "dependency:copy-dependencies"]
    into = [f"-Dinto={JAVA_FOLDER}", f"-DoutputDirectory={JAVA_FOLDER / 'libraries'}"]
    run = subprocess.run(["mvn", "--quiet", "--batch-mode", *into, *goals], cwd=HERE / "java", capture_output=True, text=True)
    if run.returncode != 0:
        print(run.stdout, run.stderr, file=sys.stderr)
        run.check_returncode()


def _compile(name: str, *sources: str, library: list[str] | None = None) -> None:
    paths = [str(HERE / "c" / source) for source in sources]
    compiler = os.environ.get("CC") or "cc"
    subprocess.run([compiler, *C_FLAGS, f"-I{HERE / 'c'}", *paths, *(library or []), "-o", str(TARGET / name)], check=True)


def _rust() -> None:
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(HERE / "rust" / "Cargo.toml")]
    subprocess.run(command, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})


def _go() -> None:
    command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(TARGET / "go"), "."]
    subprocess.run(command, check=True, cwd=HERE / "go")


PREPARE = {
    "c": _c_tautwire,
    "c-paho": _c_paho,
    "rust": _rust,
    "go": _go,
    "go-paho": _go,
    "js": lambda: interop_setup.prepare("typescript"),
    "js-mqttjs": lambda: interop_setup.prepare("mqttjs"),
    "python": lambda: interop_setup.prepare("paho-python"),
    "python-nagle": lambda: interop_setup.prepare("paho-python"),
    "c-paho-nodelay": _c_paho_nodelay,
    "java": _java,
    "java-nagle": _java,
}


def versions(brokers: list[str], clients: list[str]) -> dict[str, str]:
    """Returns the version of each program."""
    said = {name: BROKERS[name].version_of() for name in brokers}
    found = {
        "c-paho": lambda: _said("dpkg-query", "-W", "-f=${Version}", "libpaho-mqtt-dev"),
        "go-paho": lambda: _in(HERE / "go" / "go.mod", r"paho\.mqtt\.golang v(\S+)"),
        "js-mqttjs": lambda: _in(ROOT / "tests" / "interop" / "mqttjs" / "package.json", r'"mqtt": "([^"]+)"'),
        "java": lambda: _in(HERE / "java" / "pom.xml", r"client\.mqttv3</artifactId>\s*<version>([^<]+)"),
        "python": lambda: _in(ROOT / "tests" / "interop" / "paho-python" / "requirements.txt", r"paho-mqtt==(\S+)"),
    }
    said |= {name: found[name]() for name in clients if name in found}
    toolchains = {"cc": (os.environ.get("CC") or "cc", "--version"), "go toolchain": ("go", "version"), "java runtime": ("java", "--version"),
                  "node": ("node", "--version"), "python interpreter": (PYTHON[0], "--version"), "rustc": ("rustc", "--version")}
    return said | {name: _said(*command) for name, command in toolchains.items()}


def _said(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError:
        return "unknown"
    return ((run.stdout or run.stderr).strip().splitlines() or ["unknown"])[0]


def _in(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text())
    return found[1] if found else "unknown"
