"""The agents of all languages: how to build and start each, and its output."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "scenario"
BUILD_TIMEOUT_S = 900
# The time limit for every step of an agent.
PATIENCE_S = 90.0
END_TIMEOUT_S = 60


class AgentError(Exception):
    """An agent cannot be built or started, or did not exit cleanly."""


@dataclass(frozen=True)
class Language:
    """The location of the agent, and how to build and run it."""

    source: Path
    folder: Path
    build: Callable[[], list[list[str]]]
    command: Callable[[], list[str]]


TYPESCRIPT = ROOT / "clients" / "typescript"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))


def _build_rust() -> list[list[str]]:
    example = ["-p", "tautwire-client", "--example", "scenario", "--features", "tls,websocket"]
    return [["cargo", "build", "--locked", "--quiet", *example]]


LANGUAGES: dict[str, Language] = {
    "typescript": Language(
        TYPESCRIPT / "packages" / "client" / "scenario" / "agent.mjs",
        ROOT,
        lambda: [["make", "--silent", "typescript"]],
        lambda: ["node", str(TYPESCRIPT / "packages" / "client" / "scenario" / "agent.mjs")],
    ),
    "go": Language(
        ROOT / "clients" / "go" / "internal" / "scenario",
        ROOT / "clients" / "go",
        lambda: [["go", "build", "-o", str(BUILT / "go"), "./internal/scenario"]],
        lambda: [str(BUILT / "go")],
    ),
    "rust": Language(
        ROOT / "clients" / "rust" / "examples" / "scenario.rs",
        ROOT,
        _build_rust,
        lambda: [str(TARGET / "debug" / "examples" / "scenario")],
    ),
    "c": Language(
        ROOT / "clients" / "c" / "tests" / "scenario.c",
        ROOT,
        lambda: [["make", "--silent", "-C", "clients/c", "scenario"]],
        lambda: [str(ROOT / "clients" / "c" / "build" / "scenario")],
    ),
    "python": Language(
        ROOT / "clients" / "python" / "scenario" / "agent.py",
        ROOT,
        lambda: [["make", "--silent", "python-venv"]],
        lambda: [str(TARGET / "python-venv" / "bin" / "python"), str(ROOT / "clients" / "python" / "scenario" / "agent.py")],
    ),
}


def prepare(name: str) -> None:
    language = LANGUAGES[name]
    if not language.source.exists():
        raise AgentError(f"{name} has no agent ({language.source.relative_to(ROOT)}); --languages leaves it out")
    BUILT.mkdir(parents=True, exist_ok=True)
    for command in language.build():
        try:
            built = subprocess.run(command, cwd=language.folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AgentError(f"{name}: cannot build the agent: {error}") from None
        if built.returncode != 0:
            raise AgentError(f"{name}: cannot build the agent:\n{built.stdout}{built.stderr}".rstrip())


class Agent:
    """A running agent. Its output is a list of lines, of which `taken` have been read."""

    def __init__(self, language: str, label: str, address: str, log: Path) -> None:
        self.language, self.label = language, label
        self.lines: list[str] = []
        self.taken = 0
        self._news = threading.Condition()
        self._has_ended = False
        command = [*LANGUAGES[language].command(), address]
        try:
            with open(log, "wb") as errors:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
                )
        except OSError as error:
            raise AgentError(f"cannot start {command[0]}: {error}") from None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.lines.append(plain(line.rstrip("\n")))
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise AgentError(f"{self.label} no longer reads commands ({command!r}): {error}") from None

    def next(self, wanted: Callable[[str], bool], patience_s: float = PATIENCE_S) -> str | None:
        """Returns the next wanted line, skipping others. None on timeout, or if the agent has exited."""
        deadline = time.monotonic() + patience_s
        with self._news:
            while True:
                while self.taken < len(self.lines):
                    line = self.lines[self.taken]
                    self.taken += 1
                    if wanted(line):
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or self._has_ended:
                    return None
                self._news.wait(left)

    def end(self) -> None:
        """Closes its input, and waits for it to exit."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            status = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AgentError(f"{self.label} did not exit within {END_TIMEOUT_S} s of the end of its input") from None
        except OSError:
            status = self._process.wait()
        if status != 0:
            raise AgentError(f"{self.label} exited with status {status}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def plain(line: str) -> str:
    """Normalises reason codes: lower case, and none if the error code implies it."""
    line = re.sub(r"(?<= )0x[0-9A-Fa-f]{2}\b", lambda found: found[0].lower(), line)
    return line.replace("no_responder 0x10", "no_responder")
