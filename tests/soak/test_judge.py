"""Tests of the judge: violated and kept guarantees. Run: python -m unittest discover -s tests/soak."""

import unittest

from judge import DUE, EITHER, FORBIDDEN, HELD, Broken, Heard, Kept, Shared, Stream, Wills, number_of, payload_of


def stream(qos: int, sent: int, resent: set[int] | None = None) -> Stream:
    return Stream("t", qos, sent, resent or set())


def heard(numbers: list[int], qos: int, of: Stream, top: int | None = None) -> Heard:
    """A subscriber that receives `numbers` on one connection, after `top` on earlier ones."""
    one = Heard(due_from=1, top=top)
    one.begin_connection()
    for number in numbers:
        one.take("somebody", of, number, qos)
    return one


class Streams(unittest.TestCase):
    def test_a_complete_ordered_sequence_has_no_losses(self) -> None:
        for qos in (1, 2):
            self.assertEqual(heard([1, 2, 3], qos, stream(qos, 3)).lacks(stream(qos, 3)), 0)
            self.assertEqual(heard([1], qos, stream(qos, 3)).lacks(stream(qos, 3)), 2)
        self.assertEqual(Heard(due_from=1).lacks(stream(1, 3)), 3)
        self.assertEqual(Heard().lacks(stream(1, 3)), 0)

    def test_skipped_messages_are_lost(self) -> None:
        for qos in (1, 2):
            for numbers in ([2], [1, 3], [1, 2, 4, 3]):
                with self.assertRaises(Broken, msg=f"{numbers}"):
                    heard(numbers, qos, stream(qos, 4))

    def test_skipped_resent_messages_are_lost(self) -> None:
        with self.assertRaises(Broken):
            heard([1, 3], 1, stream(1, 3, resent={2, 3}))

    def test_a_qos_2_message_arrives_once(self) -> None:
        for numbers, top in (([1, 1], None), ([2], 2), ([1, 2, 1], None)):
            with self.assertRaises(Broken, msg=f"{numbers}"):
                heard(numbers, 2, stream(2, 3, resent={1, 2}), top)

    def test_a_qos_1_message_can_repeat_on_another_connection(self) -> None:
        self.assertEqual(heard([2, 3, 4], 1, stream(1, 4), top=3).top, 4)

    def test_a_qos_1_message_can_repeat_if_it_was_resent(self) -> None:
        self.assertEqual(heard([1, 2, 1, 2, 3], 1, stream(1, 3, resent={1, 2})).top, 3)
        for numbers, top in (([1, 2, 2], None), ([3, 2], 3)):
            with self.assertRaises(Broken, msg=f"{numbers}"):
                heard(numbers, 1, stream(1, 3), top)

    def test_unsent_messages_are_found(self) -> None:
        with self.assertRaises(Broken):
            heard([1, 2], 1, stream(1, 1))
        self.assertEqual(number_of("t", payload_of("t", 101)), 101)
        for payload in (b"", b"t x ", payload_of("t", 101)[:-1], payload_of("u", 5), payload_of("t", 5) + b"\x05"):
            with self.assertRaises(Broken, msg=f"{payload[:20]!r}"):
                number_of("t", payload)


class Groups(unittest.TestCase):
    def test_each_message_reaches_one_member_in_any_order(self) -> None:
        group, sent = Shared(), stream(2, 4)
        for number in (2, 1, 4):
            group.take("a", sent, number, 2)
        self.assertEqual(group.lacks(sent), 1)
        for again in (1, 4, 5):
            with self.assertRaises(Broken, msg=f"{again}"):
                group.take("b", sent, again, 2)
        group.take("b", sent, 1, 1)


class Retained(unittest.TestCase):
    def test_the_state_is_the_last_acknowledged_or_later(self) -> None:
        kept = Kept("k")
        self.assertTrue(kept.may_be_absent())
        first, second = kept.next_payload(False), kept.next_payload(False)
        for payload in (first, second):
            kept.see(payload)
        kept.acknowledge(2)
        kept.see(second)
        with self.assertRaises(Broken):
            kept.see(first)
        with self.assertRaises(Broken):
            kept.miss()
        self.assertEqual(kept.next_payload(True), b"")
        kept.miss()
        third = kept.next_payload(False)
        kept.acknowledge(3)
        with self.assertRaises(Broken):
            kept.see(second)
        kept.miss()
        kept.acknowledge(4)
        kept.see(third)
        with self.assertRaises(Broken):
            kept.miss()


class WillsOfClients(unittest.TestCase):
    def test_a_due_will_arrives_once(self) -> None:
        wills = Wills()
        wills.decide("w", HELD)
        with self.assertRaises(Broken):
            wills.take("w")
        wills.decide("w", DUE)
        self.assertEqual(wills.missing(), ["w"])
        wills.take("w")
        self.assertEqual(wills.missing(), [])
        with self.assertRaises(Broken):
            wills.take("w")

    def test_a_discarded_will_never_arrives(self) -> None:
        wills = Wills()
        wills.decide("w", EITHER)
        self.assertEqual(wills.missing(), [])
        wills.decide("w", FORBIDDEN)
        for name in ("w", "of nobody"):
            with self.assertRaises(Broken):
                wills.take(name)


if __name__ == "__main__":
    unittest.main()
