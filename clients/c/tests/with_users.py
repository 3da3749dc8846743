"""Runs the SCRAM example with the broker, and with an impostor: `with_users.py BINARY PROGRAM`."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

LISTENING = re.compile(r"listening on mqtt://(\S+):(\d+)")
PATIENCE_S = 60
METHOD = b"\x15\x00\x0dSCRAM-SHA-256"


def run(program: str, port: int, user: str, hash_bits: str, password: str) -> tuple[int, str]:
    command = [program, "127.0.0.1", str(port), user, hash_bits]
    done = subprocess.run(command, env={**os.environ, "PASSWORD": password}, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout + done.stderr


def cases(binary: str, program: str, folder: Path) -> list[tuple[str, bool]]:
    users, secret = str(folder / "users"), folder / "secret"
    secret.write_text("pencil")
    for name in ("ann", "a=b,c"):
        subprocess.run([binary, "user", "add", "--file", users, "--password-file", str(secret), name], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    command = [binary, "serve", "--memory", "--listen", "127.0.0.1:0", "--set", f"auth.password_file={users}"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    results = []
    try:
        found = next(found for line in broker.stdout or [] if (found := LISTENING.search(line)))
        port = int(found[2])
        for bits in ("256", "512"):
            for user in ("ann", "a=b,c"):
                code, said = run(program, port, user, bits, "pencil")
                results.append((f"{user} {bits}: {code} {said}", code == 0 and "proved again, and come back" in said))
            code, said = run(program, port, "ann", bits, "rubber")
            results.append((f"another password {bits}: {code} {said}", code == 1 and "(0x86) [connection_refused]" in said))
    finally:
        broker.send_signal(signal.SIGINT)
        broker.wait(10)
    return results


def impostor(program: str) -> tuple[str, bool]:
    """A server that accepts every client, and knows no password."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE_S)

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            client.settimeout(PATIENCE_S)
            # Only the client's nonce of its CONNECT is needed.
            nonce = re.search(rb"n,,n=ann,r=([A-Za-z0-9+/]{24})", client.recv(4096))[1]
            for head, reason, data in (
                (b"\xf0", b"\x18", b"r=" + nonce + b"x,s=c2FsdA==,i=4096"),
                (b"\x20", b"\x00\x00", b"v=" + b"A" * 43 + b"="),
            ):
                properties = METHOD + b"\x16" + len(data).to_bytes(2, "big") + data
                body = reason + bytes([len(properties)]) + properties
                client.sendall(head + bytes([len(body)]) + body)
                if head == b"\xf0":
                    client.recv(4096)
            client.recv(4096)

    thread = threading.Thread(target=serve)
    thread.start()
    code, said = run(program, listener.getsockname()[1], "ann", "256", "pencil")
    thread.join(PATIENCE_S)
    listener.close()
    return f"an impostor: {code} {said}", code == 1 and "(0x87) [scram_server_signature]" in said


def main() -> int:
    binary, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        results = [*cases(binary, program, Path(folder)), impostor(program)]
    failed = [said for said, is_right in results if not is_right]
    print("\n".join(f"FAIL {said}" for said in failed) or f"scram with the broker: {len(results)} runs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
