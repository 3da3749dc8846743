"""A subscription that nobody reads holds up the others for a second at most: then an event names it, its QoS 0 messages are dropped, and
the messages of the others arrive."""

from stage import Stage

# There is no queue: the function that handles a message is part of the loop that reads.
WITHOUT = {"c"}
QUEUE, FLOOD = 100, 2_000


def play(stage: Stage) -> None:
    port = stage.broker()
    stage.relay.forward(port)
    player = stage.player()
    player.does(f"connect client=reader queue={QUEUE}", "connected 0")
    player.does("stall 0 slow", "subscribed slow 0")
    player.does("subscribe 1 fast", "subscribed fast 1")
    writer = stage.player(f"mqtt://127.0.0.1:{port}")
    writer.does("connect client=writer", "connected 0")
    writer.send(*(f"publish 0 slow {number}" for number in range(FLOOD)))
    writer.sees_in_any_order(*(f"published {number} 0x00" for number in range(FLOOD)))
    writer.does("publish 1 fast one", "published one 0x00")
    player.sees_in_any_order("held_up slow", "message fast 1 0 one")
    writer.does("publish 1 fast two", "published two 0x00")
    player.sees("message fast 1 0 two")
    player.does("close", "closed")
    writer.does("close", "closed")
