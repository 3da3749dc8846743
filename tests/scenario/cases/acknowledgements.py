"""PUBACK is sent in the order of the QoS 1 messages, PUBREC in that of the QoS 2 messages, whatever the application acknowledges
first [MQTT-4.6.0-2] [MQTT-4.6.0-3]."""

from stage import Broken, Player, Stage

# By QoS: the second and the fourth need PUBREC.
LEVELS = (1, 2, 1, 2, 1)
IN_ORDER = ["PUBACK 1", "PUBREC 2", "PUBACK 3", "PUBREC 4", "PUBACK 5"]
# The acknowledged message, and the packets sent then. The third message holds back the fifth, but not the fourth.
STEPS = (
    ("5", []),
    ("4", []),
    ("1", ["PUBACK 1"]),
    ("2", ["PUBREC 2", "PUBREC 4"]),
    ("3", ["PUBACK 3", "PUBACK 5"]),
)
# It has no manual acknowledgement: a message is acknowledged before the next one is read.
AT_ONCE = "c"


def play(stage: Stage) -> None:
    port = stage.broker()
    stage.relay.forward(port)
    for version in (5, 4):
        watched = stage.relay.watch()
        player = stage.player()
        player.does(f"connect version={version}", "connected 0")
        is_at_once = player.language == AT_ONCE
        player.does(f"{'subscribe' if is_at_once else 'hold'} 2 order/#", "subscribed order/# 2")
        publisher = stage.player(f"mqtt://127.0.0.1:{port}")
        publisher.does("connect", "connected 0")
        for number, qos in enumerate(LEVELS, 1):
            publisher.does(f"publish {qos} order/it {number}", f"published {number} 0x00")
            player.sees(f"message order/it {qos} 0 {number}")
        expected: list[str] = IN_ORDER if is_at_once else []
        _await_round_trip(player, version)
        _compare(expected, watched.given())
        for payload, left in () if is_at_once else STEPS:
            player.does(f"acknowledge {payload}", f"acknowledged {payload}")
            _await_round_trip(player, version)
            expected = [*expected, *left]
            _compare(expected, watched.given())
        publisher.does("close", "closed")
        player.does("close", "closed")


def _await_round_trip(player: Player, version: int) -> None:
    """The client's earlier packets have then passed the relay."""
    player.does("publish 1 nowhere behind", f"published behind {'0x10' if version == 5 else '0x00'}")


def _compare(expected: list[str], given: list[str]) -> None:
    if given != expected:
        raise Broken(f"expected to leave the client: {', '.join(expected) or 'nothing'}\nbut it was: {', '.join(given) or 'nothing'}")
