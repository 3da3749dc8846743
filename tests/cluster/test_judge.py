"""Tests of the judge: violated and kept guarantees. Run: python -m unittest discover -s
tests/cluster."""

import unittest

from judge import REFUSED_AFTER_NS, History, judge, missing, told, unanswered


class Script:
    """A history, written event by event; each is one tick after the previous one."""

    def __init__(self) -> None:
        self.events: list[dict] = []

    def say(self, who: str, what: str, **more: object) -> "Script":
        self.events.append({"at": len(self.events) + 1, "who": who, "what": what, **more})
        return self

    def enter(self, who: str, link: int = 1, to: str = "broker-1", present: bool = False) -> "Script":
        return self.say(who, "connect", link=link, to=to).say(who, "connected", link=link, present=present)

    def subscribe(self, who: str = "s", qos: int = 2) -> "Script":
        return self.say(who, "subscribe", filter="t/#", qos=qos).say(who, "subscribed", filter="t/#", reason=qos)

    def unsubscribe(self, who: str = "s") -> "Script":
        return self.say(who, "unsubscribe", filter="t/#").say(who, "unsubscribed", filter="t/#", reason=0)

    def publish(self, number: int, qos: int = 2, link: int = 1) -> "Script":
        return self.say("p", "publish", topic="t/p", number=number, qos=qos, link=link)

    def acknowledge(self, number: int, link: int = 1, reason: int = 0) -> "Script":
        return self.say("p", "acknowledged", topic="t/p", number=number, link=link, reason=reason)

    def get(self, *numbers: int, who: str = "s", qos: int = 2) -> "Script":
        for number in numbers:
            self.say(who, "message", topic="t/p", number=number, qos=qos)
        return self

    def settle(self) -> "Script":
        return self.say("test", "settled")

    def broken(self) -> list[str]:
        return [each.promise for each in judge(self.events)]


def begun() -> Script:
    """A publisher, and a subscriber after its SUBACK."""
    return Script().enter("p").enter("s").subscribe()


