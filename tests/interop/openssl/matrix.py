"""Tests what `openssl s_client` and the broker negotiate: versions, cipher suites, groups, names, ALPN, resumption, certificates.

`python3 tests/interop/openssl/matrix.py [BROKER]` creates certificates with `tautwire cert`, starts brokers and runs all cases.
The last line is `N passed, M failed`; the exit status is 0 only if nothing failed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 30
# CONNECT of MQTT 3.1.1 and DISCONNECT, so that the broker closes; and the CONNACK in between.
CONVERSATION = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00\xe0\x00"
CONNACK = b"\x20\x02\x00\x00"

SUITES = {
    "-tls1_3": ("-ciphersuites", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]),
    "-tls1_2": ("-cipher", ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]),
}
# In TLS 1.2 the curve of the certificate must be among them.
GROUPS = {"-tls1_3": ["X25519", "P-256", "P-384"], "-tls1_2": ["X25519:P-256", "P-256", "P-384:P-256"]}


@dataclass
class Matrix:
    program: Path
    folder: Path
    passed: int = 0
    failures: list[str] = field(default_factory=list)

    def cert(self, folder: str, *options: str) -> None:
        command = [str(self.program), "cert", "--dir", self.file(folder), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)

    def file(self, name: str) -> str:
        return str(self.folder / name)

    @contextmanager
    def broker(self, folder: str, *settings: str) -> Iterator[str]:
        """Runs a broker with the certificate of a folder; yields its port."""
        own = [f"tls.certificate={self.file(folder)}/server.pem", f"tls.key={self.file(folder)}/server.key"]
        command = [str(self.program), "serve", "--memory", "--listen", "mqtts://127.0.0.1:0"]
        command += [f"--set={setting}" for setting in (*settings, *own)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"listening on mqtts://127\.0\.0\.1:(\d+)\s*", line)
            if found is None:
                raise SystemExit(f"{self.program} did not start: {line!r}")
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)

    def check(self, name: str, port: str, options: list[str], expected: str | None = None) -> None:
        """The client must be accepted, and its output contain this text; or, if it starts with `!`, must not be accepted."""
        refused = expected is not None and expected.startswith("!")
        text = (expected or "").removeprefix("!")
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-nocommands", "-ign_eof", "-verify_return_error",
                   "-CAfile", self.file("ours/ca.pem"), *options]
        try:
            done = subprocess.run(command, input=CONVERSATION, capture_output=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.failures.append(f"{name}: not finished within {TIMEOUT_S} s")
            return
        said = (done.stdout + done.stderr).decode(errors="replace")
        if (CONNACK in done.stdout) != refused and text in said:
            self.passed += 1
            print(f"ok {name}")
        else:
            self.failures.append(f"{name}: expected {'no CONNACK' if refused else 'CONNACK'} and {text!r}:\n{said}")


def main() -> int:
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "bin" / "tautwire"
    with tempfile.TemporaryDirectory(prefix="tautwire-openssl-") as folder:
        matrix = Matrix(program, Path(folder))
        what_is_spoken(matrix)
        names(matrix)
        clients(matrix)
        policies(matrix)
        together(matrix)
    for failure in matrix.failures:
        print(f"FAIL {failure}")
    print(f"{matrix.passed} passed, {len(matrix.failures)} failed")
    return 1 if matrix.failures or not matrix.passed else 0


def what_is_spoken(matrix: Matrix) -> None:
    matrix.cert("ours")
    with matrix.broker("ours") as port:
        for version, (option, suites) in SUITES.items():
            protocol = version.removeprefix("-tls").replace("_", ".")
            for suite in suites:
                matrix.check(f"version {protocol}, {suite}", port, [version, option, suite, "-brief"], f"Ciphersuite: {suite}")
            for group in GROUPS[version]:
                matrix.check(f"version {protocol}, group {group}", port, [version, "-groups", group, "-brief"],
                             f"TLSv{protocol}")
            kept = matrix.file(f"session{version}")
            matrix.check(f"version {protocol}, a new session", port, [version, "-sess_out", kept], "New, ")
            matrix.check(f"version {protocol}, resumed", port, [version, "-sess_in", kept], "Reused, ")
            matrix.check(f"version {protocol}, ALPN mqtt", port, [version, "-alpn", "mqtt"], "ALPN protocol: mqtt")
            matrix.check(f"version {protocol}, ALPN of several", port, [version, "-alpn", "h2,mqtt"], "ALPN protocol: mqtt")
            matrix.check(f"version {protocol}, ALPN h2", port, [version, "-alpn", "h2"], "!alert no application protocol")
        for version in ["-tls1_1", "-tls1"]:
            # These versions must be enabled explicitly in OpenSSL.
            matrix.check(f"version {version} is refused", port, [version, "-cipher", "ALL:@SECLEVEL=0"], "!alert")
        for name, cipher in [("key exchange by RSA", "AES128-GCM-SHA256"), ("CBC", "ECDHE-ECDSA-AES128-SHA")]:
            matrix.check(f"{name} is refused", port, ["-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0"], "!handshake failure")
        matrix.check("renegotiation is not offered", port, ["-tls1_2"], "Secure Renegotiation IS supported")
        matrix.check("compression is not offered", port, ["-tls1_2", "-comp"], "Compression: NONE")
    with matrix.broker("ours", "tls.minimum_version=1.3") as port:
        matrix.check("minimum version, 1.3", port, ["-tls1_3"], "TLSv1.3")
        matrix.check("minimum version, 1.2", port, ["-tls1_2"], "!alert protocol version")


def names(matrix: Matrix) -> None:
    matrix.cert("lan", "broker.lan")
    matrix.cert("public", "broker.example.org", "*.devices.example.org")
    first, second = matrix.file("lan/server"), matrix.file("public/server")
    two = [f'tls.certificate=["{first}.pem", "{second}.pem"]', f'tls.key=["{first}.key", "{second}.key"]']
    # The settings of the folder come last and would win, so this broker has a folder of its own.
    with several(matrix, two) as port:
        for folder, name in [("lan", "broker.lan"), ("public", "broker.example.org"), ("public", "a.devices.example.org")]:
            trust = ["-CAfile", matrix.file(f"{folder}/ca.pem")]
            matrix.check(f"name {name}", port, [*trust, "-servername", name, "-verify_hostname", name], "Verification: OK")
        trust = ["-CAfile", matrix.file("lan/ca.pem")]
        matrix.check("no name", port, [*trust, "-noservername", "-verify_hostname", "broker.lan"], "Verification: OK")
        matrix.check("another name", port, [*trust, "-servername", "x.example", "-verify_hostname", "x.example"],
                     "!hostname mismatch")
    with matrix.broker("ours") as port:
        matrix.check("by address", port, ["-verify_ip", "127.0.0.1"], "Verification: OK")
        matrix.check("an unknown authority", port, ["-CAfile", matrix.file("lan/ca.pem")],
                     "!unable to get local issuer certificate")
    matrix.cert("ours", "--revoke", matrix.file("ours/server.pem"))
    with matrix.broker("ours") as port:
        revoked = ["-crl_check", "-CRL", matrix.file("ours/revoked.pem")]
        matrix.check("a revoked certificate", port, revoked, "!certificate revoked")
    matrix.cert("ours", "--force", "--days", "-1")
    with matrix.broker("ours") as port:
        matrix.check("an expired certificate", port, [], "!certificate has expired")


@contextmanager
def several(matrix: Matrix, settings: list[str]) -> Iterator[str]:
    """Runs a broker with several certificates."""
    command = [str(matrix.program), "serve", "--memory", "--listen", "mqtts://127.0.0.1:0"]
    process = subprocess.Popen(command + [f"--set={setting}" for setting in settings], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rpartition(":")[2]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)


def clients(matrix: Matrix) -> None:
    matrix.cert("ours", "--force")
    matrix.cert("ours", "--client", "good", "--client", "revoked-one")
    matrix.cert("ours", "--client", "late", "--days", "-1")
    matrix.cert("ours", "--force", "--revoke", matrix.file("ours/revoked-one.pem"))
    matrix.cert("strange", "--client", "stranger")
    lists = [f"tls.client_ca={matrix.file('ours/ca.pem')}", f"tls.crl={matrix.file('ours/revoked.pem')}"]

    def shows(name: str) -> list[str]:
        return ["-cert", f"{matrix.file(name)}.pem", "-key", f"{matrix.file(name)}.key"]

    for mode in ["required", "optional"]:
        with matrix.broker("ours", f"tls.client_certificates={mode}", *lists) as port:
            for version in SUITES:
                case = f"clients {mode}, {version.removeprefix('-')}"
                matrix.check(f"{case}, good", port, [version, *shows("ours/good")])
                matrix.check(f"{case}, none", port, [version], "!alert" if mode == "required" else None)
                for name, alert in [("ours/revoked-one", "certificate revoked"), ("ours/late", "certificate expired"),
                                    ("strange/stranger", "unknown ca"), ("ours/server", "unsupported certificate")]:
                    matrix.check(f"{case}, {name}", port, [version, *shows(name)], f"!alert {alert}")


def policies(matrix: Matrix) -> None:
    """`tls.cipher_suites`: no other suite is accepted, and the broker's order decides."""
    names = {suite: f"TLS13_{suite.removeprefix('TLS_')}" for suite in SUITES["-tls1_3"][1]}
    # OpenSSL has its own names for TLS 1.2 suites.
    names |= {suite: "TLS_" + suite.replace("AES128", "AES_128").replace("AES256", "AES_256").replace("ECDSA-", "ECDSA_WITH_")
              .replace("-", "_") for suite in SUITES["-tls1_2"][1]}
    for suite in names:
        if suite.endswith("CHACHA20-POLY1305"):
            names[suite] += "_SHA256"
    for version, (option, suites) in SUITES.items():
        for first in suites:
            others = ":".join(suite for suite in suites if suite != first)
            case = f"policy {first} alone"
            with matrix.broker("ours", f"tls.cipher_suites={names[first]}") as port:
                matrix.check(case, port, [version, "-brief"], f"Ciphersuite: {first}")
                matrix.check(f"{case}, a client that has it last", port, [version, option, f"{others}:{first}", "-brief"],
                             f"Ciphersuite: {first}")
                matrix.check(f"{case}, a client without it", port, [version, option, others], "!handshake failure")
                other = next(other for other in SUITES if other != version)
                matrix.check(f"{case}, {other}", port, [other], "!alert")
        for first, second in permutations(suites, 2):
            with matrix.broker("ours", f'tls.cipher_suites=["{names[first]}", "{names[second]}"]') as port:
                matrix.check(f"policy {first} before {second}", port, [version, option, f"{second}:{first}", "-brief"],
                             f"Ciphersuite: {first}")


def together(matrix: Matrix) -> None:
    """All combinations of what a client may send."""
    authority = f"tls.client_ca={matrix.file('ours/ca.pem')}"
    shown = ["-cert", matrix.file("ours/good.pem"), "-key", matrix.file("ours/good.key")]
    for mode, settings in {"none": [], "optional": [authority], "required": [authority]}.items():
        with matrix.broker("ours", f"tls.client_certificates={mode}", *settings) as port:
            for version, certificate, name, alpn in product(SUITES, [shown, []], ["localhost", None], ["mqtt", None]):
                options = [version, *certificate, *(["-servername", name] if name else ["-noservername"])]
                options += ["-alpn", alpn] if alpn else []
                case = ", ".join([f"clients {mode}", version.removeprefix("-"), "shown" if certificate else "not shown",
                                  f"SNI {name}", f"ALPN {alpn}"])
                is_refused = mode == "required" and not certificate
                spoken = f"ALPN protocol: {alpn}" if alpn else "No ALPN negotiated"
                matrix.check(case, port, options, "!alert" if is_refused else spoken)


if __name__ == "__main__":
    sys.exit(main())
