"""The broker restarts without the session: subscriptions are renewed, QoS 1 is sent again, and QoS 2 with unknown delivery is
reported."""

from stage import Stage


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    player = stage.player()
    player.does("connect client=one expiry=600 attempts_ms=300", "connected 0")
    player.does("subscribe 1 a", "subscribed a 1")

    # Sent, but never answered.
    stage.relay.hold_answers()
    player.send("publish 2 nowhere twice", "publish 1 nowhere again")
    stage.relay.await_sent(b"again")
    stage.kill_broker()
    stage.relay.refuse()
    player.sees("disconnected connection_lost")

    stage.relay.forward(stage.broker())
    player.sees_in_any_order("connected 0", "failed publish session_lost twice", "published again 0x10")

    other = stage.player()
    other.does("connect client=other", "connected 0")
    other.does("publish 1 a news", "published news 0x00")
    player.sees("message a 1 0 news")
    other.does("close", "closed")
    player.does("close", "closed")
