"""Generated code, compiled with strict settings and run against the broker.

`python3 tests/generate/run.py [--only LANGUAGE]…` generates code for the contracts in `contracts/`, checks its formatting,
compiles it, compares the bytes that all languages write, publishes and subscribes with it, and validates the AsyncAPI document
with AsyncAPI's own parser. TAUTWIRE_BIN sets another broker than bin/tautwire, TAUTWIRE_CLIENTS another folder of clients than
clients, TAUTWIRE_PYTHON another Python than that of `make python-venv`, which has the Python client and mypy.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "generate"
# The code for the first folder is run. That for the second, with difficult names, is only compiled.
CONTRACTS = HERE / "contracts"
AWKWARD = HERE / "awkward"
BROKER = Path(os.environ.get("TAUTWIRE_BIN", ROOT / "bin" / "tautwire")).resolve()
CLIENTS = Path(os.environ.get("TAUTWIRE_CLIENTS", ROOT / "clients")).resolve()
# Not resolved: the target of a virtual environment's link is a Python without its packages.
PYTHON = Path(os.environ.get("TAUTWIRE_PYTHON", ROOT / "target" / "python-venv" / "bin" / "python")).absolute()

STRICT_C = ["-std=c99", "-Wpedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
# The defaults of rustfmt, whatever the repository configures.
RUSTFMT = ["--edition", "2024", "--config", "max_width=100,use_small_heuristics=Default"]
# Payloads are damaged in the same way each time.
SEED = 1
CHANGED_PAYLOADS = 400
TELLING_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF, 0xC0, 0xC1, 0xDF, ord('"'), ord("\\"), ord("0"), ord("}"), ord(","), ord(" "))
# Durations, which Go has up to 292 years; nanoseconds of more than a second, which Go adds to the seconds; nested lists, which
# C does not decode.
DIFFERENT_BY_DESIGN = [
    bytes.fromhex("82021608ffffffffffffffffff011080b6ca91feffffffff01"),
    b"-1.500s",
    bytes.fromhex("0880e2cfaa0610959aef3a"),
    bytes.fromhex("08ff82d1ffaf0710ff93ebdc03"),
    b"[[1,2.5],[3]]",
    bytes.fromhex("929201cb40040000000000009103"),
]
SHOWN_MAX = 5
SHOWN_CHARACTERS = 4000
TIMEOUT_S = 300
DRIVER_TIMEOUT_S = 60


class Failure(Exception):
    """A failed step, with the output of the program."""


def call(
    *command: str | Path, cwd: Path | None = None, timeout_s: float = TIMEOUT_S, given: str | None = None, **more: str
) -> str:
    """Runs a program with `given` as its input, and returns its output; `more` is added to the environment."""
    shown = " ".join(str(part) for part in command)
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | more,
            timeout=timeout_s,
            text=True,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except FileNotFoundError as error:
        raise Failure(f"{command[0]}: not found; install it") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{shown}: not finished after {timeout_s} s") from error
    if done.returncode != 0:
        raise Failure(f"{shown}:\n{done.stdout.strip()}")
    return done.stdout


def generate(language: str, out: Path, *options: str, contracts: Path = CONTRACTS) -> None:
    """Generates code, and checks that a second run changes nothing."""
    command = [str(BROKER), "generate", "--lang", language, "--out", str(out), "--path", str(contracts), *options]
    call(*command)
    call(*command, "--check")


def copy_sources(language: str, to: Path) -> None:
    """Copies only changed files, so that compilers can reuse the rest."""
    to.mkdir(parents=True, exist_ok=True)
    for source in (HERE / language).iterdir():
        target = to / source.name
        if source.is_file() and not (target.exists() and filecmp.cmp(source, target, shallow=False)):
            shutil.copyfile(source, target)


def write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def prepare_typescript() -> list[str]:
    folder, packages = WORK / "typescript", CLIENTS / "typescript"
    if CLIENTS == ROOT / "clients":
        call("make", "--no-print-directory", "--silent", "typescript", cwd=ROOT)
    copy_sources("typescript", folder)
    generate("typescript", folder / "contracts")
    generate("typescript", folder / "awkward", contracts=AWKWARD)
    write(folder / "package.json", '{ "type": "module" }\n')
    modules = folder / "node_modules"
    (modules / "@tautwire").mkdir(parents=True, exist_ok=True)
    for name, target in [
        ("@tautwire/client", packages / "packages" / "client"),
        ("@types", packages / "node_modules" / "@types"),
    ]:
        link = modules / name
        if link.is_symlink():
            link.unlink()
        link.symlink_to(target)
    call("node", packages / "node_modules" / "typescript" / "bin" / "tsc", "-p", ".", cwd=folder)
    return ["node", str(folder / "dist" / "driver.js")]


def prepare_go() -> list[str]:
    folder = WORK / "go"
    copy_sources("go", folder)
    generate("go", folder / "contracts")
    generate("go", folder / "awkward", "--package", "awkward", contracts=AWKWARD)
    client = "github.com/tautwire/tautwire/clients/go"
    write(
        folder / "go.mod",
        f"module tautwire.invalid/generated\n\ngo 1.24\n\nrequire {client} v0.0.0\n\nreplace {client} => {CLIENTS / 'go'}\n",
    )
    if unformatted := call("gofmt", "-l", ".", cwd=folder).strip():
        raise Failure(f"gofmt would change {unformatted}")
    call("go", "vet", "./...", cwd=folder)
    # The identifiers in comments must exist: the compiler does not check them.
    comments = "".join(re.findall(r"(?m)//.*$", "".join(path.read_text() for path in (folder / "contracts").glob("*.go"))))
    for package, name in sorted(set(re.findall(r"\b(client|packets)\.([A-Z][\w.]*\w)", comments))):
        call("go", "doc", "-short", f"{client}/{package}", name, cwd=folder)
    call("go", "build", "-o", "driver", ".", cwd=folder)
    return [str(folder / "driver")]


def prepare_rust() -> list[str]:
    folder = WORK / "rust"
    copy_sources("rust", folder / "src")
    generate("rust", folder / "src" / "contracts")
    generate("rust", folder / "src" / "blocking_contracts", "--blocking")
    generate("rust", folder / "src" / "awkward", contracts=AWKWARD)
    write(folder / "Cargo.toml", (HERE / "rust" / "manifest.toml").read_text().replace("{clients}", str(CLIENTS)))
    write(folder / "Cargo.lock", (HERE / "rust" / "Cargo.lock").read_text())
    modules = [folder / "src" / module / "mod.rs" for module in ("contracts", "blocking_contracts", "awkward")]
    call("rustfmt", "--check", *RUSTFMT, *modules)
    target = {"CARGO_TARGET_DIR": str(WORK / "cargo")}
    call("cargo", "clippy", "--quiet", "--locked", "--", "-D", "warnings", cwd=folder, **target)
    call("cargo", "build", "--quiet", "--locked", cwd=folder, **target)
    return [str(WORK / "cargo" / "debug" / "driver")]


def prepare_c() -> list[str]:
    folder = WORK / "c"
    folder.mkdir(parents=True, exist_ok=True)
    client, contracts, awkward = folder / "client", folder / "contracts", folder / "awkward"
    generate("c", contracts)
    generate("c", awkward, "--package", "awkward", contracts=AWKWARD)
    call(sys.executable, "-B", CLIENTS / "c" / "tools" / "amalgamate.py", client)
    include = ["-I", str(client), "-I", str(contracts)]
    sources = sorted(contracts.glob("*.c"))
    compilers = [found for found in ("gcc", "clang") if shutil.which(found)]
    for compiler in compilers:
        others = [awkward / "awkward.c"] if compiler == compilers[0] else [*sources, awkward / "awkward.c"]
        call(compiler, *STRICT_C, "-fsyntax-only", *include, "-I", awkward, *others)
    if shutil.which("g++"):
        headers = [contracts / "contracts.h", awkward / "awkward.h"]
        call("g++", "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *include, *headers)
    compiler = compilers[0] if compilers else "cc"
    call(compiler, *STRICT_C, *SANITIZERS, *include, "-c", *sources, cwd=folder)
    objects = [source.with_suffix(".o").name for source in sources]
    driver = [HERE / "c" / "driver.c", *objects, client / "tautwire.c"]
    call(compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", *SANITIZERS, *include, *driver, "-o", "driver", cwd=folder)
    return [str(folder / "driver")]


def prepare_python() -> list[str]:
    folder = WORK / "python"
    copy_sources("python", folder)
    generate("python", folder / "contracts")
    generate("python", folder / "blocking_contracts", "--blocking")
    generate("python", folder / "awkward", contracts=AWKWARD)
    generate("python", folder / "blocking_awkward", "--blocking", contracts=AWKWARD)
    if not PYTHON.exists():
        raise Failure(f"{PYTHON}: not found; run `make python-venv`")
    call(PYTHON, "-B", "-W", "error", "-c", "import awkward, blocking_awkward, blocking_contracts, contracts", cwd=folder)
    call(PYTHON, "-m", "mypy", "--strict", "--cache-dir", WORK / "mypy", ".", cwd=folder)
    return [str(PYTHON), "-B", str(folder / "driver.py")]


LANGUAGES: dict[str, Callable[[], list[str]]] = {
    "c": prepare_c,
    "go": prepare_go,
    "python": prepare_python,
    "rust": prepare_rust,
    "typescript": prepare_typescript,
}


def encodings(driver: list[str]) -> dict[str, str]:
    """Returns the bytes that a driver writes, by the names of the values."""
    lines = call(*driver, "encode", timeout_s=DRIVER_TIMEOUT_S).splitlines()
    return {name: digits for name, _, digits in (line.partition(" ") for line in lines)}


def differences(found: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yields values that two languages encode differently."""
    (first, expected), *others = found.items()
    for language, written in others:
        for name in sorted(expected | written):
            if expected.get(name) != written.get(name):
                yield f"{name}: {first} writes {expected.get(name)}, {language} {written.get(name)}"


