"""An address without TLS, and a port with TLS: the error says which address is right."""

from stage import Stage

# In C, the caller provides TLS, and the answer of the port is not MQTT.
EXPECTED = {"c": "handshake_failed"}


def play(stage: Stage) -> None:
    stage.tool("cert", "--dir", str(stage.folder / "tls"))
    files = (f"tls.{key}={stage.folder / 'tls' / name}" for key, name in (("certificate", "server.pem"), ("key", "server.key")))
    stage.relay.forward(stage.broker(*files, tls=True))
    for version in (5, 4):
        player = stage.player()
        player.does(f"connect version={version}", f"failed connect {EXPECTED.get(player.language, 'tls_needed')}")
