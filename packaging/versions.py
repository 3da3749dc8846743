"""The versions in versions.toml, and every file that repeats one."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common import ROOT

NPM = ["mqtt-codec", "msgpack", "mqtt-packet", "client"]
# The published crates, each after its dependencies.
CRATES = {
    "tautwire-protocol": "broker/protocol",
    "tautwire-memory": "broker/memory",
    "tautwire-message": "broker/message",
    "tautwire-session": "broker/session",
    "tautwire-client": "clients/rust",
}
GO = "clients/go"
C = "clients/c"
PYTHON = "clients/python"
CHART = "packaging/helm/tautwire"
# Package directories: each has a CHANGELOG.md and both licences. npm packages get the licences when they are packed.
FOLDERS = [*CRATES.values(), GO, C, PYTHON]
NPM_FOLDERS = [f"clients/typescript/packages/{name}" for name in NPM]
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
FIRST_HEADING = re.compile(r"^## (\S+)", re.M)


@dataclass(frozen=True)
class Place:
    """A file that repeats a version: each match of the only group of `pattern`."""

    path: str
    pattern: str
    version: str

    def wrong(self, root: Path) -> str | None:
        found = re.findall(self.pattern, (root / self.path).read_text())
        if not found:
            return f"{self.path}: no version where {self.pattern} looks for it"
        other = next((version for version in found if version != self.version), None)
        return f"{self.path}: {other}, and packaging/versions.toml has {self.version}; run `make versions`" if other else None

    def write(self, root: Path) -> None:
        def replaced(found: re.Match[str]) -> str:
            before, after = found.span(1)[0] - found.start(), found.span(1)[1] - found.start()
            return found[0][:before] + self.version + found[0][after:]

        path = root / self.path
        path.write_text(re.sub(self.pattern, replaced, path.read_text()))


def read(root: Path = ROOT) -> dict:
    return tomllib.loads((root / "packaging/versions.toml").read_text())


def places(versions: dict) -> Iterator[Place]:
    """All places except lock files, which npm and cargo write."""
    yield Place("Cargo.toml", r'\[workspace\.package\]\nversion = "(.*?)"', versions["rust"])
    for crate in CRATES:
        yield Place("Cargo.toml", rf'(?m)^{crate} = {{.* version = "(.*?)"', versions["rust"])
    for name, folder in zip(NPM, NPM_FOLDERS, strict=True):
        yield Place(f"{folder}/package.json", r'(?m)^  "version": "(.*?)"', versions["npm"][name])
    for name, needs in {"client": ["mqtt-codec", "msgpack"], "mqtt-packet": ["mqtt-codec"]}.items():
        for needed in needs:
            pattern = rf'"@tautwire/{needed}": "(.*?)"'
            yield Place(f"clients/typescript/packages/{name}/package.json", pattern, versions["npm"][needed])
    for part, number in zip(["MAJOR", "MINOR", "PATCH"], versions["c"].split("."), strict=True):
        yield Place(f"{C}/include/tautwire.h", rf"#define TW_VERSION_{part} (\d+)", number)
    yield Place(f"{C}/include/tautwire.h", r'#define TW_VERSION "(.*?)"', versions["c"])
    yield Place(f"{C}/idf_component.yml", r'(?m)^version: "(.*?)"', versions["c"])
    yield Place(f"{CHART}/Chart.yaml", r'(?m)^(?:version|appVersion): "(.*?)"', versions["rust"])
    yield Place("packaging/compose/compose.yaml", r"image: ghcr.io/tautwire/tautwire:(.*)", versions["rust"])
    for manifest in ["pyproject.toml", "Cargo.toml"]:
        yield Place(f"{PYTHON}/{manifest}", r'(?m)^version = "(.*?)"', versions["python"])


def findings(root: Path = ROOT) -> Iterator[str]:
    """Yields a line for each mismatch."""
    versions = read(root)
    yield from (wrong for place in places(versions) if (wrong := place.wrong(root)))
    yield from lock_findings(root, versions)
    for folder in [*FOLDERS, *NPM_FOLDERS]:
        yield from changelog_findings(root, folder, version_of(folder, versions))
    for folder in FOLDERS:
        for licence in LICENCES:
            copy = root / folder / licence
            if not copy.exists() or copy.read_text() != (root / licence).read_text():
                yield f"{folder}/{licence}: not the one at the top of the repository; copy it"


def lock_findings(root: Path, versions: dict) -> Iterator[str]:
    lock = json.loads((root / "clients/typescript/package-lock.json").read_text())["packages"]
    for name in NPM:
        if (other := lock[f"packages/{name}"]["version"]) != versions["npm"][name]:
            yield f"clients/typescript/package-lock.json: {name} {other}; run `npm install --package-lock-only`"
    for path, ours in {"Cargo.lock": CRATES, f"{PYTHON}/Cargo.lock": [*CRATES, "tautwire-python"]}.items():
        for package in tomllib.loads((root / path).read_text())["package"]:
            wanted = versions["python" if package["name"] == "tautwire-python" else "rust"]
            if package["name"] in ours and package["version"] != wanted:
                yield f"{path}: {package['name']} {package['version']}; run `cargo update --workspace`"


def changelog_findings(root: Path, folder: str, version: str) -> Iterator[str]:
    name = f"{folder}/CHANGELOG.md"
    text = (root / name).read_text() if (root / name).exists() else ""
    first = FIRST_HEADING.search(text)
    if not first or first[1] not in ("Unreleased", version):
        yield f"{name}: its first section is neither Unreleased nor {version}"


def unreleased(root: Path = ROOT) -> Iterator[str]:
    """Yields the changelogs that do not have the version yet."""
    for folder in [*FOLDERS, *NPM_FOLDERS]:
        first = FIRST_HEADING.search((root / folder / "CHANGELOG.md").read_text())
        if first and first[1] == "Unreleased":
            yield f"{folder}/CHANGELOG.md: name the version instead of Unreleased"


def version_of(folder: str, versions: dict) -> str:
    if folder in NPM_FOLDERS:
        return versions["npm"][Path(folder).name]
    return versions[{GO: "go", C: "c", PYTHON: "python"}.get(folder, "rust")]


def write(root: Path = ROOT) -> None:
    for place in places(read(root)):
        place.write(root)
