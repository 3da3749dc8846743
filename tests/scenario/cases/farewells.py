"""Reasons with which a server may close a connection: after some the client ends, after the others it reconnects."""

from stage import Stage

# Rights, a session taken over, another server.
FINAL = {0x87: "server_disconnected", 0x8E: "session_taken_over", 0x9C: "redirected", 0x9D: "redirected"}
# Temporary conditions of the server and the client, and codes that in CONNACK refuse a will.
OTHERS = (0x80, 0x82, 0x8B, 0x8D, 0x93, 0x95, 0x98, 0x9A, 0xA0)
CONNACK = bytes.fromhex("2003000000")


def play(stage: Stage) -> None:
    for reason in (*FINAL, *OTHERS):
        # The next connection gets no answer.
        port = stage.stranger(CONNACK, bytes([0xE0, 1, reason]))
        player = stage.player(f"mqtt://127.0.0.1:{port}")
        outcome = f"ended {FINAL[reason]}" if reason in FINAL else "disconnected server_disconnected"
        player.does("start", "connected 0")
        player.send("publish 0 a hello")
        player.sees_in_any_order("published hello 0x00", f"{outcome} {reason:#04x}")
        player.ends()
