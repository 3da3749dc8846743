"""Thousands of QoS 2 messages to itself, while the broker is killed: none is lost, none arrives twice, and the client never exceeds the
broker's Receive Maximum [MQTT-3.3.4-7], which would end the connection with 0x93."""

from collections import Counter, deque

from stage import Stage

MAXIMA = (1, 4, 20, 65_535)
MESSAGES = 1_000
# The broker is killed when so many messages have arrived or been acknowledged.
KILLS = (200, 600, 1_200)


def play(stage: Stage) -> None:
    settings = [f"mqtt.receive_maximum={MAXIMA[0]}"]
    stage.relay.forward(stage.broker(*settings, keeps=True))
    player = stage.player()
    player.does("connect client=one expiry=600 attempts_ms=300", "connected 0")
    player.does("subscribe 2 q", "subscribed q 2")
    for maximum in MAXIMA:
        # It takes effect at the next connection.
        settings = [f"mqtt.receive_maximum={maximum}"]
        stage.kill_broker()
        player.sees("disconnected connection_lost")
        stage.relay.forward(stage.broker(*settings, keeps=True))
        player.sees("connected 1")
        payloads = [f"{maximum}/{number}" for number in range(MESSAGES)]
        player.send(*(f"publish 2 q {payload}" for payload in payloads))
        arrived = deque(f"message q 2 0 {payload}" for payload in payloads)
        others = Counter(f"published {payload} 0x00" for payload in payloads)
        for kill in KILLS:
            player.sees_until(lambda left=2 * MESSAGES - kill: others.total() + len(arrived) <= left, others, arrived)
            stage.kill_broker()
            others.update(("disconnected connection_lost", "connected 1"))
            stage.relay.forward(stage.broker(*settings, keeps=True))
            player.sees_until(lambda: not others["connected 1"], others, arrived)
        player.sees_until(lambda: not others.total() and not arrived, others, arrived)
    player.does("close", "closed")