class Promises(unittest.TestCase):
    def test_a_correct_history_has_no_violations(self) -> None:
        script = begun().publish(1).publish(2).acknowledge(1).acknowledge(2).get(1, 2).settle()
        self.assertEqual(script.broken(), [])

    def test_acknowledged_messages_arrive(self) -> None:
        for qos in (1, 2):
            lost = begun().publish(1, qos).publish(2, qos).acknowledge(1).acknowledge(2).get(2, qos=qos)
            self.assertEqual(lost.broken(), [], "it may still arrive")
            self.assertEqual(lost.settle().broken(), ["acknowledged messages arrive"])

    def test_an_accepted_ban_is_active_at_the_end(self) -> None:
        script = Script().say("operator", "ban", number=1).say("operator", "banned", number=1).say("operator", "ban", number=2)
        for numbers, broken in (([1], []), ([1, 2], []), ([2], ["no revision is lost"]), ([1, 3], ["no revision is lost"])):
            with self.subTest(numbers=numbers):
                found = judge([*script.events, {"at": 9, "who": "operator", "what": "bans", "of": "broker-1", "numbers": numbers}])
                self.assertEqual([each.promise for each in found], broken)

    def test_unacknowledged_and_refused_messages_can_be_missing(self) -> None:
        script = begun().publish(1).publish(2).acknowledge(2, reason_code=0x83).settle()
        self.assertEqual(script.broken(), [])
        self.assertEqual(list(unanswered(History(script.events))), [("t/p", 1)])

    def test_messages_acknowledged_at_memory_can_be_lost(self) -> None:
        def early(*numbers: int) -> list[str]:
            script = begun()
            for number in (1, 2, 3):
                message = {"topic": "t/early/p", "number": number, "link": 1}
                script.say("p", "publish", qos=2, **message).say("p", "acknowledged", reason=0, **message)
            for number in numbers:
                script.say("s", "message", topic="t/early/p", number=number, qos=2)
            return script.settle().broken()

        self.assertEqual(early(1, 3), [])
        self.assertEqual(early(1, 3, 2), ["order of each publisher and topic"])
        self.assertEqual(early(1, 3, 3), ["QoS 2 arrives once"])

    def test_messages_before_suback_or_without_a_session_can_be_missing(self) -> None:
        early = Script().enter("p").enter("s").publish(1).subscribe().acknowledge(1)
        self.assertEqual(early.settle().broken(), [])
        given_up = begun().publish(1).acknowledge(1).say("s", "unsubscribe", filter="t/#")
        self.assertEqual(given_up.settle().broken(), [])

    def test_missing_messages_are_reported_by_subscriber(self) -> None:
        script = begun().enter("u").subscribe("u").publish(1).acknowledge(1).get(1, who="u")
        self.assertEqual(list(missing(History(script.events))), [("s", ("t/p", 1))])

    def test_qos_2_messages_arrive_once(self) -> None:
        self.assertEqual(begun().publish(1).get(1, 1).broken(), ["QoS 2 arrives once"])
        self.assertEqual(begun().publish(1, qos=1).get(1, 1, qos=1).broken(), [])

    def test_first_arrivals_are_in_order(self) -> None:
        for qos in (1, 2):
            script = begun().publish(1, qos).publish(2, qos).acknowledge(1).get(2, 1, qos=qos)
            self.assertEqual(script.broken(), ["order of each publisher and topic"])
        again = begun().publish(1, 1).publish(2, 1).publish(3, 1).get(1, 2, 1, 2, 3, qos=1)
        self.assertEqual(again.broken(), [])

    def test_a_message_with_an_unknown_refusal_can_arrive_late(self) -> None:
        for version, waited_ns, expected in ((5, REFUSED_AFTER_NS, []), (5, 10, ["order"]), (4, REFUSED_AFTER_NS, ["order"])):
            script = Script().say("p", "connect", link=1, to="broker-1", version=version).say("p", "connected", link=1, present=False)
            script.enter("s").subscribe().publish(1, 1).publish(2, 1)
            script.events += [{"at": len(script.events) + waited_ns, "who": "p", "what": "closed", "link": 1}]
            for who, what, number in (("s", "message", 2), ("p", "publish", 1), ("s", "message", 1)):
                at = script.events[-1]["at"] + 1
                script.events.append({"at": at, "who": who, "what": what, "topic": "t/p", "number": number, "qos": 1, "link": None})
            self.assertEqual([each[:5] for each in script.broken()], expected, (version, waited_ns))

    def test_a_qos_1_copy_can_be_late_for_a_new_subscriber(self) -> None:
        script = begun().unsubscribe().publish(1, 1).publish(2, 1).subscribe().get(2, 1, qos=1)
        self.assertEqual(script.broken(), [])
        early = Script().enter("p").enter("s").publish(1, 1).publish(2, 1).subscribe().get(2, 1, qos=1)
        self.assertEqual(early.broken(), [])
        once = begun().unsubscribe().publish(1).publish(2).acknowledge(1).subscribe().get(2, 1)
        self.assertEqual(once.broken(), ["order of each publisher and topic"], "of QoS 2 there are no copies")

    def test_no_unsent_message_arrives(self) -> None:
        self.assertEqual(begun().get(1).broken(), ["only sent messages arrive"])
        self.assertEqual(begun().get(1).publish(1).broken(), ["only sent messages arrive"])
        damaged = begun().publish(1).say("s", "message", topic="t/p", number=None, qos=2)
        self.assertEqual(damaged.broken(), ["only sent messages arrive"])

    def test_the_qos_is_the_lower_one(self) -> None:
        self.assertEqual(begun().publish(1, qos=1).get(1, qos=2).broken(), ["QoS is the lower of message and subscription"])

    def test_an_unsubscription_takes_effect(self) -> None:
        over = begun().unsubscribe().publish(1)
        self.assertEqual(over.get(1).broken(), ["UNSUBSCRIBE takes effect"])
        under_way = begun().publish(1).unsubscribe().get(1)
        self.assertEqual(under_way.broken(), [], "messages published before may still arrive")
        anew = begun().unsubscribe().publish(1).subscribe().get(1)
        self.assertEqual(anew.broken(), [], "a late session gets the messages published meanwhile")
        none = Script().enter("p").enter("s").publish(1).get(1)
        self.assertEqual(none.broken(), ["UNSUBSCRIBE takes effect"])

    def test_a_refused_subscription_is_reported(self) -> None:
        script = Script().enter("s").say("s", "subscribe", filter="t/#", qos=2).say("s", "subscribed", filter="t/#", reason_code=0x80)
        self.assertEqual(script.broken(), ["subscriptions are granted"])

    def test_sessions_survive(self) -> None:
        self.assertEqual(begun().enter("s", 2, "broker-2", present=True).broken(), [])
        self.assertEqual(begun().enter("s", 2, "broker-2", present=False).broken(), ["sessions persist"])


class Retained(unittest.TestCase):
    def look(self, script: Script, link: int, *numbers: int) -> Script:
        script.say("l", "connect", link=link, to="broker-1", clean=True).say("l", "connected", link=link, present=False).say("l", "look", link=link)
        for number in numbers:
            script.say("l", "saw", link=link, topic="t/p", number=number)
        return script

    def test_the_newest_message_or_one_in_flight_is_retained(self) -> None:
        script = Script().enter("p").publish(1, 1).acknowledge(1).publish(2, 1)
        self.assertEqual(self.look(self.look(script, 1, 1), 2, 2).broken(), [])

    def test_nothing_older_than_acknowledged_is_retained(self) -> None:
        script = Script().enter("p").publish(1, 1).acknowledge(1).publish(2, 1).acknowledge(2)
        self.assertEqual(self.look(script, 1, 1).broken(), ["the newest message is retained"])

    def test_nothing_older_than_observed_is_retained(self) -> None:
        script = Script().enter("p").publish(1, 1).acknowledge(1).publish(2, 1)
        self.assertEqual(self.look(self.look(script, 1, 2), 2, 1).broken(), ["retained messages never go back"])

    def test_no_unsent_message_is_retained(self) -> None:
        self.assertEqual(self.look(Script(), 1, 1).broken(), ["only sent messages arrive"])


