"""Tests a broker with paho-mqtt, MQTT 3.1.1 and 5.0. See `--list` for the cases."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import both_versions  # noqa: E402
import v5_only  # noqa: E402
from kit.driver import main  # noqa: E402
from peer import V3, V5  # noqa: E402

CASES = {
    **{f"v3_{name}": partial(case, version=V3) for name, case in both_versions.CASES.items()},
    **{f"v5_{name}": partial(case, version=V5) for name, case in both_versions.CASES.items()},
    **{f"v5_{name}": case for name, case in v5_only.CASES.items()},
}

if __name__ == "__main__":
    sys.exit(main(CASES))
