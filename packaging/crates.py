"""Builds the .crate files, as cargo would upload them."""

import shutil
from pathlib import Path

from common import ROOT, TARGET, Failure, run
from versions import CRATES, read


def build(out: Path) -> None:
    command = ["cargo", "package", "--no-verify", "--locked", "--quiet", "--allow-dirty"]
    for crate in CRATES:
        command += ["-p", crate]
    try:
        run(*command, "--offline")
    except Failure:
        # If cargo has never fetched the index.
        run(*command)
    version = read(ROOT)["rust"]
    for crate in CRATES:
        shutil.copy(TARGET / "package" / f"{crate}-{version}.crate", out)
