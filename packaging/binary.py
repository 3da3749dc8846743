"""The broker's binary: one static file for each platform, and the files distributed with it."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from common import ROOT, TARGET, Failure, run, time_s
from versions import LICENCES

SBOMS = ROOT / "target/sbom"


@dataclass(frozen=True)
class Platform:
    """A platform, with its names in the Rust, kernel, Debian and OCI conventions."""

    # As reported by the kernel.
    machine: str
    # The names in Debian, and in OCI.
    architecture: str

    @property
    def triple(self) -> str:
        return f"{self.machine}-unknown-linux-gnu"

    @property
    def is_host(self) -> bool:
        return sys.platform == "linux" and platform.machine() == self.machine


ALL = (Platform("x86_64", "amd64"), Platform("aarch64", "arm64"))


def platforms() -> list[Platform]:
    """The platforms to build for: all, or with TAUTWIRE_PLATFORMS=host only this machine's."""
    only_host = os.environ.get("TAUTWIRE_PLATFORMS") == "host"
    return [each for each in ALL if each.is_host or not only_host]


def host() -> Platform:
    found = [each for each in ALL if each.is_host]
    if not found:
        raise Failure(f"the broker's packages are built on Linux on {' or '.join(each.machine for each in ALL)}")
    return found[0]


@cache
def built(target: Platform) -> Path:
    """Builds the binary as `make build` does; for another platform, with Debian's libraries for it."""
    packed = " -C link-arg=-Wl,-z,pack-relative-relocs" if target.triple.startswith("x86_64") else ""
    environment = {"RUSTFLAGS": "-C target-feature=+crt-static" + packed}
    if not target.is_host:
        need_libraries(target)
        if target.triple not in run("rustup", "target", "list", "--installed").split():
            run("rustup", "target", "add", target.triple)
        # Not gcc: Debian's cross compilers conflict with gcc-multilib, which the tests of the C library need.
        environment["RUSTFLAGS"] += f" -C linker=clang -C link-arg=--target={target.machine}-linux-gnu"
        environment[f"CC_{target.triple.replace('-', '_')}"] = "clang"
    # `make build` sets neither, and tests on this machine use its output.
    if os.environ.get("TAUTWIRE_PLATFORMS") != "host":
        environment["TAUTWIRE_COMMIT"] = run("git", "rev-parse", "--short=12", "HEAD").strip()
        environment["TAUTWIRE_RUSTC"] = run("rustc", "--version").split()[1]
    command = ["cargo", "build", "--release", "--locked", "--target", target.triple, "-p", "tautwire-server"]
    run(*command, **environment)
    return TARGET / target.triple / "release/tautwire"


def need_libraries(target: Platform) -> None:
    """The sysroot libraries with which clang links for another platform."""
    folder = Path(f"/usr/{target.machine}-linux-gnu/lib")
    if shutil.which("clang") is None or not (folder / "libc.a").exists():
        machine, architecture = target.machine.replace("_", "-"), target.architecture
        packages = f"clang libc6-dev-{architecture}-cross libgcc-12-dev-{architecture}-cross binutils-{machine}-linux-gnu"
        raise Failure(f"{folder}: nothing to link with (Debian: sudo apt-get install {packages})")


@contextmanager
def beside() -> Iterator[dict[str, Path]]:
    """The files distributed with a binary, by name in an archive. The binary of this machine prints the completions and manual pages."""
    run(sys.executable, "-B", "tools/supply", "sbom", SOURCE_DATE_EPOCH=str(time_s()))
    files = {name: ROOT / name for name in [*LICENCES, "README.md", "CHANGELOG.md"]}
    files |= {"NOTICES.txt": SBOMS / "notices.txt", "tautwire.cdx.json": SBOMS / "tautwire.cdx.json"}
    files["tautwire.service"] = ROOT / "packaging/systemd/tautwire.service"
    files |= {f"monitoring/{name}": ROOT / "packaging/monitoring" / name for name in ["alerts.yml", "grafana.json"]}
    program = built(host())
    with TemporaryDirectory(prefix="tautwire-beside-") as made:
        for shell, name in [("bash", "tautwire"), ("zsh", "_tautwire"), ("fish", "tautwire.fish")]:
            path = Path(made) / f"completions/{shell}/{name}"
            path.parent.mkdir(parents=True)
            path.write_text(run(program, "completion", shell))
        (Path(made) / "man").mkdir()
        run(program, "man", Path(made) / "man")
        yield files | {path.relative_to(made).as_posix(): path for path in sorted(Path(made).rglob("*")) if path.is_file()}
