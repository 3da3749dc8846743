"""Another client with the same identifier: the first ends, and does not reconnect, which would disconnect the other."""

from stage import Stage


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    first, second = stage.player(), stage.player()
    first.does("connect client=same attempts_ms=100", "connected 0")
    second.does("connect client=same", "connected 0")
    first.sees("ended session_taken_over 0x8e")
    second.does("subscribe 1 a", "subscribed a 1")
    second.does("close", "closed")
