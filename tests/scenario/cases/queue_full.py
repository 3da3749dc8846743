"""Without a connection 10,000 messages are queued. Further ones wait for room, or fail if waiting would keep them in memory,
too."""

from stage import Stage

# In C the caller provides the memory, so the number of messages differs.
WITHOUT = {"c"}
LIMIT, MORE = 10_000, 10
# A waiting promise would keep the message in memory.
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
