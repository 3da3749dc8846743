"""Access rules and logins: the cost of a request matches its accounting."""

from __future__ import annotations

import os
import time
from collections import Counter

import messages
import peer
import wire
from arena import Arena, case
from peer import Peer, drive

# Of each of the two kinds: a thousand deny rules, none of which matches the filters below.
RULES_OF_A_KIND = 500
DENIALS = "".join(
    f"{{ deny = 'subscribe', topics = ['+/d{number}/secret', 'p{number}/+/private'] }},\n" for number in range(RULES_OF_A_KIND)
)
RULES = f"[[role]]\nname = 'all'\nrules = [\n{DENIALS}{{ allow = ['publish', 'subscribe'], topics = '#' }}]\n" \
    "[[assign]]\neveryone = true\nroles = 'all'\n"
# The maximum wait of other clients while a thousand filters are checked.
BYSTANDER_P99_MS = 5.0


def subscribe_across(arena: Arena, filters: int, times: int) -> None:
    client = peer.connected(arena.port, "subscriber")
    for _ in range(times):
        suback = client.ask(wire.subscribe([f"+/+/a{number}" for number in range(filters)], version=client.version), wire.SUBACK)
        codes = Counter(wire.suback_codes(suback, client.version))
        arena.expect(set(codes) <= {0, 1, 2}, f"filters without a matching deny rule were refused: {dict(codes)}")
        arena.expect(codes.total() == filters, f"{codes.total()} codes for {filters} filters")
    denied = client.ask(wire.subscribe(["+/+/secret", "p1/+/#"], version=client.version), wire.SUBACK)
    codes = wire.suback_codes(denied, client.version)
    arena.expect(all(code == 0x87 for code in codes), f"filters with matching deny rules got {codes}")
    messages.stranger_is_served(arena, "after many filters")


@case("1,000 filters with wildcards against 1,000 deny rules", limit_mib=64, timed=True, short=True, rules=RULES,
      p99_max_ms=BYSTANDER_P99_MS, settings={"limits.subscriptions_per_packet": 10_000})
def filters_against_rules(arena: Arena) -> None:
    subscribe_across(arena, 1_000, times=3)


@case("10,000 filters with wildcards against 1,000 deny rules", limit_mib=64, timed=True, rules=RULES,
      p99_max_ms=BYSTANDER_P99_MS, settings={"limits.subscriptions_per_packet": 10_000})
def many_filters_against_rules(arena: Arena) -> None:
    subscribe_across(arena, 10_000, times=2)


# Logins.

# Devices that connect at once; the long form is for quiet machines.
DEVICES = int(os.environ.get("HOSTILE_DEVICES", "1000"))
USERS = {"device": "a long password of devices"}
# 5,000 devices reconnect within 5 s of a network failure, at the default settings.
BACK_PER_S = 1_000
# A hash takes about 20 ms; more on a busy machine.
HASH_MAX_S = 0.5


def all_come(arena: Arena, names: list[str], within_s: float) -> list[Peer]:
    """All connect at once with the right password; none is refused."""
    clients = [Peer(arena.port) for _ in names]
    for client, name in zip(clients, names):
        client.send(wire.connect(name, login=("device", USERS["device"])))
    drive(clients, lambda: all(client.packets or client.closed for client in clients), within_s)
    answers = Counter(client.packets[0].body[1] if client.packets else None for client in clients)
    arena.expect(answers == {wire.SUCCESS: len(clients)}, f"answers to {len(clients)} clients with the right password: {dict(answers)}")
    return clients


@case(f"{DEVICES:,} devices reconnect at once with cached passwords", limit_mib=256, short=True, users=USERS, weighed=False,
      settings={"auth.anonymous": "true"})
def devices_come_back(arena: Arena) -> None:
    names = [f"device-{number}" for number in range(DEVICES)]
    # Only the first one computes the hash: all have the password of one user.
    for client in all_come(arena, names[:1], peer.ANSWER_TIMEOUT_S):
        client.close()
    for _ in range(2):
        began = time.monotonic()
        clients = all_come(arena, names, max(5.0, DEVICES / BACK_PER_S))
        arena.note(f"{len(clients)} were accepted within {time.monotonic() - began:.1f} s")
        for client in clients:
            client.close()


# No password is cached, so each device needs a hash, as after a restart of the broker.
UNHASHED = {
    "users": {f"device-{number}": USERS["device"] for number in range(8)}, "weighed": False, "limit_mib": 256,
    "settings": {"mqtt.connect_timeout_s": 2, "auth.password_cache_entries": 0, "auth.anonymous": "true"},
}
STORM = 5_000
STORM_TIMEOUT_S = STORM * HASH_MAX_S
# Meanwhile, a client that needs no hash must be accepted; the queue of hashes takes many times longer.
NO_HASH_EVERY_S = 1.0
NO_HASH_MAX_S = 5.0


@case("400 devices connect at once with passwords that are not cached; the connect timeout is 2 s", short=True, **UNHASHED)
def devices_wait_for_hashes(arena: Arena) -> None:
    connect_without_hashes(arena, 400)


@case(f"{STORM:,} devices connect at once after a restart, a hash for each; the connect timeout is 2 s", timed=True,
      timeout_s=STORM_TIMEOUT_S, **UNHASHED)
def devices_come_after_a_restart(arena: Arena) -> None:
    connect_without_hashes(arena, STORM)


def connect_without_hashes(arena: Arena, count: int) -> None:
    clients = [Peer(arena.port) for _ in range(count)]
    began, began_cpu_ns = time.monotonic(), arena.broker.cpu_ns()
    for number, client in enumerate(clients):
        client.send(wire.connect(f"client-{number}", login=(f"device-{number % len(UNHASHED['users'])}", USERS["device"])))
    no_hash_waits: list[float] = []
    deadline = began + count * HASH_MAX_S
    while not all(client.packets or client.closed for client in clients) and time.monotonic() < deadline:
        attempt_began = time.monotonic()
        peer.connected(arena.port, f"no-hash-{len(no_hash_waits)}").close()
        no_hash_waits.append(time.monotonic() - attempt_began)
        drive(clients, lambda: all(client.packets or client.closed for client in clients), NO_HASH_EVERY_S)
    took_s, cpu_ms = time.monotonic() - began, (arena.broker.cpu_ns() - began_cpu_ns) / 1e6
    answers = Counter(client.packets[0].body[1] if client.packets else None for client in clients)
    arena.note(f"{count:,} were accepted within {took_s:.1f} s, {1_000 * took_s / count:.1f} ms each, with "
               f"{cpu_ms / count:.1f} ms of CPU time each; "
               f"{len(no_hash_waits)} clients without a password were accepted, each within {max(no_hash_waits):.2f} s")
    arena.expect(answers == {wire.SUCCESS: count}, f"answers to {count:,} clients with the right password: {dict(answers)}")
    arena.expect(max(no_hash_waits) < NO_HASH_MAX_S, f"a client without a password waited {max(no_hash_waits):.1f} s for others' hashes")
