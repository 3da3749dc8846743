"""One history: a cluster and its clients, a schedule of faults, the time for all messages to arrive, and the checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agents import AgentError, Agents, Record
from faults import Faults
from judge import History, missing, name_of, told, unanswered, violations_of
from network import Network, SmallDisk, is_inside
from operators import WHO, Operator, bans_of
from processes import Stage, StageError, fetch
from roles import EARLY_TOPICS, EVERYBODY, KEPT, LOOKERS, PUBLISHERS, SUBSCRIBERS
from schedule import BROKERS, SERVERS, Schedule

# The disk size of a nats-server in themes that fill it.
SMALL_DISK_MIB = 160
# Streams reserve their maximum size, whether the disk has it or not.
JETSTREAM_MAX = "max_file: 100GB"
# All other topics use the default, `quorum`.
AT_MEMORY = [f"data.ack_topics={EARLY_TOPICS}# = memory"]
# Addresses other than loopback are not reachable from outside.
OPEN = ["admin.plain_http=true", "auth.anonymous=true"]
# The time limit for all messages to arrive: TCP retransmits after delays that doubled while packets were dropped.
SETTLE_S = 90
LOOK_S = 0.25


@dataclass
class Outcome:
    seed: int
    wrong: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    took_s: float = 0


class Trial:
    """`folder` is empty at first, and contains all files afterwards."""

    def __init__(self, schedule: Schedule, folder: Path, nats_server: str, tautwire: str) -> None:
        self._schedule, self._folder = schedule, folder
        self._network = Network() if is_inside() else None
        self._nats_server, self._tautwire = nats_server, tautwire
        self._record = Record(folder / "history.jsonl")
        self._outcome = Outcome(schedule.seed)

    def run(self) -> Outcome:
        began = time.monotonic()
        (self._folder / "schedule").write_text("".join(fault.told() + "\n" for fault in self._schedule.faults))
        place = self._network.place if self._network else None
        with Stage(self._folder, self._nats_server, self._tautwire, place) as stage:
            try:
                self._play(stage)
            except (StageError, AgentError) as error:
                self._outcome.wrong.append(f"FAILED {error}")
                self._ask_all(stage)
        self._look_into_logs(stage)
        history = History(self._record.copy())
        self._record.close()
        self._outcome.wrong += told(violations_of(history))
        self._outcome.counts = dict(history.counts)
        self._outcome.took_s = time.monotonic() - began
        return self._outcome

    def _play(self, stage: Stage) -> None:
        disks = self._small_disks()
        stage.start_servers(len(SERVERS), of_jetstream=JETSTREAM_MAX if disks else "")
        stage.start_brokers(len(BROKERS), AT_MEMORY + (OPEN if self._network else []))
        brokers = [{"name": each.name, "host": each.place.host, "port": each.port} for each in stage.brokers]
        agents = Agents(self._folder, brokers, self._schedule.seed, self._record)
        faults = Faults(stage, self._network, disks, lambda what, of: self._record.note("faults", what, fault=of))
        is_healed = False
        try:
            self._await("everybody takes part", self._lacks_of_beginning, agents)
            with Operator(stage.brokers, self._schedule.seed, self._record):
                faults.run(self._schedule)
            faults.heal()
            self._record.note("test", "healed")
            is_healed = True
            agents.tell("quiet")
            self._await("all that is due arrives", self._lacks, agents)
            # A session that has lost its client's acknowledgements shows that on another broker.
            moved_at = time.monotonic_ns()
            agents.tell("move")
            self._await("everybody comes back", lambda history: self._absent_since(history, moved_at), agents)
            agents.tell("fence")
            self._await("all that is due arrives after everybody has moved", self._lacks_at_end, agents)
            self._await("all brokers have the same bans", lambda _: self._lacks_of_bans(stage), agents)
            for broker in stage.brokers:
                self._record.note(WHO, "bans", of=broker.name, numbers=bans_of(broker) or [])
        finally:
            self._outcome.wrong += [f"FAILED {error}" for error in [*faults.errors, *agents.errors]]
            if is_healed:
                self._record.note("test", "settled")
            agents.end()

    def _small_disks(self) -> dict[str, SmallDisk]:
        if not self._network or not self._schedule.needs_small_disks:
            return {}
        return {name: SmallDisk(self._folder / name / "jetstream", SMALL_DISK_MIB) for name in SERVERS}

    def _await(self, what: str, lacks: Callable[[History], Iterator[str]], agents: Agents) -> None:
        """Waits until nothing is missing. Missing items at the end are checked, and reported here if no guarantee covers
        them."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            lacking = list(lacks(History(self._record.copy())))
            if not lacking:
                return
            if agents.errors:
                raise AgentError("; ".join(agents.errors))
            if time.monotonic() > deadline:
                raise StageError(f"{what}: timed out after {SETTLE_S} s; {len(lacking)} lack: {'; '.join(lacking[:5])}")
            time.sleep(LOOK_S)

    @staticmethod
    def _lacks_of_beginning(history: History) -> Iterator[str]:
        for who in SUBSCRIBERS:
            subscriptions = history.clients[who].subscriptions if who in history.clients else []
            if not any(each.granted_at is not None for each in subscriptions):
                yield f"{who} has no SUBACK"
        acknowledged = {sent.who for sent in history.sent.values() if sent.acknowledged_at is not None}
        yield from (f"{who} has no acknowledgement" for who in PUBLISHERS if who not in acknowledged)

    @staticmethod
    def _lacks(history: History) -> Iterator[str]:
        yield from (f"{who} lacks {name_of(message)}" for who, message in missing(history))
        # Messages of a connection that was taken over are not checked.
        of_publishers = (message for message in unanswered(history) if history.sent[message].who in PUBLISHERS)
        yield from (f"{name_of(message)} is neither acknowledged nor refused" for message in of_publishers)

    @classmethod
    def _lacks_at_end(cls, history: History) -> Iterator[str]:
        yield from cls._lacks(history)
        for topic in KEPT:
            last = max((number for at, number in history.sent if at == topic), default=0)
            saw = {seen.who for seen in history.seen if (seen.topic, seen.number) == (topic, last)}
            yield from (f"{who} has not seen that {topic} retains number {last}" for who in LOOKERS if who not in saw)

    @staticmethod
    def _lacks_of_bans(stage: Stage) -> Iterator[str]:
        first, *others = [(broker.name, bans_of(broker)) for broker in stage.brokers]
        yield from (f"{name} has {bans}, and {first[0]} has {first[1]}" for name, bans in others if bans is None or bans != first[1])

    @staticmethod
    def _absent_since(history: History, since_ns: int) -> Iterator[str]:
        for who in EVERYBODY:
            if not any((link.connected_at or 0) > since_ns for link in history.clients[who].links.values()):
                yield f"{who} is not connected"

    def _ask_all(self, stage: Stage) -> None:
        """Saves the brokers' status while something is missing."""
        for broker in stage.brokers:
            for path in ("/v1/cluster", "/v1/clients?limit=1000", "/metrics"):
                answer = fetch(f"http://{broker.admin}{path}", broker.token) if broker.is_running else None
                (broker.folder / path.strip("/").replace("/", "-").partition("?")[0]).write_text(answer or "no answer")

    def _look_into_logs(self, stage: Stage) -> None:
        """Checks the logs for panics and reports of corruption."""
        for broker in stage.brokers:
            lines = broker.said().splitlines() if (broker.folder / "log").exists() else []
            panics = [line for line in lines if "panicked" in line]
            self._outcome.wrong += [f"PANIC {broker.name}: {line}" for line in panics[:3]]
