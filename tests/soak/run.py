"""Repeatedly kills the broker under load, and checks its guarantees.

`python3 tests/soak/run.py` kills it 1,000 times for each number of threads; `--short` 25 times. The exit status is 0 only if
nothing was lost.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The packets as bytes, and connections in a loop; how a broker is started.
sys.path += [str(ROOT / "tests" / "mqtt"), str(ROOT / "tests" / "hostile")]

from broker import EXECUTABLE, LOGS, BrokerError  # noqa: E402
from judge import Broken  # noqa: E402
from world import World  # noqa: E402

KILLS, SHORT_KILLS = 1_000, 25
# The numbers of threads to test, one after the other.
THREADS = [1, 3]
CHECK_EVERY = 50


def main() -> int:
    options = _options()
    kept = [soak(options.broker, threads, options.kills, options.seed, options.data) for threads in options.threads]
    return 0 if all(kept) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Repeatedly kills the broker under load, and checks its guarantees.")
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N", help=f"kills for each number of threads (default: {KILLS})")
    parser.add_argument("--short", action="store_const", const=SHORT_KILLS, dest="kills", help=f"{SHORT_KILLS} kills for each number of threads")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), metavar="N",
                        help="seed of random choices; the scheduling of the machine is not reproduced")
    parser.add_argument("--threads", type=lambda text: [int(each) for each in text.split(",")], default=THREADS, metavar="N,…",
                        help=f"threads of the broker (default: {','.join(map(str, THREADS))})")
    parser.add_argument("--broker", type=Path, default=EXECUTABLE, metavar="FILE", help="broker to start (default: bin/tautwire)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="parent of the data directories (default: that for temporary files)")
    return parser.parse_args()


def soak(executable: Path, threads: int, kills: int, seed: int, parent: Path | None) -> bool:
    """Whether all guarantees held."""
    folder = Path(tempfile.mkdtemp(prefix="tautwire-soak-", dir=parent))
    began = time.monotonic()
    print(f"soak: {kills} kills, {threads} thread{'s' if threads > 1 else ''}, seed {seed}", flush=True)
    world = World(executable, folder / "data", threads, seed)
    try:
        world.settle_in()
        for kill in range(1, kills + 1):
            world.run_until_killed()
            if kill % CHECK_EVERY == 0 or kill == kills:
                world.check()
                print(f"  {kill} kills, {time.monotonic() - began:.0f} s: {_counted(world, ('acknowledgements', 'messages delivered'))}",
                      flush=True)
        world.end_in_order()
    except Exception as error:
        world.give_up()
        _tell(error)
        print(f"FAIL soak: life {world.life}, {threads} threads, seed {seed}; data in {folder}, logs in {LOGS}", flush=True)
        return False
    shutil.rmtree(folder)
    print(f"ok soak: {_counted(world, sorted(world.counts))}", flush=True)
    return True


def _counted(world: World, names: Iterable[str]) -> str:
    return ", ".join(f"{world.counts[name]:,} {name}" for name in names)


def _tell(error: Exception) -> None:
    if isinstance(error, (Broken, BrokerError)):
        print(f"LOST {error}", flush=True)
    else:
        traceback.print_exception(error)


if __name__ == "__main__":
    sys.exit(main())
