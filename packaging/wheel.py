"""The wheel and the source distribution for Python. Needs maturin, which `make python-venv` installs."""

from pathlib import Path

from common import ROOT, TARGET, run, time_s
from versions import PYTHON


# 1980: the time of the files in wheels, and of the bill of materials in them. With the time of the commit, C code would be compiled
# again for each commit. `make python-venv` uses the same value.
WHEEL_TIME_S = 315_532_800


def build(out: Path) -> None:
    """Uses the wheel that `make python-venv` has compiled."""
    maturin = TARGET / "python-venv/bin/maturin"
    compiled = {"CARGO_TARGET_DIR": str(TARGET / "apart"), "SOURCE_DATE_EPOCH": str(WHEEL_TIME_S)}
    run(maturin, "build", "--release", "--locked", "--out", out, cwd=ROOT / PYTHON, **compiled)
    run(maturin, "sdist", "--out", out, cwd=ROOT / PYTHON, SOURCE_DATE_EPOCH=str(time_s()))
