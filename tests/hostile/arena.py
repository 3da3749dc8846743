"""A case, its broker and its bystander, and its measurements."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import broker as brokers
import peer
from broker import Broker

MIB = 1 << 20
# The memory of the broker in addition to its limits: code, stacks, buffers of the threads, allocator overhead.
ROOM_BYTES = 32 * MIB
# The maximum wait of a well-behaved client, whatever others do.
P99_MAX_MS = 10.0
LONGEST_MAX_MS = 50.0
# Before the attack: the round trips on this machine at this moment.
QUIET_S = 0.5
CASE_TIMEOUT_S = 240
# The minimum duration of a phase: a percentile of a few round trips means nothing.
PHASE_MIN_S = 1.0
BYSTANDER_TIMEOUT_S = 60
# Attackers have low priority, so that the test does not take CPU time from the broker and the bystander.
NICENESS = 10
CONTRACTS = "contracts"
# The token for the admin API.
TOKEN = "a-token-of-hostile-cases-0123456789"
TLS = "tls"
FAILURES_TOLD = 6


@dataclass(frozen=True)
class Case:
    """One attack. `limit_bytes` is the memory limit of its settings."""

    name: str
    what: str
    function: Callable[[Arena], None]
    limit_bytes: int
    settings: dict[str, object]
    threads: int
    is_short: bool
    # Whether the bystander's round trips are checked, or only reported.
    is_timed: bool
    # Whether resident memory is checked.
    is_weighed: bool
    stalled_log: bool
    contracts: dict[str, str]
    # Listeners besides MQTT over TCP; `mqtts` has the certificate of `arena.authority`.
    schemes: tuple[str, ...]
    # Names and passwords of the users; if empty, anonymous clients are accepted.
    users: dict[str, str]
    # Whether there is an admin API.
    admin: bool
    p99_max_ms: float
    # The access rules, as in a file; if empty, everything is allowed.
    rules: str
    # The case fails after this time.
    timeout_s: float


@dataclass
class Result:
    """The result of a case, for the table."""

    failures: list[str] = field(default_factory=list)
    # The bystander waited too long in this attempt.
    late: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    start_bytes: int = 0
    peak_bytes: int = 0
    quiet: dict[str, float] = field(default_factory=dict)
    attack: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> str:
        # The first failures of a case are enough.
        return json.dumps(asdict(self) | {"failures": self.failures[:FAILURES_TOLD]})


class Failed(Exception):
    """The case cannot continue."""


@dataclass
class Arena:
    """The environment of a case."""

    broker: Broker
    result: Result
    folder: Path
    bystander: subprocess.Popen[str]
    began: float = 0.0

    def begin(self) -> None:
        """Starts the attack. Before that is its preparation, in which the bystander is not checked."""
        assert self.bystander.stdin is not None
        self.bystander.stdin.write("attack\n")
        self.bystander.stdin.flush()
        self.began = time.monotonic()

    @property
    def contracts(self) -> Path:
        return self.folder / CONTRACTS

    @property
    def authority(self) -> Path:
        """The certificate of the authority that issued the broker's certificate."""
        return self.folder / TLS / "ca.pem"

    @property
    def port(self) -> int:
        return self.broker.port

    def expect(self, condition: bool, otherwise: str) -> bool:
        if not condition:
            self.result.failures.append(otherwise)
        return condition

    def note(self, said: str) -> None:
        self.result.notes.append(said)

    def skip(self, why: str) -> None:
        self.result.skipped = why


CASES: list[Case] = []


def case(
    what: str, *, limit_mib: int, short: bool = False, timed: bool = False, weighed: bool = True, threads: int = 1,
    settings: dict[str, object] | None = None, stalled_log: bool = False, contracts: dict[str, str] | None = None,
    schemes: tuple[str, ...] = (), users: dict[str, str] | None = None, name: str = "", admin: bool = False,
    p99_max_ms: float = P99_MAX_MS, rules: str = "", timeout_s: float = CASE_TIMEOUT_S,
) -> Callable[[Callable[[Arena], None]], Callable[[Arena], None]]:
    """Registers a case.

    One thread, unless a case needs several: then the bystander shares it with the attack, which is the worst case.
    """

    def enter(function: Callable[[Arena], None]) -> Callable[[Arena], None]:
        own = settings or {}
        everything = {"limits.memory_bytes": limit_mib * MIB, **own}
        retained = int(str(own.get("limits.retained_bytes", 0)))
        CASES.append(Case(
            name or function.__name__, what, function, limit_mib * MIB + retained, everything, threads, short, timed,
            weighed, stalled_log, contracts or {}, schemes, users or {}, admin, p99_max_ms, rules, timeout_s,
        ))
        return function

    return enter


