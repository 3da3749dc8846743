"""Shared by all Python drivers: the case list, the command line and the output lines.

A driver is run as `driver.py HOST PORT [CASE…]` or `driver.py --list`. It prints `ok NAME` or
`FAIL NAME: reason` per case and exits with status 1 when a case failed.
"""

from __future__ import annotations

import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

CASE_TIMEOUT_S = 60.0
"""The time limit for a case."""


class Failure(Exception):
    """The broker or the client did not do what the case expects."""


@dataclass
class Context:
    """One run of one case: the address of the broker, unique names, and a deadline."""

    host: str
    port: int
    deadline: float
    cleanup: ExitStack
    tag: str = field(default_factory=lambda: secrets.token_hex(6))

    def topic(self, suffix: str) -> str:
        """A topic name below a level that only this run uses."""
        return f"interop/{self.tag}/{suffix}"

    def client_id(self, suffix: str) -> str:
        return f"interop-{self.tag}-{suffix}"

    def remaining_s(self) -> float:
        """Returns the seconds left; raises if there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failure(f"not finished within {CASE_TIMEOUT_S:.0f} s")
        return left


CaseFunction = Callable[[Context], None]


def expect_equal(got: object, want: object, what: str) -> None:
    if got != want:
        raise Failure(f"{what}: got {_short(got)}, want {_short(want)}")


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise Failure(what)


def expect_balanced(counts: Iterable[int], total: int) -> None:
    """Every message went to exactly one member, and no member got less than half a fair share."""
    counts = list(counts)
    expect_equal(sum(counts), total, f"messages delivered across the group {counts}")
    fair = total / len(counts)
    expect(min(counts) >= fair / 2, f"unbalanced shared subscription: {counts}")


def let_pass(seconds: float) -> None:
    """Sleeps, only to test the passing of time (expiry, delays); never to wait for an event."""
    time.sleep(seconds)


def main(cases: dict[str, CaseFunction]) -> int:
    arguments = sys.argv[1:]
    if arguments == ["--list"]:
        print("\n".join(cases))
        return 0
    if len(arguments) < 2 or not arguments[1].isdigit():
        print(f"usage: {sys.argv[0]} HOST PORT [CASE…] | --list", file=sys.stderr)
        return 2
    host, port, chosen = arguments[0], int(arguments[1]), arguments[2:] or list(cases)
    unknown = [name for name in chosen if name not in cases]
    if unknown:
        print(f"unknown case: {', '.join(unknown)}", file=sys.stderr)
        return 2
    verdicts = [_run(name, cases[name], host, port) for name in chosen]
    return 0 if all(verdicts) else 1


def _run(name: str, case: CaseFunction, host: str, port: int) -> bool:
    try:
        with ExitStack() as cleanup:
            case(Context(host, port, time.monotonic() + CASE_TIMEOUT_S, cleanup))
    except Failure as failure:
        print(f"FAIL {name}: {failure}", flush=True)
        return False
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        print(f"FAIL {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
        return False
    print(f"ok {name}", flush=True)
    return True


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"
