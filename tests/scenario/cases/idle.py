"""An idle client pings repeatedly, within the keep alive that the server sets [MQTT-3.1.2-20] [MQTT-3.1.2-21]."""

from stage import Stage

# With a server keep alive of 1 s.
CONNACK = bytes.fromhex("2006000003130001")
PINGRESP = bytes.fromhex("d000")
TAKEN_OVER = bytes.fromhex("e0018e")
# A client that waits between pings as long as for an answer would not send these in time.
ANSWERED = 4


def play(stage: Stage) -> None:
    port = stage.stranger(CONNACK, *[PINGRESP] * ANSWERED, TAKEN_OVER)
    player = stage.player(f"mqtt://127.0.0.1:{port}")
    player.does("start", "connected 0")
    player.sees("ended session_taken_over 0x8e")
