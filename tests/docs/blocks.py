"""Blocks of code that are not run: whether they are right as far as that can be told without running them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pages import ROOT, Block, Page

SHELL = {"sh", "console"}
# Pages of packages have examples that the tests of those packages run.
CHECKED = ("docs/", "examples/", "README.md", "SECURITY.md")
NAMES_OF_FILES = {
    "users": "users", "access.toml": "rules", "sensors.toml": "rules", "keys.json": "keys",
    "devices.pem": "certificate", "devices.key": "key", "lan.pem": "certificate", "lan.key": "key",
    "public.pem": "certificate", "public.key": "key", "server.pem": "certificate", "server.key": "key",
    "tls/server.pem": "certificate", "tls/server.key": "key", "tls/ca.pem": "authority", "ca.pem": "authority",
    "admin.token": "secret", "hub.token": "secret", "cloud.password": "secret",
    "site-7.pem": "certificate", "site-7.key": "key", "aws-root.pem": "authority",
}


def wrong(pages: list[Page], executable: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tautwire-docs-") as place:
        folder = Path(place)
        _furnish(folder, executable)
        for page in pages:
            if not page.name.startswith(CHECKED):
                continue
            for block in page.blocks:
                if block.mark == "file" and not _is_named(block, page):
                    yield f"{page.name}:{block.line}: the text before does not name the file {block.argument}"
                if block.mark == "unchecked":
                    if not block.argument:
                        yield f"{page.name}:{block.line}: an unchecked block says why"
                    continue
                for what in _wrong(block, folder, executable):
                    yield f"{page.name}:{block.line}: {what}"


def _is_named(block: Block, page: Page) -> bool:
    """People do not see the comment that names a file: the paragraph before the block must."""
    before = "\n".join(page.text.splitlines()[: block.line - 1])
    paragraph = re.sub(r"<!--.*?-->", "", before, flags=re.S).rstrip().rpartition("\n\n")[2]
    return any(block.argument.endswith(name) for name in re.findall(r"`([^`]+)`", paragraph))


def _wrong(block: Block, folder: Path, executable: Path) -> Iterator[str]:
    if block.language == "toml":
        yield from _toml(block.text, folder, executable)
    elif block.language in SHELL:
        yield from _shell(block, executable)
    elif block.language == "json":
        try:
            json.loads(block.text)
        except ValueError as error:
            yield f"not JSON: {error}"


def _toml(text: str, folder: Path, executable: Path) -> Iterator[str]:
    if text.lstrip().startswith(("{", "rules =")):
        text = f'[[role]]\nname = "example"\n{text}' if text.lstrip().startswith("rules") else f'[[role]]\nname = "example"\nrules = [\n{text}]\n'
    try:
        keys = tomllib.loads(text).keys()
    except tomllib.TOMLDecodeError as error:
        yield f"not TOML: {error}"
        return
    file = folder / "block.toml"
    file.write_text(text)
    if keys & {"role", "assign", "users"}:
        command = ["acl", "check", "--file", file.name]
    elif "contract" in keys:
        (folder / "example/contracts.toml").write_text(text)
        command = ["contract", "check", "--path", "example"]
    else:
        command = ["config", "check", "--config", file.name]
    done = subprocess.run([executable, *command], cwd=folder, capture_output=True, text=True)
    # A page may show a part of a configuration; what the rest must say is another page's.
    lines = [line for line in done.stderr.splitlines() if not line.endswith("[config_missing]")] if done.returncode else []
    if lines:
        yield f"tautwire {' '.join(command[:2])}: {' '.join(lines)}"


def _shell(block: Block, executable: Path) -> Iterator[str]:
    script = block.text
    if block.language == "console":
        script = "\n".join(line.removeprefix("$ ") for line in script.splitlines() if line.startswith("$ "))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    if done.returncode:
        yield f"not a script: {done.stderr.strip()}"
    for command in re.findall(r"(?:^|[|;&(]|\bsudo|\bdo)\s*(?:bin/)?tautwire ([^|;&\n]*(?:\\\n[^|;&\n]*)*)", script, re.M):
        yield from _command(re.sub(r"\s+#.*", "", command.replace("\\\n", " ")), executable)


def _command(line: str, executable: Path) -> Iterator[str]:
    """Whether there is such a command, and it has these options."""
    words = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", line).split()
    if not words or words[0].startswith("-"):
        return
    help_text = _help(executable, " ".join(words[:2])) or _help(executable, words[0])
    if not help_text:
        yield f"there is no command tautwire {words[0]}"
        return
    known = set(re.findall(r"(?<![\w-])--?[\w-]+", help_text))
    for word in words[1:]:
        option = word.split("=")[0]
        if not re.fullmatch(r"--?[a-zA-Z][\w-]*", option) or option == "--help":
            continue
        letters = [f"-{letter}" for letter in option[1:]] if not option.startswith("--") else []
        if option not in known and not (letters and all(letter in known for letter in letters)):
            yield f"tautwire {words[0]} has no option {option}"


@lru_cache
def _help(executable: Path, command: str) -> str:
    done = subprocess.run([executable, "help", *command.split()], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def _furnish(folder: Path, executable: Path) -> None:
    """The files that configurations name."""

    def run(*words: str) -> None:
        subprocess.run([executable, *words], cwd=folder, check=True, capture_output=True)

    run("cert", "--dir", "made", "localhost")
    (folder / "made/secret").write_text("a-password-and-a-token\n")
    run("user", "add", "alice", "--file", "made/users", "--password-file", "made/secret")
    (folder / "made/keys.json").write_text('{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}')
    (folder / "made/access.toml").write_text('[[role]]\nname = "all"\nrules = [{ allow = ["publish", "subscribe"], topics = "#" }]\n')
    sources = {"users": "users", "rules": "access.toml", "keys": "keys.json", "certificate": "server.pem", "key": "server.key", "authority": "ca.pem", "secret": "secret"}
    for name, kind in NAMES_OF_FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "made" / sources[kind], folder / name)
    shutil.copytree(ROOT / "examples/contracts", folder / "contracts")
    (folder / "example").mkdir()
    (folder / "example/reading.proto").write_text(
        'syntax = "proto3";\npackage acme;\nmessage Reading {\n  string device_id = 1;\n  double celsius = 2;\n}\n'
    )
    (folder / "example/reading.json").write_text('{"type": "object"}\n')
