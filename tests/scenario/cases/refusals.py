"""Each reason with which a server may refuse: after some the client ends, after the others it tries again."""

from stage import Stage

# Version, client identifier, user name or password, rights, a ban, the authentication method, the will, another server.
FINAL = {0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x90, 0x95, 0x99, 0x9A, 0x9B, 0x9C, 0x9D}
OTHERS = {0x80, 0x81, 0x82, 0x83, 0x88, 0x89, 0x97, 0x9F}
CODES = {0x84: "unsupported_protocol_version", 0x9C: "redirected", 0x9D: "redirected"}


def play(stage: Stage) -> None:
    for reason in sorted(FINAL | OTHERS):
        port = stage.stranger(bytes([0x20, 3, 0, reason, 0]))
        player = stage.player(f"mqtt://127.0.0.1:{port}")
        outcome = "ended" if reason in FINAL else "attempt"
        player.does("start attempts_ms=100", f"{outcome} {CODES.get(reason, 'connection_refused')} {reason:#04x}")
        player.ends()
