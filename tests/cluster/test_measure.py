"""Tests of the measurements from a history."""

import unittest

from measure import measured

MS = 1_000_000


def event(at_ms: int, who: str, what: str, **more: object) -> dict:
    return {"at": at_ms * MS, "who": who, "what": what, **more}


class Measured(unittest.TestCase):
    def test_recoveries_silences_and_takeovers_are_measured(self) -> None:
        events = [
            event(1, "own", "connect", link=1, to="broker-1"), event(2, "own", "connected", link=1, present=False),
            event(1, "other", "connect", link=1, to="broker-2"), event(2, "other", "connected", link=1, present=False),
            event(3, "other", "publish", topic="t", number=1, qos=1, link=1), event(4, "other", "publish", topic="t", number=2, qos=1, link=1),
            event(90, "other", "acknowledged", topic="t", number=1, link=1, reason=0),
            event(100, "faults", "begins", fault="kill broker-1"),
            event(110, "own", "closed", link=1, reason=None), event(120, "own", "connect", link=2, to="broker-2"),
            event(190, "other", "acknowledged", topic="t", number=2, link=1, reason=0),
            event(400, "own", "connected", link=2, present=True),
            event(500, "own", "connect", link=3, to="broker-3"), event(507, "own", "connected", link=3, present=True),
        ]
        found = measured(events)
        self.assertEqual(found["return_after_kill_ms"], {"count": 1, "p50": 300.0, "p99": 300.0, "max": 300.0})
        self.assertEqual(found["silence_elsewhere_ms"]["max"], 100.0)
        self.assertEqual(found["takeover_ms"], {"count": 1, "p50": 7.0, "p99": 7.0, "max": 7.0})

    def test_an_empty_history_has_no_results(self) -> None:
        self.assertEqual(measured([])["takeover_ms"], {"count": 0})


if __name__ == "__main__":
    unittest.main()
