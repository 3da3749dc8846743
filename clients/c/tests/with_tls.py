"""Runs a TLS example with brokers: `with_tls.py BINARY PROGRAM`.

Each case has certificates of `tautwire cert`; the program must be accepted, or report the right
code.
"""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LISTENING = re.compile(r"listening on (mqtts?)://(\S+):(\d+)")
PATIENCE_S = 60


class Checks:
    def __init__(self, binary: str, program: str, folder: Path) -> None:
        self.binary, self.program, self.folder = binary, program, folder
        self.failures = 0

    def cert(self, folder: str, *options: str) -> None:
        command = [self.binary, "cert", "--dir", str(self.folder / folder), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)

    def file(self, name: str) -> str:
        return str(self.folder / name)

    @contextmanager
    def broker(self, certificate: str, *settings: str) -> Iterator[dict[str, str]]:
        """Runs a broker with a certificate and its key; yields its ports."""
        command = [self.binary, "serve", "--memory", "--listen", "mqtts://127.0.0.1:0", "--listen", "127.0.0.1:0"]
        for setting in [f"tls.certificate={self.file(certificate)}.pem", f"tls.key={self.file(certificate)}.key", *settings]:
            command += ["--set", setting]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            ports: dict[str, str] = {}
            for line in process.stdout or []:
                if found := LISTENING.search(line):
                    ports[found[1]] = found[3]
                if len(ports) == 2:
                    break
            yield ports
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)

    def run(self, expected: str, port: str, ca: str, *options: str) -> None:
        """The program must be accepted ("ok"), or print this."""
        command = [self.program, "localhost", port, self.file(ca), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        said = done.stdout + done.stderr
        is_right = done.returncode == 0 if expected == "ok" else done.returncode == 1 and expected in said
        if not is_right:
            self.failures += 1
            print(f"FAIL {' '.join(options) or ca}: expected {expected}, exit {done.returncode}:\n{said}", file=sys.stderr)


def main() -> int:
    binary, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(binary, program, Path(folder))
        check_the_server(checks)
        check_the_client(checks)
    print(f"{Path(program).name}: {'passed' if checks.failures == 0 else 'FAILED'}")
    return 1 if checks.failures else 0


def check_the_server(checks: Checks) -> None:
    checks.cert("ours")
    checks.cert("strange")
    checks.cert("expired", "--days", "-1")
    checks.cert("ours", "--revoke", checks.file("ours/server.pem"))
    with checks.broker("ours/server") as ports:
        checks.run("ok", ports["mqtts"], "ours/ca.pem")
        checks.run("ok", ports["mqtts"], "ours/ca.pem", "alpn=mqtt")
        checks.run("[tls_unknown_authority]", ports["mqtts"], "strange/ca.pem")
        checks.run("(it is for localhost", ports["mqtts"], "ours/ca.pem", "name=other.example")
        checks.run("not for other.example) [tls_name_mismatch]", ports["mqtts"], "ours/ca.pem",
                   "name=other.example")
        checks.run("[tls_revoked]", ports["mqtts"], "ours/ca.pem", f"revoked={checks.file('ours/revoked.pem')}")
        checks.run("[tls_no_shared_parameters]", ports["mqtts"], "ours/ca.pem", "alpn=h2")
        checks.run("[tls_closed]", ports["mqtt"], "ours/ca.pem")
        checks.run("[tls_options]", ports["mqtts"], "ours/ca.key")
    with checks.broker("expired/server") as ports:
        checks.run("[tls_expired]", ports["mqtts"], "expired/ca.pem")
    # A CA certificate is its own issuer.
    with checks.broker("strange/ca") as ports:
        checks.run("[tls_self_signed]", ports["mqtts"], "ours/ca.pem")


def check_the_client(checks: Checks) -> None:
    checks.cert("mutual", "--client", "good", "--client", "revoked-one")
    checks.cert("mutual", "--client", "late", "--days", "-1")
    checks.cert("mutual", "--revoke", checks.file("mutual/revoked-one.pem"))
    checks.cert("strange", "--client", "stranger")
    settings = ["tls.client_certificates=required", f"tls.client_ca={checks.file('mutual/ca.pem')}",
                f"tls.crl={checks.file('mutual/revoked.pem')}"]
    with checks.broker("mutual/server", *settings) as ports:
        checks.run("[tls_client_certificate_required]", ports["mqtts"], "mutual/ca.pem")
        for name, expected in [
            ("mutual/good", "ok"),
            ("mutual/revoked-one", "(it has been revoked) [tls_client_certificate_refused]"),
            ("mutual/late", "(it has expired, or is not valid yet) [tls_client_certificate_refused]"),
            ("strange/stranger", "(the server does not trust the authority that issued it) [tls_client_certificate_refused]"),
            ("mutual/server", "(it is not a client certificate) [tls_client_certificate_refused]"),
        ]:
            pair = [f"cert={checks.file(name)}.pem", f"key={checks.file(name)}.key"]
            checks.run(expected, ports["mqtts"], "mutual/ca.pem", *pair)
        mixed = [f"cert={checks.file('mutual/good.pem')}", f"key={checks.file('mutual/late.key')}"]
        checks.run("does not match the client certificate) [tls_options]", ports["mqtts"], "mutual/ca.pem", *mixed)


if __name__ == "__main__":
    sys.exit(main())
