"""Invalid arguments and addresses are refused by the call."""

from stage import Stage

# In C the violated rule has a code of its own, and host and port are two arguments.
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
    # A path is allowed only for WebSocket.
    for address in ("mqtt://127.0.0.1:1/mqtt", "mqtts://127.0.0.1:1/mqtt", "mqtt://127.0.0.1:1?a=b", "mqtt://127.0.0.1:1#a"):
        stage.player(address).does("connect", "failed connect invalid_options")
