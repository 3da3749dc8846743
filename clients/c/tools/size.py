"""Measures code and RAM on a Cortex-M0: `size.py TOOL_PREFIX BUILD_FOLDER`. Exits with 1 if a limit
is exceeded."""

import re
import subprocess
import sys
from pathlib import Path

CODE_BAR_BYTES = 12 * 1024
CLIENT_BAR_BYTES = 512
FLAGS = ["-std=c99", "-Os", "-mcpu=cortex-m0", "-mthumb", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
PROBE = '#include "tautwire.h"\nchar probe[sizeof(%s)];\n'


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sizes(prefix: str, obj: Path) -> tuple[int, int]:
    """Returns the bytes of code and constants, and of writable memory."""
    text, data, bss = run(f"{prefix}size", str(obj)).splitlines()[1].split()[:3]
    return int(text) + int(data), int(data) + int(bss)


def compiled(prefix: str, build: Path, *defines: str, source: str = "dist/tautwire.c") -> tuple[int, int]:
    obj = build / "size.o"
    run(f"{prefix}gcc", *FLAGS, *(f"-D{name}" for name in defines), "-Idist", "-c", source, "-o", str(obj))
    return sizes(prefix, obj)


def size_of(prefix: str, build: Path, what: str) -> int:
    source, obj = build / "probe.c", build / "probe.o"
    source.write_text(PROBE % what)
    run(f"{prefix}gcc", *FLAGS, "-Idist", "-c", str(source), "-o", str(obj))
    found = re.search(r"^\S+ (\S+) . probe$", run(f"{prefix}nm", "-S", str(obj)), re.M)
    return int(found[1], 16) if found else 0


def main() -> int:
    prefix, build = sys.argv[1], Path(sys.argv[2])
    core, globals_bytes = compiled(prefix, build, "TW_LINK=0", "TW_NAMES=0", "TW_REQUESTS=0", "TW_SUBSCRIPTIONS=0", "TW_STORE=0")
    keeping, _ = compiled(prefix, build, "TW_LINK=0", "TW_NAMES=0", "TW_REQUESTS=0", "TW_STORE=0")
    stored, _ = compiled(prefix, build, "TW_LINK=0", "TW_NAMES=0", "TW_REQUESTS=0")
    named, _ = compiled(prefix, build, "TW_LINK=0", "TW_REQUESTS=0")
    linked, _ = compiled(prefix, build, "TW_REQUESTS=0")
    whole, _ = compiled(prefix, build)
    told, _ = compiled(prefix, build, "TW_TEXTS=1")
    scram, _ = compiled(prefix, build, "TW_SCRAM=256")
    both, _ = compiled(prefix, build, "TW_SCRAM=512")
    log, _ = compiled(prefix, build, source="examples/flash_log.c")
    client = size_of(prefix, build, "tw_client")
    print(f"Cortex-M0, -Os: codec and client {core} bytes of code, at most {CODE_BAR_BYTES}")
    print(f"                subscriptions    {keeping - core} to store them (TW_SUBSCRIPTIONS=0 omits them)")
    print(f"                store            {stored - keeping} (TW_STORE=0 omits it); a flash log {log}")
    print(f"                names of errors  {named - stored} (TW_NAMES=0 omits them)")
    print(f"                texts of errors  {told - whole} (TW_TEXTS=1 includes them)")
    print(f"                link             {linked - named} (TW_LINK=0 omits it)")
    print(f"                requests         {whole - linked} (TW_REQUESTS=0 omits them)")
    print(f"                SCRAM-SHA-256    {scram - whole} (TW_SCRAM=256 includes it; with SHA-512 {both - whole}, TW_SCRAM=512)")
    print(f"                a client         {client} bytes of RAM plus its buffers, at most {CLIENT_BAR_BYTES}")
    print(f"                global variables {globals_bytes} bytes, at most 0")
    return 0 if core <= CODE_BAR_BYTES and client <= CLIENT_BAR_BYTES and globals_bytes == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