def damaged(written: dict[str, str]) -> list[str]:
    """Returns lines for the drivers: payloads with changed bytes, truncated, doubled, and some with deep nesting."""
    generator = random.Random(SEED)
    lines = []
    for name, digits in written.items():
        if name.endswith("-empty"):
            continue
        whole = bytes.fromhex(digits)
        places = [place for place in range(len(whole)) if not any(place in window for window in kept(whole))]
        payloads = [whole, whole + whole, b"", *(whole[:length] for length in range(len(whole)))]
        for _ in range(CHANGED_PAYLOADS):
            changed = bytearray(whole)
            for _ in range(generator.randint(1, 3)):
                changed[generator.choice(places)] = generator.choice(TELLING_BYTES + (generator.randrange(256),))
            payloads.append(bytes(changed))
        lines += [f"{name} {payload.hex()}" for payload in payloads]
    for depth in (50, 90, 150):
        part = b""
        for _ in range(depth):
            part = b"\x1a" + varint(len(part)) + part
        for name, payload in [
            ("everything", b"\xa2\x01" + varint(len(part)) + part),
            ("lamp", b'{"grid":' + b"[" * depth + b"]" * depth + b"}"),
            ("mapped-pack", b"\x81\xa1x" + b"\x91" * depth + b"\x90"),
        ]:
            lines.append(f"{name} {payload.hex()}")
    return lines


