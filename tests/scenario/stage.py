"""The environment of a scenario: a broker that it may kill, a relay in front of it, and agents whose output is compared."""

from __future__ import annotations

import difflib
import os
import re
import selectors
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from agents import ROOT, Agent, AgentError
from relay import Relay
from scripted_server import ScriptedServer
from stranger import Stranger

EXECUTABLE = ROOT / "bin" / "tautwire"
READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60


class Broken(Exception):
    """The output of an agent differs from what the scenario expects."""


class Player:
    """An agent, with its expected output so far."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._log: list[str] = []
        self._expected: list[str] = []

    @property
    def language(self) -> str:
        return self._agent.language

    def send(self, *commands: str) -> None:
        for command in commands:
            self._agent.send(command)

    def does(self, command: str, *lines: str) -> None:
        """Sends a command, and expects these lines."""
        self.send(command)
        self.sees(*lines)

    def sees(self, *lines: str) -> None:
        """Expects the next lines, in this order. Failed attempts in between are ignored, unless they are expected."""
        for line in lines:
            self._expected.append(line)
            said = self._next(keeps_attempts=line.startswith("attempt "))
            if said != line:
                raise self._broken()

    def sees_in_any_order(self, *lines: str, ordered: Sequence[str] = ()) -> None:
        """Expects the next lines, in any order; those of `ordered` in their order."""
        still, behind = Counter(lines), deque(ordered)
        self.sees_until(lambda: not still.total() and not behind, still, behind)

    def sees_until(self, is_enough: Callable[[], bool], still: Counter[str], behind: deque[str]) -> None:
        """Takes expected lines off `still`, in any order, and off `behind`, in its order."""
        while not is_enough():
            said = self._next(keeps_attempts=False)
            if said is not None and behind and said == behind[0]:
                behind.popleft()
            elif said is not None and still[said]:
                still[said] -= 1
            else:
                self._expected += [*behind, *(f"{line} (in any order)" for line in still.elements())]
                raise self._broken()
            self._expected.append(said)

    def sees_like(self, pattern: str) -> str:
        """Expects the next line to match a pattern."""
        said = self._next(keeps_attempts=False)
        if said is None or not re.fullmatch(pattern, said):
            self._expected.append(f"{pattern} (a pattern)")
            raise self._broken()
        self._expected.append(said)
        return said

    def ends(self) -> None:
        """Closes the client. No unexpected lines may follow."""
        self._agent.end()
        if (said := self._next(keeps_attempts=False)) not in (None, "closed"):
            raise self._broken()

    def kill(self) -> None:
        self._agent.kill()

    def _next(self, keeps_attempts: bool) -> str | None:
        said = self._agent.next(lambda line: keeps_attempts or not line.startswith("attempt "))
        if said is not None:
            self._log.append(said)
        return said

    def _broken(self) -> Broken:
        expected, said = self._expected[-40:], self._log[-40:]
        lines = difflib.unified_diff(expected, said, "expected", f"{self._agent.label} says", lineterm="", n=40)
        text = "\n".join(lines) or f"--- expected\n+++ {self._agent.label} says nothing more\n" + "\n".join(expected)
        return Broken(text)


class Stage:
    """One run of one scenario. Remaining brokers and agents are stopped at its end."""

    def __init__(self, folder: Path, languages: tuple[str, ...]) -> None:
        self.folder, self.languages = folder, languages
        self.relay = Relay()
        self._broker: subprocess.Popen[bytes] | None = None
        self._players: list[Player] = []
        self._strangers: list[Stranger | ScriptedServer] = []
        self._starts = 0
        self.broker_port = 0

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for player in self._players:
            player.kill()
        for stranger in self._strangers:
            stranger.close()
        self.kill_broker()
        self.relay.close()

    def broker(self, *settings: str, keeps: bool = False, tls: bool = False) -> int:
        """Starts a broker, and returns its port. With `keeps` it has a folder for its state, always the same."""
        self._starts += 1
        command = [str(EXECUTABLE), "serve", "--threads", "1"]
        command += ["--set", f"data.path={self.folder / 'data'}"] if keeps else ["--memory"]
        command += ["--listen", "mqtts://127.0.0.1:0" if tls else "127.0.0.1:0"]
        for setting in settings:
            command += ["--set", setting]
        with open(self.folder / f"broker-{self._starts}.log", "wb") as log:
            try:
                self._broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
            except OSError as error:
                raise AgentError(f"cannot start {EXECUTABLE} (`make build` makes it): {error}") from None
        self.broker_port = self._announced_port(self._broker)
        return self.broker_port

    def _announced_port(self, process: subprocess.Popen[bytes]) -> int:
        assert process.stdout is not None
        said = b""
        deadline = time.monotonic() + READY_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and selector.select(left):
                more = os.read(process.stdout.fileno(), 4096)
                said += more
                if found := re.search(rb"listening on \w+://127\.0\.0\.1:(\d+)", said):
                    return int(found[1])
                if not more:
                    break
        log = self.folder / f"broker-{self._starts}.log"
        raise AgentError(f"the broker did not start: {(log.read_text(errors='replace').splitlines() or ['no message'])[-1]}")

    def kill_broker(self) -> None:
        """Like a crash: it can finish nothing."""
        if self._broker is not None:
            self._broker.kill()
            self._broker.wait()
            if self._broker.stdout is not None:
                self._broker.stdout.close()
            self._broker = None

    def tool(self, *arguments: str) -> None:
        """Runs another command of the broker's executable."""
        run = subprocess.run([str(EXECUTABLE), *arguments], capture_output=True, text=True, timeout=STOP_TIMEOUT_S)
        if run.returncode != 0:
            raise AgentError(f"tautwire {arguments[0]}: {run.stderr.strip()}")

    def stranger(self, says: bytes, *then: bytes) -> int:
        """Returns the port of a server that sends `says` to each client that has sent something, or to the first, and then each
        of `then`."""
        stranger = Stranger(says, then)
        self._strangers.append(stranger)
        return stranger.port

    def scripted_server(self) -> ScriptedServer:
        """Returns a server whose packets the scenario sends."""
        server = ScriptedServer()
        self._strangers.append(server)
        return server

    def player(self, address: str | None = None, language: str | None = None) -> Player:
        """Starts an agent, by default with the address of the relay."""
        label = f"{language or self.languages[0]} {len(self._players) + 1}"
        address = address or f"mqtt://127.0.0.1:{self.relay.port}"
        log = self.folder / f"agent-{label.replace(' ', '-')}.log"
        player = Player(Agent(language or self.languages[0], label, address, log))
        self._players.append(player)
        return player

    def end(self) -> None:
        for player in self._players:
            player.ends()
