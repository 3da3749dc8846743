"""Messages of each QoS are published and received once, in both versions; the server's reason is reported."""

from stage import Stage


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    for version in (5, 4):
        player = stage.player()
        player.does(f"connect version={version}", "connected 0")
        player.does("subscribe 2 there/#", "subscribed there/# 2")
        for qos in (0, 1, 2):
            player.send(f"publish {qos} there/{qos} some words, number {qos}")
            player.sees_in_any_order(
                f"published some words, number {qos} 0x00", f"message there/{qos} {qos} 0 some words, number {qos}"
            )
        for qos in (1, 2):
            player.does(f"publish {qos} nowhere lost", f"published lost {'0x10' if version == 5 else '0x00'}")
        player.does("unsubscribe there/#", "unsubscribed there/#")
        player.does("publish 1 there/1 late", f"published late {'0x10' if version == 5 else '0x00'}")
        player.does("close", "closed")
