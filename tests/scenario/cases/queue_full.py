"""Without a connection 10,000 messages wait. More wait for room, or fail where waiting would hold them, too."""

from stage import Stage

# There the caller lends the memory: how many messages fit is its own affair.
WITHOUT = {"c"}
LIMIT, MORE = 10_000, 10
# A promise that waits would hold the message.
FAILS = "typescript"


def play(stage: Stage) -> None:
    player = stage.player()
    player.does("start client=one attempts_ms=300", "attempt unreachable")
    player.send(*(f"publish 1 nowhere {number}" for number in range(LIMIT + MORE)))
    taken = LIMIT + MORE
    if player.language == FAILS:
        taken = LIMIT
        player.sees(*(f"failed publish queue_full {number}" for number in range(LIMIT, LIMIT + MORE)))
    stage.relay.forward(stage.broker())
    player.sees_in_any_order("connected 0", *(f"published {number} 0x10" for number in range(taken)))
    player.does("close", "closed")