class Wills(unittest.TestCase):
    def mortal(self) -> Script:
        script = begun().say("m", "connect", link=1, to="broker-1").say("m", "will", link=1, topic="t/m", number=1, qos=2)
        return script.say("m", "connected", link=1, present=False)

    def get(self, script: Script) -> Script:
        return script.say("s", "message", topic="t/m", number=1, qos=2)

    def test_a_group_message_reaches_some_member(self) -> None:
        def member(script: Script, who: str) -> Script:
            share = "$share/g/t/#"
            return script.enter(who).say(who, "subscribe", filter=share, qos=1).say(who, "subscribed", filter=share, reason=1)

        script = member(member(Script().enter("p").publish(1).acknowledge(1), "a").publish(2).acknowledge(2), "b").publish(3).acknowledge(3)
        self.assertEqual(list(missing(History(script.events))), [("$share/g/t/#", ("t/p", 2)), ("$share/g/t/#", ("t/p", 3))])
        script.get(3, who="a", qos=1).get(2, 3, who="b", qos=1)
        self.assertEqual(script.settle().broken(), [], "unacknowledged messages may go to another member, and later")

    def test_a_will_waits_for_its_delay(self) -> None:
        second = 1_000_000_000
        for passed, broken in ((1, ["a will waits for its delay"]), (3, [])):
            script = begun().say("m", "connect", link=1, to="broker-1").say("m", "will", link=1, topic="t/m", number=1, qos=2, delay_s=3)
            script.say("m", "connected", link=1, present=False).say("m", "cut", link=1, reason=None)
            script.events.append({"at": script.events[-1]["at"] + passed * second, "who": "s", "what": "message", "topic": "t/m", "number": 1, "qos": 2})
            self.assertEqual(script.broken(), broken)

    def test_the_will_of_a_lost_connection_arrives_once(self) -> None:
        dead = self.mortal().say("m", "cut", link=1, reason=None)
        self.assertEqual(self.get(dead).settle().broken(), [])
        self.assertEqual(self.get(dead).broken(), ["QoS 2 arrives once"])

    def test_a_missing_will_is_lost(self) -> None:
        self.assertEqual(self.mortal().say("m", "cut", link=1, reason=None).settle().broken(), ["acknowledged messages arrive"])

    def test_a_will_is_optional_until_the_client_knows_the_end(self) -> None:
        self.assertEqual(self.mortal().settle().broken(), [])
        self.assertEqual(self.get(self.mortal()).settle().broken(), [])


class OneBroker(unittest.TestCase):
    def test_an_old_connection_must_not_answer_after_the_new_connack(self) -> None:
        moved = begun().enter("s", 2, "broker-2", present=True).say("s", "ping", link=1, number=1)
        self.assertEqual(moved.broken(), [])
        self.assertEqual(moved.say("s", "pong", link=1, number=1).broken(), ["one broker at a time"])

    def test_earlier_packets_can_be_answered_late(self) -> None:
        script = begun().say("s", "ping", link=1, number=1).enter("s", 2, "broker-2", present=True).say("s", "pong", link=1, number=1)
        self.assertEqual(script.broken(), [])

    def test_the_new_connection_can_answer(self) -> None:
        script = begun().enter("s", 2, "broker-2", present=True).say("s", "ping", link=2, number=1).say("s", "pong", link=2, number=1)
        self.assertEqual(script.broken(), [])

    def test_concurrent_connections_are_not_ordered(self) -> None:
        script = Script().say("s", "connect", link=1, to="a").say("s", "connect", link=2, to="b")
        script.say("s", "connected", link=2, present=False).say("s", "connected", link=1, present=True)
        self.assertEqual(script.say("s", "ping", link=1, number=1).say("s", "pong", link=1, number=1).broken(), [])

    def test_an_old_connection_must_not_acknowledge(self) -> None:
        script = Script().enter("p").enter("p", 2, "broker-2", present=True).publish(1, link=1).acknowledge(1, link=1)
        self.assertEqual(script.broken(), ["one broker at a time"])
        again = Script().enter("p").publish(1, link=1).enter("p", 2, "broker-2", present=True).publish(1, link=2).acknowledge(1, link=2)
        self.assertEqual(again.broken(), [])


class Told(unittest.TestCase):
    def test_many_violations_of_a_kind_are_counted(self) -> None:
        script = begun().get(*range(1, 21))
        lines = told(judge(script.events))
        self.assertEqual(len(lines), 13)
        self.assertIn("8 more times", lines[-1])


if __name__ == "__main__":
    unittest.main()
