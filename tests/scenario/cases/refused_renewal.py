"""The broker restarts without the session, and refuses to renew a subscription: that one ends permanently, and everything else
continues."""

from stage import Stage

RIGHTS = """
[[role]]
name = "most"
rules = [
    { deny = ["subscribe"], topics = "secret" },
    { allow = ["publish", "subscribe"], topics = "#" },
]
[[assign]]
everyone = true
roles = "most"
"""


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    player = stage.player()
    player.does("connect client=one expiry=600 attempts_ms=300", "connected 0")
    player.does("subscribe 1 secret", "subscribed secret 1")
    player.does("subscribe 1 open", "subscribed open 1")
    stage.kill_broker()
    player.sees("disconnected connection_lost")

    roles = stage.folder / "roles.toml"
    roles.write_text(RIGHTS)
    stage.relay.forward(stage.broker(f"acl.file={roles}"))
    player.sees_in_any_order("connected 0", "lost secret subscribe_refused 0x87")
    # The server answers in order, so its answer for the other filter has arrived before this one.
    player.does("subscribe 1 secret", "failed subscribe subscribe_refused 0x87")
    other = stage.player()
    other.does("connect client=other", "connected 0")
    other.does("publish 1 secret no", "published no 0x10")
    other.does("publish 1 open news", "published news 0x00")
    player.sees("message open 1 0 news")
    other.does("close", "closed")

    # It is not renewed even where it would be granted.
    stage.kill_broker()
    player.sees("disconnected connection_lost")
    stage.relay.forward(stage.broker())
    player.sees("connected 0")
    player.does("subscribe 1 more", "subscribed more 1")
    other = stage.player()
    other.does("connect client=other", "connected 0")
    other.does("publish 1 open again", "published again 0x00")
    player.sees("message open 1 0 again")
    other.does("publish 1 secret no", "published no 0x10")
    other.does("close", "closed")
    player.does("close", "closed")
