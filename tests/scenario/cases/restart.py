"""The broker is killed and restarted with its data: the session exists, and acknowledged messages arrive, in order and once."""

from stage import Stage


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker(keeps=True))
    player = stage.player()
    player.does("connect client=reader expiry=600 attempts_ms=300", "connected 0")
    player.does("subscribe 2 q/#", "subscribed q/# 2")

    # Another client publishes while the first is offline, and the broker is killed after it has acknowledged.
    stage.relay.refuse()
    player.sees("disconnected connection_lost")
    writer = stage.player(f"mqtt://127.0.0.1:{stage.broker_port}")
    writer.does("connect client=writer", "connected 0")
    for number in range(5):
        writer.does(f"publish 2 q/writer {number}", f"published {number} 0x00")
    writer.does("close", "closed")
    stage.kill_broker()
    stage.relay.forward(stage.broker(keeps=True))
    player.sees_in_any_order("connected 1", ordered=[f"message q/writer 2 0 {number}" for number in range(5)])

    # It is killed again, with acknowledgements in flight. The client's own publications wait for a connection.
    stage.kill_broker()
    player.sees("disconnected connection_lost")
    player.send(*(f"publish 1 q/own {number}" for number in range(5)))
    stage.relay.forward(stage.broker(keeps=True))
    own = [f"message q/own 1 0 {number}" for number in range(5)]
    player.sees_in_any_order("connected 1", *(f"published {number} 0x00" for number in range(5)), ordered=own)
    player.does("close", "closed")
