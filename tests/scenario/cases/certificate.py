"""A certificate of an untrusted authority ends `connect`. A client that keeps trying tries again."""

from stage import Stage

# In C, the caller provides the transport, and with it TLS.
WITHOUT = {"c"}


def play(stage: Stage) -> None:
    stage.tool("cert", "--dir", str(stage.folder / "tls"))
    files = (f"tls.{key}={stage.folder / 'tls' / name}" for key, name in (("certificate", "server.pem"), ("key", "server.key")))
    stage.relay.forward(stage.broker(*files, tls=True))
    address = f"mqtts://localhost:{stage.relay.port}"

    stage.player(address).does("connect", "failed connect tls_unknown_authority")
    stage.player(address).does("start attempts_ms=100", *["attempt tls_unknown_authority"] * 2)
