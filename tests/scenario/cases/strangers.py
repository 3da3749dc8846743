"""The listener is not MQTT, or is silent, or supports only 3.1.1: `connect` fails with a matching code."""

from stage import Stage

# A 3.1.1 server refuses 5.0 in a form that is invalid in 5.0.
REFUSAL_OF_THE_VERSION, REFUSAL_OF_THE_PASSWORD = bytes.fromhex("20020001"), bytes.fromhex("20020004")


def play(stage: Stage) -> None:
    for said, line in (
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "handshake_failed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "handshake_failed"),
        # A success in the form of 3.1.1.
        (bytes.fromhex("20020000"), "handshake_failed"),
        (REFUSAL_OF_THE_VERSION, "unsupported_protocol_version 0x84"),
        (REFUSAL_OF_THE_PASSWORD, "connection_refused 0x86"),
        # PINGRESP is MQTT, but not expected here.
        (bytes.fromhex("d000"), "protocol_error"),
    ):
        address = f"mqtt://127.0.0.1:{stage.stranger(said)}"
        stage.player(address).does("connect", f"failed connect {line}")

    silent = f"mqtt://127.0.0.1:{stage.stranger(b'')}"
    stage.player(silent).does("connect connect_ms=300", "failed connect connect_timeout")

    # Another attempt may help if a server is started meanwhile, but not with a version.
    ssh = f"mqtt://127.0.0.1:{stage.stranger(b'SSH-2.0-OpenSSH_9.2p1')}"
    stage.player(ssh).does("start attempts_ms=100", *["attempt handshake_failed"] * 2)
    old = f"mqtt://127.0.0.1:{stage.stranger(REFUSAL_OF_THE_VERSION)}"
    stage.player(old).does("start attempts_ms=100", "ended unsupported_protocol_version 0x84")
