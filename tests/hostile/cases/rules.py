"""Access rules and logins: what a request costs is what it is counted as."""

from __future__ import annotations

import os
import time
from collections import Counter

import messages
import peer
import wire
from arena import Arena, case
from peer import Peer, drive

# Of each of the two kinds: a thousand rules that deny, none of which meets the filters below.
RULES_OF_A_KIND = 500
DENIALS = "".join(
    f"{{ deny = 'subscribe', topics = ['+/d{number}/secret', 'p{number}/+/private'] }},\n" for number in range(RULES_OF_A_KIND)
)
RULES = f"[[role]]\nname = 'all'\nrules = [\n{DENIALS}{{ allow = ['publish', 'subscribe'], topics = '#' }}]\n" \
    "[[assign]]\neveryone = true\nroles = 'all'\n"
# While a thousand filters are checked, other clients wait no longer than this.
BYSTANDER_P99_MS = 5.0


def subscribe_across(arena: Arena, filters: int, times: int) -> None:
    client = peer.connected(arena.port, "subscriber")
    for _ in range(times):
        suback = client.ask(wire.subscribe([f"+/+/a{number}" for number in range(filters)], version=client.version), wire.SUBACK)
        codes = Counter(wire.suback_codes(suback, client.version))
        arena.expect(set(codes) <= {0, 1, 2}, f"filters that no deny rule meets are refused: {dict(codes)}")
        arena.expect(codes.total() == filters, f"{codes.total()} codes for {filters} filters")
    denied = client.ask(wire.subscribe(["+/+/secret", "p1/+/#"], version=client.version), wire.SUBACK)
    codes = wire.suback_codes(denied, client.version)
    arena.expect(all(code == 0x87 for code in codes), f"filters that deny rules meet get {codes}")
    messages.stranger_is_served(arena, "after many filters")


@case("1,000 filters with wildcards against 1,000 access rules that deny", limit_mib=64, timed=True, short=True, rules=RULES,
      p99_max_ms=BYSTANDER_P99_MS, settings={"limits.subscriptions_per_packet": 10_000})
def filters_against_rules(arena: Arena) -> None:
    subscribe_across(arena, 1_000, times=3)


@case("10,000 filters with wildcards against 1,000 access rules that deny", limit_mib=64, timed=True, rules=RULES,
      p99_max_ms=BYSTANDER_P99_MS, settings={"limits.subscriptions_per_packet": 10_000})
def many_filters_against_rules(arena: Arena) -> None:
    subscribe_across(arena, 10_000, times=2)


# Logins.

# Devices that come at once; the long form is for quiet machines.
DEVICES = int(os.environ.get("HOSTILE_DEVICES", "1000"))
USERS = {"device": "a long password of devices"}
# 5,000 devices are back within 5 s of a cut of the network, at the default settings.
BACK_PER_S = 1_000
# A hash takes some 20 ms; a machine that is busy with something else takes longer.
HASH_MAX_S = 0.5


def all_come(arena: Arena, names: list[str], within_s: float) -> list[Peer]:
    """All connect at once with the right password; nobody is refused."""
    clients = [Peer(arena.port) for _ in names]
    for client, name in zip(clients, names):
        client.send(wire.connect(name, login=("device", USERS["device"])))
    drive(clients, lambda: all(client.packets or client.closed for client in clients), within_s)
    answers = Counter(client.packets[0].body[1] if client.packets else None for client in clients)
    arena.expect(answers == {wire.SUCCESS: len(clients)}, f"of {len(clients)} clients with the right password: {dict(answers)}")
    return clients


@case(f"{DEVICES:,} devices come back at once with passwords that were verified before", limit_mib=256, short=True, users=USERS, weighed=False,
      settings={"auth.anonymous": "true"})
def devices_come_back(arena: Arena) -> None:
    names = [f"device-{number}" for number in range(DEVICES)]
    # The first one pays for the hash, and nobody after it: all have the password of one user.
    for client in all_come(arena, names[:1], peer.ANSWER_TIMEOUT_S):
        client.close()
    for _ in range(2):
        began = time.monotonic()
        clients = all_come(arena, names, max(5.0, DEVICES / BACK_PER_S))
        arena.note(f"{len(clients)} were let in within {time.monotonic() - began:.1f} s")
        for client in clients:
            client.close()


# Of these devices each costs a hash, as after a restart of the broker.
UNHASHED = {
    "users": {f"device-{number}": USERS["device"] for number in range(8)}, "weighed": False, "limit_mib": 256,
    "settings": {"mqtt.connect_timeout_s": 2, "auth.cached_passwords": 0, "auth.anonymous": "true"},
}
STORM = 5_000
STORM_TIMEOUT_S = STORM * HASH_MAX_S
# A client that needs no hash is let in meanwhile; the queue of hashes is many times longer.
STRANGER_EVERY_S = 1.0
STRANGER_MAX_S = 5.0


@case("400 devices come at once with passwords that no hash has been computed of; the connect timeout is 2 s", short=True, **UNHASHED)
def devices_wait_for_hashes(arena: Arena) -> None:
    come_without_hashes(arena, 400)


@case(f"{STORM:,} devices come at once after a restart, a hash for each; the connect timeout is 2 s", timed=True,
      timeout_s=STORM_TIMEOUT_S, **UNHASHED)
def devices_come_after_a_restart(arena: Arena) -> None:
    come_without_hashes(arena, STORM)


def come_without_hashes(arena: Arena, count: int) -> None:
    clients = [Peer(arena.port) for _ in range(count)]
    began, began_cpu_ns = time.monotonic(), arena.broker.cpu_ns()
    for number, client in enumerate(clients):
        client.send(wire.connect(f"client-{number}", login=(f"device-{number % len(UNHASHED['users'])}", USERS["device"])))
    strangers: list[float] = []
    deadline = began + count * HASH_MAX_S
    while not all(client.packets or client.closed for client in clients) and time.monotonic() < deadline:
        stranger_began = time.monotonic()
        peer.connected(arena.port, f"stranger-{len(strangers)}").close()
        strangers.append(time.monotonic() - stranger_began)
        drive(clients, lambda: all(client.packets or client.closed for client in clients), STRANGER_EVERY_S)
    took_s, cpu_ms = time.monotonic() - began, (arena.broker.cpu_ns() - began_cpu_ns) / 1e6
    answers = Counter(client.packets[0].body[1] if client.packets else None for client in clients)
    arena.note(f"{count:,} were let in within {took_s:.1f} s, {1_000 * took_s / count:.1f} ms each, of which the broker had a "
               f"processor for {cpu_ms / count:.1f} ms; "
               f"{len(strangers)} clients without a password each within {max(strangers):.2f} s")
    arena.expect(answers == {wire.SUCCESS: count}, f"of {count:,} clients with the right password: {dict(answers)}")
    arena.expect(max(strangers) < STRANGER_MAX_S, f"a client without a password waited {max(strangers):.1f} s for others' hashes")
