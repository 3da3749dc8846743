"""Certificates of `tautwire cert` for a run over TLS: the broker gets them by options, the drivers by the environment."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TRANSPORTS = ("tcp", "tls", "mtls")
TIMEOUT_S = 60


@contextmanager
def made(program: Path, transport: str) -> Iterator[dict[str, str]]:
    """Yields the variables with the files for the drivers: none for TCP."""
    if transport == "tcp":
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="tautwire-interop-") as folder:
        command = [str(program), "cert", "--dir", folder, "--client", "client"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
        variables = {"CA": "ca.pem"} if transport == "tls" else {"CA": "ca.pem", "CERT": "client.pem", "KEY": "client.key"}
        yield {f"TAUTWIRE_TLS_{name}": str(Path(folder) / file) for name, file in variables.items()}


def broker_options(transport: str, variables: Mapping[str, str]) -> list[str]:
    """Returns the options for the broker's listener; `variables` are those of [made]."""
    if transport == "tcp":
        return ["--listen", "127.0.0.1:0"]
    ca = Path(variables["TAUTWIRE_TLS_CA"])
    settings = [f"tls.certificate={ca.with_name('server.pem')}", f"tls.key={ca.with_name('server.key')}"]
    if transport == "mtls":
        settings += ["tls.client_certificates=required", f"tls.client_ca={ca}"]
    return ["--listen", "mqtts://127.0.0.1:0", *(f"--set={setting}" for setting in settings)]
