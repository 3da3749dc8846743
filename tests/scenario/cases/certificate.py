"""A certificate of an authority that is not trusted ends `connect`. While a client goes on trying it is tried again."""

from stage import Stage

# In C the transport, and with it TLS, is the caller's.
WITHOUT = {"c"}


def play(stage: Stage) -> None:
    stage.tool("cert", "--dir", str(stage.folder / "tls"))
    files = (f"tls.{key}={stage.folder / 'tls' / name}" for key, name in (("certificate", "server.pem"), ("key", "server.key")))
    stage.relay.forward(stage.broker(*files, tls=True))
    address = f"mqtts://localhost:{stage.relay.port}"

    stage.player(address).does("connect", "failed connect tls_unknown_authority")
    stage.player(address).does("start attempts_ms=100", *["attempt tls_unknown_authority"] * 2)
