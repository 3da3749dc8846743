"""The packages that the broker and the client packages consist of, from the lock files."""

import base64
import json
import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The contents of a binary depend on its target. The list and the SBOMs are for this one.
TARGET = "x86_64-unknown-linux-gnu"

# Licences of Go modules, which neither go.mod nor the module proxy contains: `"example.org/module": "MIT"`.
GO_LICENCES: dict[str, str] = {}

TREE_LINE = re.compile(r"^(\d+)(\S+) v(\S+?)(?: \(proc-macro\))?(?: \((?!\*).*\))?\|(.*?)\|(\S*?)(?: \(\*\))?$")


@dataclass
class Package:
    """One package of a registry, or one of ours."""

    name: str
    version: str
    # An SPDX expression.
    licence: str
    # Its identifier, as a package URL.
    purl: str
    is_ours: bool
    repository: str = ""
    # By the name of the algorithm, in hexadecimal digits.
    hashes: dict[str, str] = field(default_factory=dict)
    # Whether it is part of what we ship, or only needed for the build.
    is_shipped: bool = True


@dataclass
class Product:
    """Something that we ship, with all packages in it. The keys are those of `Package.purl`."""

    # The name of its SBOM, and of its column.
    name: str
    is_program: bool
    root: Package
    packages: dict[str, Package]
    # The dependencies of each package.
    needs: dict[str, set[str]]


class CannotRead(Exception):
    """The packages of a product cannot be determined."""


def products() -> list[Product]:
    """Returns everything that we ship."""
    return [
        with_dashboard(rust("tautwire", "tautwire-server", "--features=cluster", is_program=True)),
        rust("client-rust", "tautwire-client", "--all-features", is_program=False),
        rust("client-python", "tautwire-python", is_program=False, folder="clients/python"),
        *(npm(path) for path in sorted((ROOT / "clients/typescript/packages").iterdir()) if path.is_dir()),
        go(),
        c(),
    ]


def rust(name: str, crate: str, *options: str, is_program: bool, folder: str = ".") -> Product:
    """A crate of the workspace in `folder`, as cargo resolves it for this crate alone."""
    lines = cargo_tree(crate, "normal,build", options, folder)
    packages, needs = read_tree(lines, lock_checksums((ROOT / folder / "Cargo.lock").read_text()))
    shipped = read_tree(cargo_tree(crate, "normal,no-proc-macro", options, folder), {})[0]
    for purl, package in packages.items():
        package.is_shipped = purl in shipped
    root = next(iter(packages.values()))
    return Product(name, is_program, root, packages, needs)


def cargo_tree(crate: str, edges: str, options: tuple[str, ...], folder: str) -> list[str]:
    """Returns the lines of `cargo tree`. Packages that are missing on this machine may be downloaded by cargo."""
    command = ["cargo", "tree", "--locked", "--quiet", "-p", crate, "--edges", edges, "--target", TARGET]
    command += ["--prefix", "depth", "--format", "{p}|{l}|{r}", "--color", "never", *options]
    run = subprocess.run([*command, "--offline"], cwd=ROOT / folder, capture_output=True, text=True)
    if run.returncode != 0:
        run = subprocess.run(command, cwd=ROOT / folder, capture_output=True, text=True)
    if run.returncode != 0:
        raise CannotRead(f"cargo tree failed for {crate}: {run.stderr.strip()}")
    return run.stdout.splitlines()


def read_tree(lines: list[str], checksums: dict[tuple[str, str], str]) -> tuple[dict[str, Package], dict[str, set[str]]]:
    """Parses `cargo tree --prefix depth`: the packages, the root first, and the dependencies of each."""
    packages: dict[str, Package] = {}
    needs: dict[str, set[str]] = {}
    above: list[str] = []
    for line in lines:
        if not (found := TREE_LINE.match(line)):
            raise CannotRead(f"unexpected line of cargo tree: {line}")
        depth, name, version, licence, repository = found.groups()
        purl = f"pkg:cargo/{name}@{version}"
        checksum = checksums.get((name, version))
        hashes = {"SHA-256": checksum} if checksum else {}
        is_ours = name.startswith("tautwire-") and checksum is None
        packages.setdefault(purl, Package(name, version, spdx(licence), purl, is_ours, repository, hashes))
        needs.setdefault(purl, set())
        above = above[: int(depth)] + [purl]
        if len(above) > 1:
            needs[above[-2]].add(purl)
    return packages, needs


