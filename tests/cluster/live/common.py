"""What the tests of this folder share; it is imported first, because it sets the import path."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(_TESTS / "mqtt"), str(_TESTS.parent / "tools" / "cluster")]

PATIENCE_S = 30
# Streams reserve their maximum size, whether the disk has it or not.
JETSTREAM_MAX = "max_file: 100GB"
