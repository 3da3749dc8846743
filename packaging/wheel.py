"""The wheel and the source distribution for Python. Needs maturin, which `make python-venv` installs."""

from pathlib import Path

from common import ROOT, TARGET, run, time_s
from versions import PYTHON


def build(out: Path) -> None:
    maturin = TARGET / "python-venv/bin/maturin"
    command = [maturin, "build", "--release", "--locked", "--out", out]
    settings = {"CARGO_TARGET_DIR": str(TARGET / "apart"), "SOURCE_DATE_EPOCH": str(time_s())}
    run(*command, cwd=ROOT / PYTHON, **settings)
    run(maturin, "sdist", "--out", out, cwd=ROOT / PYTHON, **settings)
