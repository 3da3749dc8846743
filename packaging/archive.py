"""Archives with the broker's binary, one for each platform."""

import shutil
from pathlib import Path

import binary
from common import write_tar
from versions import read


def build(out: Path) -> None:
    version = read()["rust"]
    with binary.beside() as beside:
        for platform in binary.platforms():
            top = f"tautwire-{version}-{platform.machine}-linux"
            write_tar(out / f"{top}.tar.gz", top, beside | {"tautwire": binary.built(platform)})
    shutil.copyfile(binary.SBOMS / "tautwire.cdx.json", out / f"tautwire-{version}.cdx.json")