def run(attack: Case, executable: Path) -> Result:
    """Runs a case in this process, which becomes the attacker."""
    _raise_open_files()
    result = Result()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tautwire-hostile-") as folder:
        settings = dict(attack.settings)
        if attack.contracts:
            settings["contracts.path"] = _write_contracts(Path(folder) / CONTRACTS, attack.contracts)
        try:
            if set(attack.schemes) & {"mqtts", "wss"}:
                settings |= _make_certificate(executable, Path(folder) / TLS)
            if attack.users:
                settings |= _make_users(executable, Path(folder) / "users", attack.users)
            if attack.rules:
                settings |= _make_rules(Path(folder) / "access.toml", attack.rules)
            if attack.admin:
                settings |= _make_token(Path(folder) / "token")
            broker = brokers.start(executable, attack.name, settings, attack.threads, attack.stalled_log, attack.schemes)
        except brokers.BrokerError as error:
            result.failures.append(str(error))
            return result
        try:
            result.start_bytes = broker.resident_bytes()
            _watched(attack, broker, result, Path(folder))
        finally:
            if wrong := broker.end():
                result.failures.append(wrong)
    result.seconds = time.monotonic() - started
    return result


def _watched(attack: Case, broker: Broker, result: Result, folder: Path) -> None:
    """Runs the attack with the bystander."""
    command = [sys.executable, "-B", str(Path(__file__).with_name("bystander.py")), str(broker.port), str(broker.pid)]
    bystander = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert bystander.stdout is not None
    arena = Arena(broker, result, folder, bystander)
    try:
        if bystander.stdout.readline() != "ready\n":
            arena.result.failures.append("the bystander could not connect")
            return
        os.nice(NICENESS)
        time.sleep(QUIET_S)
        arena.begin()
        _attack(attack, arena)
        time.sleep(max(0.0, arena.began + PHASE_MIN_S - time.monotonic()))
        said, _ = bystander.communicate("end\n", timeout=BYSTANDER_TIMEOUT_S)
        seen = json.loads(said)
        arena.result.quiet, arena.result.attack = seen["quiet"], seen["attack"]
        arena.expect(not seen["cut_off"], "the bystander was cut off")
    except (subprocess.TimeoutExpired, ValueError, BrokenPipeError):
        arena.result.failures.append("the bystander got no more answers")
    finally:
        bystander.kill()
        bystander.wait()
    peer.close_all()
    if arena.broker.is_running():
        arena.result.peak_bytes = arena.broker.peak_bytes()
        if attack.is_weighed:
            _judge_memory(attack, arena)
    if attack.is_timed:
        _judge_time(attack, arena.result)


def _attack(attack: Case, arena: Arena) -> None:
    try:
        attack.function(arena)
    except (Failed, peer.Unanswered, brokers.BrokerError, OSError) as error:
        arena.result.failures.append(str(error))
    except (IndexError, ValueError) as error:
        traceback.print_exc()
        arena.result.failures.append(f"the broker sent an invalid packet or payload: {error}")


def _judge_memory(attack: Case, arena: Arena) -> None:
    most = attack.limit_bytes + ROOM_BYTES
    peak = arena.result.peak_bytes
    arena.expect(peak <= most, f"{peak // MIB} MiB resident, at most {most // MIB} MiB")


def _judge_time(attack: Case, result: Result) -> None:
    """Checks the corrected round trips: the delay caused by the broker, not by the machine."""
    if not result.attack.get("count"):
        result.late.append("the bystander has no round trips")
        return
    p99, longest = result.attack["corrected_p99_ms"], result.attack["corrected_longest_ms"]
    if p99 >= attack.p99_max_ms:
        result.late.append(f"the bystander's p99 is {p99:.1f} ms, limit {attack.p99_max_ms:.0f} ms")
    if longest >= LONGEST_MAX_MS:
        result.late.append(f"the bystander waited {longest:.0f} ms, limit {LONGEST_MAX_MS:.0f} ms")


def _write_contracts(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


def _make_certificate(executable: Path, folder: Path) -> dict[str, object]:
    brokers.tool(executable, ["cert", "--dir", str(folder)])
    return {"tls.certificate": folder / "server.pem", "tls.key": folder / "server.key"}


def _make_rules(file: Path, rules: str) -> dict[str, object]:
    file.write_text(rules)
    return {"acl.file": file}


def _make_token(file: Path) -> dict[str, object]:
    file.write_text(TOKEN)
    return {"admin.listen": "127.0.0.1:0", "admin.token_file": file}


def _make_users(executable: Path, file: Path, users: dict[str, str]) -> dict[str, object]:
    for name, password in users.items():
        brokers.tool(executable, ["user", "add", "--file", str(file), name], {"TAUTWIRE_PASSWORD": password})
    return {"auth.password_file": file}


def _raise_open_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