def lock_checksums(lock: str) -> dict[tuple[str, str], str]:
    """Returns the checksum of each package in Cargo.lock, by name and version."""
    packages = tomllib.loads(lock).get("package", [])
    return {(package["name"], package["version"]): package["checksum"] for package in packages if "checksum" in package}


def spdx(licence: str) -> str:
    """Older manifests use a slash where SPDX uses OR."""
    return re.sub(r"\s*/\s*", " OR ", licence)


def with_dashboard(product: Product) -> Product:
    """The broker contains the dashboard, whose packages are in the files of broker/dashboard/dist."""
    lock = json.loads((ROOT / "broker/dashboard/package-lock.json").read_text())["packages"]
    for name in lock[""]["dependencies"]:
        packages, needs = read_npm(lock, name)
        product.needs[product.root.purl].add(next(iter(packages)))
        product.packages |= packages
        product.needs |= needs
    return product


def npm(folder: Path) -> Product:
    """A package of the npm workspace, with its runtime dependencies."""
    lock = json.loads((ROOT / "clients/typescript/package-lock.json").read_text())["packages"]
    name = json.loads((folder / "package.json").read_text())["name"]
    packages, needs = read_npm(lock, name)
    root = next(iter(packages.values()))
    return Product(f"npm-{folder.name}", False, root, packages, needs)


def read_npm(lock: dict, root: str) -> tuple[dict[str, Package], dict[str, set[str]]]:
    """Returns the packages that `root` needs, itself first, from the table `packages` of a lock file."""
    packages: dict[str, Package] = {}
    needs: dict[str, set[str]] = {}

    def visit(place: str) -> str:
        entry = lock[place]
        entry = lock[entry["resolved"]] | {"is_ours": True} if entry.get("link") else entry
        name = entry.get("name") or place.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}"
        if purl in packages:
            return purl
        hashes = {}
        if (integrity := entry.get("integrity", "")).startswith("sha512-"):
            hashes["SHA-512"] = base64.b64decode(integrity.removeprefix("sha512-")).hex()
        licence = spdx(entry.get("license", ""))
        packages[purl] = Package(name, entry["version"], licence, purl, entry.get("is_ours", False), "", hashes)
        needs[purl] = set()
        for needed in [*entry.get("dependencies", {}), *entry.get("optionalDependencies", {})]:
            needs[purl].add(visit(npm_place(lock, place, needed)))
        return purl

    visit(f"node_modules/{root}")
    return packages, needs


def npm_place(lock: dict, place: str, needed: str) -> str:
    """Where Node.js finds `needed` from `place`: the nearest node_modules folder that contains it."""
    above = place
    while above:
        if (found := f"{above}/node_modules/{needed}") in lock:
            return found
        above = above.rpartition("/node_modules/")[0]
    if (found := f"node_modules/{needed}") in lock:
        return found
    raise CannotRead(f"package-lock.json: {place} needs {needed}, which is missing")


def go() -> Product:
    """The Go module, which has no version except its tag."""
    module = (ROOT / "clients/go/go.mod").read_text()
    return go_module(module, ours()["version"])


def go_module(text: str, version: str) -> Product:
    """Parses a go.mod: the module and its requirements."""
    name = re.search(r"(?m)^module (\S+)$", text)[1]
    root = Package(name, version, ours()["license"], f"pkg:golang/{name}@v{version}", True)
    packages = {root.purl: root}
    for needed, needed_version in re.findall(r"(?m)^(?:require)?\s+(\S+) v(\S+)", text):
        if needed not in GO_LICENCES:
            raise CannotRead(f"go.mod: unknown licence of {needed}; add it to tools/supply/packages.py")
        purl = f"pkg:golang/{needed}@v{needed_version}"
        packages[purl] = Package(needed, needed_version, GO_LICENCES[needed], purl, False)
    return Product("client-go", False, root, packages, {root.purl: set(packages) - {root.purl}})


def c() -> Product:
    """The C library needs only a compiler."""
    root = Package("tautwire-c", ours()["version"], ours()["license"], f"pkg:generic/tautwire-c@{ours()['version']}", True)
    return Product("client-c", False, root, {root.purl: root}, {root.purl: set()})


def ours() -> dict:
    """The properties that all packages of this repository share."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
