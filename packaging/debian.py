"""Packages for Debian and its derivatives, one for each architecture."""

import gzip
import hashlib
import shutil
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import binary
from common import ROOT, Failure, run, time_s
from versions import read

SOURCE = ROOT / "packaging/debian"
MAINTAINER = "Tautwire maintainers <tautwire@users.noreply.github.com>"
CONTROL = """\
Package: tautwire
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size_kib}
Depends: adduser
Section: net
Priority: optional
Homepage: https://github.com/tautwire/tautwire
Description: MQTT broker that persists what it acknowledges
 Tautwire is a broker for MQTT 3.1.1 and 5.0. Acknowledged messages, sessions
 and retained messages survive a power cut. It validates payloads against
 contracts (Protobuf, MessagePack, JSON), and limits its memory.
 .
 The same program publishes, subscribes, checks configurations and data
 directories, and queries a running broker.
"""
# Differences from the unit for a manual installation: the path of the binary, and a permanent user to which
# an administrator can give files.
UNIT_CHANGES = {
    "ExecStart=/usr/local/bin/tautwire": "ExecStart=/usr/bin/tautwire",
    "DynamicUser=yes": "User=tautwire\nGroup=tautwire",
}
# The directory in which each shell looks for completions.
COMPLETIONS = {
    "completions/bash/tautwire": "usr/share/bash-completion/completions/tautwire",
    "completions/zsh/_tautwire": "usr/share/zsh/vendor-completions/_tautwire",
    "completions/fish/tautwire.fish": "usr/share/fish/vendor_completions.d/tautwire.fish",
}


def build(out: Path) -> None:
    with binary.beside() as beside:
        for platform in binary.platforms():
            package(out, platform, f"{read()['rust']}-1", beside)


def package(out: Path, platform: binary.Platform, version: str, beside: dict[str, Path]) -> None:
    """Builds one .deb. Tests can choose the version."""
    with TemporaryDirectory(prefix="tautwire-deb-") as made:
        root = Path(made)
        fill(root, binary.built(platform), version, beside)
        control = root / "DEBIAN"
        control.mkdir()
        files = sorted(path for path in root.rglob("*") if path.is_file())
        sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files if "etc" not in path.parts]
        size_kib = sum(-(-path.stat().st_size // 1024) for path in files)
        texts = {
            "control": CONTROL.format(version=version, architecture=platform.architecture, maintainer=MAINTAINER, size_kib=size_kib),
            "conffiles": "/etc/tautwire/tautwire.toml\n",
            "md5sums": "".join(sums),
        }
        for name, text in texts.items():
            (control / name).write_text(text)
        for name in ["postinst", "prerm", "postrm"]:
            shutil.copy(SOURCE / name, control / name)
        settle(root, {"usr/bin/tautwire", "DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm"})
        path = out / f"tautwire_{version}_{platform.architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path, SOURCE_DATE_EPOCH=str(time_s()))


def fill(root: Path, program: Path, version: str, beside: dict[str, Path]) -> None:
    """Copies the files to their paths in the package."""
    copy(program, root / "usr/bin/tautwire")
    copy(SOURCE / "tautwire.toml", root / "etc/tautwire/tautwire.toml")
    copy(SOURCE / "lintian-overrides", root / "usr/share/lintian/overrides/tautwire")
    for name, path in COMPLETIONS.items():
        copy(beside[name], root / path)
    for name, path in beside.items():
        if name.startswith("man/"):
            pack(path.read_bytes(), root / f"usr/share/man/man{path.suffix[1:]}/{path.name}.gz")
    write(unit(), root / "usr/lib/systemd/system/tautwire.service")
    documents = root / "usr/share/doc/tautwire"
    write((SOURCE / "copyright").read_text(), documents / "copyright")
    pack(beside["CHANGELOG.md"].read_bytes(), documents / "changelog.gz")
    pack(changelog(version).encode(), documents / "changelog.Debian.gz")
    pack(beside["NOTICES.txt"].read_bytes(), documents / "NOTICES.txt.gz")
    copy(beside["README.md"], documents / "README.md")


def unit() -> str:
    text = (ROOT / "packaging/systemd/tautwire.service").read_text()
    for before, after in UNIT_CHANGES.items():
        if text.count(before) != 1:
            raise Failure(f"tautwire.service: {before} is not there once")
        text = text.replace(before, after)
    return text


def changelog(version: str) -> str:
    date = format_datetime(datetime.fromtimestamp(time_s(), UTC))
    return f"tautwire ({version}) unstable; urgency=medium\n\n  * Version {version}: see changelog.gz.\n\n -- {MAINTAINER}  {date}\n"


def copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)


def write(text: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text)


def pack(content: bytes, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(gzip.compress(content, 9, mtime=0))


def settle(root: Path, programs: set[str]) -> None:
    """Sets permissions that do not depend on the user that builds."""
    root.chmod(0o755)
    for path in root.rglob("*"):
        is_program = path.is_dir() or path.relative_to(root).as_posix() in programs
        path.chmod(0o755 if is_program else 0o644)
