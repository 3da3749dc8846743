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
    def test_in_order_and_whole_nothing_lacks(self) -> None:
        for qos in (1, 2):
            self.assertEqual(heard([1, 2, 3], qos, stream(qos, 3)).lacks(stream(qos, 3)), 0)
            self.assertEqual(heard([1], qos, stream(qos, 3)).lacks(stream(qos, 3)), 2)
        self.assertEqual(Heard(due_from=1).lacks(stream(1, 3)), 3)
        self.assertEqual(Heard().lacks(stream(1, 3)), 0)

    def test_what_is_passed_over_is_lost(self) -> None:
        for qos in (1, 2):
            for numbers in ([2], [1, 3], [1, 2, 4, 3]):
                with self.assertRaises(Broken, msg=f"{numbers}"):
                    heard(numbers, qos, stream(qos, 4))

    def test_what_was_sent_twice_is_not_passed_over_either(self) -> None:
        with self.assertRaises(Broken):
            heard([1, 3], 1, stream(1, 3, resent={2, 3}))

    def test_a_message_of_qos_2_comes_once_whatever_happened(self) -> None:
        for numbers, top in (([1, 1], None), ([2], 2), ([1, 2, 1], None)):
            with self.assertRaises(Broken, msg=f"{numbers}"):
                heard(numbers, 2, stream(2, 3, resent={1, 2}), top)

    def test_a_message_of_qos_1_may_come_again_on_another_connection(self) -> None:
        self.assertEqual(heard([2, 3, 4], 1, stream(1, 4), top=3).top, 4)

    def test_a_message_of_qos_1_may_come_twice_on_one_connection_if_it_was_sent_twice(self) -> None:
        self.assertEqual(heard([1, 2, 1, 2, 3], 1, stream(1, 3, resent={1, 2})).top, 3)
        for numbers, top in (([1, 2, 2], None), ([3, 2], 3)):
            with self.assertRaises(Broken, msg=f"{numbers}"):
                heard(numbers, 1, stream(1, 3), top)

    def test_what_nobody_sent_is_found(self) -> None:
        with self.assertRaises(Broken):
            heard([1, 2], 1, stream(1, 1))
        self.assertEqual(number_of("t", payload_of("t", 101)), 101)
        for payload in (b"", b"t x ", payload_of("t", 101)[:-1], payload_of("u", 5), payload_of("t", 5) + b"\x05"):
            with self.assertRaises(Broken, msg=f"{payload[:20]!r}"):
                number_of("t", payload)


class Groups(unittest.TestCase):
    def test_each_message_comes_to_one_member_in_any_order(self) -> None:
        group, sent = Shared(), stream(2, 4)
        for number in (2, 1, 4):
            group.take("a", sent, number, 2)
        self.assertEqual(group.lacks(sent), 1)
        for again in (1, 4, 5):
            with self.assertRaises(Broken, msg=f"{again}"):
                group.take("b", sent, again, 2)
        group.take("b", sent, 1, 1)


class Retained(unittest.TestCase):
    def test_the_state_is_the_last_acknowledged_or_a_later_one(self) -> None:
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
    def test_a_will_that_is_due_comes_once(self) -> None:
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

    def test_a_will_that_was_discarded_never_comes(self) -> None:
        wills = Wills()
        wills.decide("w", EITHER)
        self.assertEqual(wills.missing(), [])
        wills.decide("w", FORBIDDEN)
        for name in ("w", "of nobody"):
            with self.assertRaises(Broken):
                wills.take(name)


if __name__ == "__main__":
    unittest.main()
