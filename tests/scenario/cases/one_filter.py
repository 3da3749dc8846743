"""Two subscriptions to one filter are one for the server, with the highest QoS; each gets all messages, and one ends without the
other."""

from stage import Stage


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    player = stage.player()
    player.does("connect", "connected 0")
    player.does("subscribe 2 same", "subscribed same 2")
    player.does("subscribe 0 same", "subscribed same 2")
    player.send("publish 2 same both")
    player.sees_in_any_order("message same 2 0 both", "message same 2 0 both", "published both 0x00")
    # The newest is the one of QoS 0.
    player.does("unsubscribe same", "unsubscribed same")
    player.send("publish 2 same one")
    player.sees_in_any_order("message same 2 0 one", "published one 0x00")
    player.does("subscribe 0 same", "subscribed same 2")
    player.does("unsubscribe same", "unsubscribed same")
    player.does("unsubscribe same", "unsubscribed same")
    player.does("publish 2 same none", "published none 0x10")
    player.does("close", "closed")
