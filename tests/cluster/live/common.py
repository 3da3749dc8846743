"""What the tests of this folder share; it is imported first, since it says where the rest is found."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(_TESTS / "mqtt"), str(_TESTS.parent / "tools" / "cluster")]

PATIENCE_S = 30
# Streams reserve what they may grow to, wherever that is to come from.
JETSTREAM_MAX = "max_file: 100GB"
