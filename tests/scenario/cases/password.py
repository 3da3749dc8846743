"""A wrong password ends both `connect` and `start`, with the server's reason."""

from stage import Stage


def play(stage: Stage) -> None:
    users, password = stage.folder / "users", stage.folder / "password"
    password.write_text("correct")
    stage.tool("user", "add", "--file", str(users), "--password-file", str(password), "ann")
    stage.relay.forward(stage.broker(f"auth.password_file={users}"))

    stage.player().does("connect user=ann password=wrong", "failed connect connection_refused 0x86")
    stage.player().does("connect version=4 user=ann password=wrong", "failed connect connection_refused 0x86")
    stage.player().does("start user=ann password=wrong attempts_ms=100", "ended connection_refused 0x86")

    right = stage.player()
    right.does("connect user=ann password=correct", "connected 0")
    right.does("close", "closed")
