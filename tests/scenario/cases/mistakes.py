"""What no packet may say is refused where it is said."""

from stage import Stage

# There the rule that is broken has a code of its own.
WITHOUT = {"c"}


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    player = stage.player()
    player.does("connect", "connected 0")
    for qos in (0, 1):
        player.does(f"publish {qos} a/# wrong", "failed publish invalid_argument wrong")
    for filter_ in ("a#", "a/#/b", "$share/a"):
        player.does(f"subscribe 1 {filter_}", "failed subscribe invalid_argument")
    player.does("close", "closed")