def kept(payload: bytes) -> list[range]:
    """Returns the parts of a payload that are not damaged, because languages may differ there by design."""
    found = []
    for part in DIFFERENT_BY_DESIGN:
        if (start := payload.find(part)) >= 0:
            found.append(range(start, start + len(part)))
    return found


def varint(value: int) -> bytes:
    """Encodes a length like Protocol Buffers."""
    more = b""
    while value > 0x7F:
        more += bytes([value & 0x7F | 0x80])
        value >>= 7
    return more + bytes([value])


def check_same_verdicts(drivers: dict[str, list[str]], written: dict[str, str]) -> None:
    """Checks that all languages accept and refuse the same payloads."""
    lines = damaged(written)
    verdicts = {
        language: call(*driver, "decode", given="\n".join(lines) + "\n", timeout_s=DRIVER_TIMEOUT_S).splitlines()
        for language, driver in drivers.items()
    }
    found = []
    for number, line in enumerate(lines):
        each = {language: rows[number] for language, rows in verdicts.items()}
        refusing = [language for language, verdict in each.items() if verdict == "error"]
        if refusing and len(refusing) < len(each):
            found.append(f"{line}: refused by {', '.join(refusing)} alone")
        # These two sort the entries of maps; the others keep their order.
        elif "go" in each and "rust" in each and each["go"] != each["rust"]:
            found.append(f"{line}: go reads {each['go']}, rust {each['rust']}")
    if found:
        raise Failure(f"{len(found)} of {len(lines)} payloads\n" + "\n".join(text[:SHOWN_CHARACTERS] for text in found[:SHOWN_MAX]))


