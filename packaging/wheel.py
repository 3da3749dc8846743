"""The wheel and the source distribution for Python. Needs maturin, which `make python-venv` installs."""

from pathlib import Path

from common import ROOT, TARGET, run, time_s
from versions import PYTHON


def build(out: Path) -> None:
    """The wheel is what `make python-venv` has compiled. Without SOURCE_DATE_EPOCH: it would have C code compiled again with each
    commit, and files in wheels have one time anyway."""
    maturin = TARGET / "python-venv/bin/maturin"
    compiled = {"CARGO_TARGET_DIR": str(TARGET / "apart")}
    run(maturin, "build", "--release", "--locked", "--out", out, cwd=ROOT / PYTHON, **compiled)
    run(maturin, "sdist", "--out", out, cwd=ROOT / PYTHON, SOURCE_DATE_EPOCH=str(time_s()))
