"""The server refuses to let a client publish or subscribe: both fail with its reason, and the client continues."""

from stage import Stage

RULES = """
[[role]]
name = "guest"
rules = [{ allow = ["publish", "subscribe"], topics = "open/#" }]

[[assign]]
everyone = true
roles = "guest"
"""


def play(stage: Stage) -> None:
    rules = stage.folder / "access.toml"
    rules.write_text(RULES)
    stage.relay.forward(stage.broker(f"acl.file={rules}"))
    player = stage.player()
    player.does("connect", "connected 0")
    player.does("subscribe 1 shut", "failed subscribe subscribe_refused 0x87")
    for qos in (1, 2):
        player.does(f"publish {qos} shut no", "failed publish publish_refused 0x87 no")
    player.does("subscribe 1 open/#", "subscribed open/# 1")
    player.send("publish 1 open/a yes")
    player.sees_in_any_order("message open/a 1 0 yes", "published yes 0x00")
    player.does("close", "closed")

    # Before 5.0 the server gives no reason.
    old = stage.player()
    old.does("connect version=4", "connected 0")
    old.does("subscribe 1 shut", "failed subscribe subscribe_refused 0x80")
    old.does("close", "closed")