@contextlib.contextmanager
def broker() -> Iterator[tuple[str, str]]:
    """Runs a broker with the contracts; yields its host and port."""
    command = [BROKER, "serve", "--memory", "--listen", "127.0.0.1:0", "--set", f"contracts.path={CONTRACTS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith("listening on mqtt://"):
                process.kill()
                raise Failure(f"the broker did not start: {process.communicate()[1]}")
            host, _, port = line.removeprefix("listening on mqtt://").strip().rpartition(":")
            yield host, port
        finally:
            process.terminate()
            process.communicate()


def check_asyncapi() -> None:
    """AsyncAPI's parser, at the version of its lock file, must accept the document."""
    folder = WORK / "asyncapi"
    copy_sources("asyncapi", folder)
    installed = folder / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (folder / "package-lock.json").stat().st_mtime:
        call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
    document = folder / "asyncapi.json"
    call(BROKER, "generate", "--asyncapi", "--out", document, "--path", CONTRACTS)
    call(BROKER, "generate", "--asyncapi", "--out", document, "--path", CONTRACTS, "--check")
    call("node", "validate.mjs", document, cwd=folder)


def check_foreign_files_are_kept() -> None:
    """Files that were not generated must not be overwritten."""
    folder = WORK / "foreign"
    folder.mkdir(parents=True, exist_ok=True)
    mine = folder / "index.ts"
    mine.write_text("export {};\n")
    try:
        generate("typescript", folder)
    except Failure as failure:
        is_alone = mine.read_text() == "export {};\n" and len(list(folder.iterdir())) == 1
        if is_alone and "was not generated" in str(failure):
            return
    raise Failure("a file that was not generated has been replaced, or others have been written beside it")


class Report:
    """Prints a line for each step, and records failures."""

    def __init__(self) -> None:
        self.has_failed = False

    def step(self, name: str, run: Callable[[], object]) -> object:
        start = time.monotonic()
        try:
            result = run()
        except Failure as failure:
            self.has_failed = True
            print(f"FAIL {name}: {failure}", flush=True)
            return None
        print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        return result


def check_same(found: dict[str, dict[str, str]]) -> None:
    if lines := list(differences(found)):
        raise Failure("\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(LANGUAGES), help="only this language; may be repeated")
    languages = parser.parse_args().only or sorted(LANGUAGES)
    WORK.mkdir(parents=True, exist_ok=True)
    report = Report()
    drivers: dict[str, list[str]] = {}
    for language in languages:
        driver = report.step(f"{language}: generated, formatted, compiled", LANGUAGES[language])
        if isinstance(driver, list):
            drivers[language] = driver
    found = {language: report.step(f"{language}: writes and reads", lambda d=driver: encodings(d)) for language, driver in drivers.items()}
    written = {language: values for language, values in found.items() if isinstance(values, dict)}
    if len(written) > 1:
        report.step(f"{', '.join(written)}: the same bytes", lambda: check_same(written))
        report.step(
            f"{', '.join(written)}: the same of damaged bytes",
            lambda: check_same_verdicts(drivers, next(iter(written.values()))),
        )
    if drivers:
        with broker() as (host, port):
            for language, driver in drivers.items():
                run = [*driver, "run", host, port]
                report.step(f"{language}: publishes and subscribes", lambda r=run: call(*r, timeout_s=DRIVER_TIMEOUT_S))
    report.step("AsyncAPI: valid", check_asyncapi)
    report.step("files of others are kept", check_foreign_files_are_kept)
    return 1 if report.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
