"""After a restart the server refuses the client: the client ends with the reason."""

from stage import Stage


def play(stage: Stage) -> None:
    stage.relay.forward(stage.broker())
    player = stage.player()
    player.does("connect client=one attempts_ms=300", "connected 0")
    stage.kill_broker()
    player.sees("disconnected connection_lost")
    users, password = stage.folder / "users", stage.folder / "password"
    password.write_text("secret")
    stage.tool("user", "add", "--file", str(users), "--password-file", str(password), "ann")
    stage.relay.forward(stage.broker(f"auth.password_file={users}"))
    player.sees("ended connection_refused 0x87")
