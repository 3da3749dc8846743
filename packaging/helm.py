"""The Helm chart, as `helm package` would build it, with the broker's version."""

from pathlib import Path

from common import ROOT, tracked, write_tar
from versions import CHART, read


def build(out: Path) -> None:
    version = read()["rust"]
    files = {path.relative_to(ROOT / CHART).as_posix(): path for path in tracked(CHART)}
    write_tar(out / f"tautwire-{version}.tgz", "tautwire", files)
