"""A connection breaks, and the broker keeps running: the session is resumed, in 3.1.1 only if the application has requested
one."""

from stage import Stage


def play(stage: Stage) -> None:
    for version, options, is_present in ((5, "", 1), (5, "expiry=0", 0), (4, "", 0), (4, "resume", 1)):
        port = stage.broker()
        stage.relay.forward(port)
        player = stage.player()
        player.does(f"connect client=one version={version} attempts_ms=200 {options}".rstrip(), "connected 0")
        player.does("subscribe 1 a", "subscribed a 1")
        stage.relay.cut()
        player.sees("disconnected connection_lost", f"connected {is_present}")
        # If the session is lost, the subscription is renewed.
        player.send("publish 1 a news")
        player.sees_in_any_order("message a 1 0 news", "published news 0x00")
        player.does("close", "closed")
        stage.kill_broker()
