"""A Homebrew formula that installs the archives of dist/archive. The broker needs Linux."""

from pathlib import Path

import binary
from common import DIST, ROOT, Failure, sha256
from versions import read

# The checksum of an archive that was not built: TAUTWIRE_PLATFORMS=host omits some.
NOT_BUILT = "0" * 64


def build(out: Path) -> None:
    version = read()["rust"]
    values = {"VERSION": version}
    for platform in binary.ALL:
        path = DIST / f"archive/tautwire-{version}-{platform.machine}-linux.tar.gz"
        values[f"SHA256_{platform.machine}"] = sha256(path) if path.exists() else NOT_BUILT
    if set(values.values()) == {version, NOT_BUILT}:
        raise Failure("no archives in dist/archive: build archive first")
    text = (ROOT / "packaging/homebrew/tautwire.rb").read_text()
    for name, value in values.items():
        if f"@{name}@" not in text:
            raise Failure(f"packaging/homebrew/tautwire.rb: @{name}@ is not there")
        text = text.replace(f"@{name}@", value)
    (out / "tautwire.rb").write_text(text)
