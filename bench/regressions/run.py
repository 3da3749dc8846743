"""Counts the instructions of the hot paths and compares them with baseline.json.

`run.py` fails when a path has grown by more than 3 %; `run.py --write` makes the baseline of this machine's kind anew.
It also fails when a path takes more than 1 % more instructions in a program with the feature `cluster` than in one without.
Counts are exact: callgrind executes the program on a processor of its own. What decides them beside the source is the
compiler and the C library; where these are not the baseline's, the comparison says so and is wider.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BASELINE = HERE / "baseline.json"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "regressions"
COUNTS, CLUSTER_COUNTS = TARGET / "counts", TARGET / "counts-cluster"

GROWTH_MAX = 0.03
# The tolerance with a compiler or C library other than the baseline's.
GROWTH_MAX_ELSEWHERE = 0.25
# The maximum cost of the feature `cluster` for a broker without a cluster. Both are measured in the same run.
CLUSTER_GROWTH_MAX = 0.01
# Hashes have random seeds; the minimum of this many runs hardly depends on the seed.
RUNS = 3
# Allows one more instruction for a path of thirty.
GROWTH_MIN_INSTRUCTIONS = 1.0

RUST_FUNCTION = "tautwire_regressions::measured_operations"
C_FUNCTION = "measured_operations"
C_FLAGS = ["-std=c99", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
# The C library selects memcpy and similar functions by processor: here always the variant for all x86-64 processors.
PLAIN_PROCESSOR = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX_Fast_Unaligned_Load,-SSSE3,-ERMS,-FSRM"
CHOSEN_BY_PROCESSOR = re.compile(r"\b(__(?:mem|str)\w+_(?:sse|ssse|avx|evex|erms|sve|neon)\w*)")


@dataclass(frozen=True)
class Verdict:
    case: str
    measured: float
    expected: float | None
    margin: float

    @property
    def growth(self) -> float:
        return 0.0 if self.expected is None else self.measured / self.expected - 1

    @property
    def has_grown(self) -> bool:
        return self.expected is not None and self.measured - self.expected > self._allowed

    @property
    def has_shrunk(self) -> bool:
        return self.expected is not None and self.expected - self.measured > self._allowed

    @property
    def _allowed(self) -> float:
        # Counts have two decimals.
        return max(GROWTH_MIN_INSTRUCTIONS, self.margin * (self.expected or 0)) + 0.001


def main() -> int:
    parser = argparse.ArgumentParser(description="Instruction counts of the hot paths, compared with baseline.json.")
    parser.add_argument("--write", action="store_true", help="make what is measured the baseline")
    options = parser.parse_args()
    target = rust_target()
    TARGET.mkdir(parents=True, exist_ok=True)
    rust_program, cluster_program, c_program = build_rust(target), build_rust(target, "cluster"), build_c()
    rust_counts = least(lambda: count(rust_program, RUST_FUNCTION), RUNS)
    counts = rust_counts | count(c_program, C_FUNCTION)
    toolchain = describe_toolchain()
    baselines = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    if options.write:
        baselines[target] = {"toolchain": toolchain, "instructions_per_operation": counts}
        BASELINE.write_text(json.dumps(dict(sorted(baselines.items())), indent=1) + "\n")
        print(f"{len(counts)} counts written to {BASELINE.relative_to(ROOT)}")
        return 0
    if target in baselines:
        status = compare(baselines[target], counts, toolchain)
    else:
        print(f"no baseline for {target}, so nothing is compared with it; `make regressions-baseline` makes one")
        status = 0
    with_cluster = least(lambda: count(cluster_program, RUST_FUNCTION), RUNS)
    return max(status, compare_cluster(rust_counts, with_cluster))


def compare(baseline: dict, counts: dict[str, float], toolchain: dict) -> int:
    differences = [
        f"{name}: {toolchain[name]}, in the baseline {baseline['toolchain'].get(name)}"
        for name in toolchain
        if toolchain[name] != baseline["toolchain"].get(name)
    ]
    margin = GROWTH_MAX_ELSEWHERE if differences else GROWTH_MAX
    for difference in differences:
        print(f"differs: {difference}")
    if differences:
        print(f"therefore a path may grow by {margin:.0%} here, not {GROWTH_MAX:.0%}")
    expected = baseline["instructions_per_operation"]
    verdicts = judge(expected, counts, margin)
    for verdict in verdicts:
        print(line(verdict))
    grown = [verdict for verdict in verdicts if verdict.has_grown]
    unknown = [verdict.case for verdict in verdicts if verdict.expected is None]
    missing = sorted(set(expected) - set(counts))
    for case in missing:
        print(f"{case}: in the baseline, but not measured any more")
    for verdict in grown:
        explain(verdict, COUNTS)
    if any(verdict.has_shrunk for verdict in verdicts):
        print("\nfewer instructions: `make regressions-baseline` keeps it so")
    if grown or unknown or missing:
        print(f"\n{len(grown)} of {len(verdicts)} paths grew by more than {margin:.0%}, {len(unknown)} are new, {len(missing)} gone.")
        print("If that is wanted: `make regressions-baseline`, and commit bench/regressions/baseline.json with the reason.")
        return 1
    print(f"{len(verdicts)} paths, none grew by more than {margin:.0%}")
    return 0


def compare_cluster(without: dict[str, float], with_cluster: dict[str, float]) -> int:
    """Compares the counts with and without the feature `cluster`."""
    print("\nwith the feature `cluster`, and without:")
    verdicts = judge(without, with_cluster, CLUSTER_GROWTH_MAX)
    for verdict in verdicts:
        print(line(verdict))
    grown = [verdict for verdict in verdicts if verdict.has_grown]
    for verdict in grown:
        explain(verdict, CLUSTER_COUNTS)
    if grown:
        print(f"\n{len(grown)} of {len(verdicts)} paths take over {CLUSTER_GROWTH_MAX:.0%} more because the broker could be one of a cluster.")
        print(f"Compare {COUNTS} with {CLUSTER_COUNTS}: something is asked of a cluster, or a step has become a call.")
        return 1
    print(f"{len(verdicts)} paths, none takes over {CLUSTER_GROWTH_MAX:.0%} more because the broker could be one of a cluster")
    return 0


def explain(verdict: Verdict, folder: Path) -> None:
    path = profile_of(verdict.case, folder)
    print(f"\n{verdict.case} takes {verdict.growth:.1%} more instructions; callgrind_annotate {path}; most is spent in")
    for instructions, function in top_functions(path.read_text()):
        print(f"  {instructions:12,} {function}")


def profile_of(case: str, folder: Path) -> Path:
    return folder / f"{case.replace('/', '-')}.callgrind"


def judge(expected: dict[str, float], counts: dict[str, float], margin: float) -> list[Verdict]:
    return [Verdict(case, measured, expected.get(case), margin) for case, measured in counts.items()]


def line(verdict: Verdict) -> str:
    was = "new" if verdict.expected is None else f"{verdict.expected:10,.1f}"
    mark = "  GREW" if verdict.has_grown else "  fewer" if verdict.has_shrunk else ""
    return f"{verdict.case:44} {verdict.measured:10,.1f} {was:>10} {verdict.growth:+7.2%}{mark}"


def rust_target() -> str:
    return re.search(r"^host: (\S+)", output("rustc", "-vV"), re.M)[1]


def build_rust(target: str, feature: str = "") -> Path:
    environment = dict(os.environ)
    environment.pop("CARGO_ENCODED_RUSTFLAGS", None)
    # The features of this processor must not matter.
    environment["RUSTFLAGS"] = "-C target-cpu=x86-64" if target.startswith("x86_64") else ""
    environment["CARGO_TARGET_DIR"] = str(TARGET)
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(HERE / "Cargo.toml")]
    subprocess.run([*command, "--features", feature], env=environment, check=True)
    built = TARGET / "release" / "tautwire-regressions"
    # The next build may replace the program.
    return Path(shutil.copy(built, TARGET / "-".join(filter(None, [built.name, feature]))))


def build_c() -> Path:
    program = TARGET / "codec"
    library = ROOT / "clients" / "c" / "dist"
    flags = [*C_FLAGS, *(["-march=x86-64"] if os.uname().machine == "x86_64" else [])]
    sources = [str(HERE / "codec.c"), str(library / "tautwire.c")]
    subprocess.run([c_compiler(), *flags, f"-I{library}", *sources, "-o", str(program)], check=True)
    return program


def least(measure: Callable[[], dict[str, float]], runs: int) -> dict[str, float]:
    results = [measure() for _ in range(runs)]
    return {case: min(result[case] for result in results) for case in results[0]}


def count(program: Path, function: str) -> dict[str, float]:
    """Returns the instructions per operation of each case."""
    folder = CLUSTER_COUNTS if program.name.endswith("-cluster") else COUNTS
    folder.mkdir(exist_ok=True)
    out = TARGET / f"{program.name}.callgrind"
    for stale in TARGET.glob(f"{out.name}*"):
        stale.unlink()
    command = [
        "valgrind", "--quiet", "--tool=callgrind", f"--toggle-collect={function}", f"--dump-after={function}",
        f"--callgrind-out-file={out}", str(program),
    ]
    run = subprocess.run(command, env={**os.environ, "GLIBC_TUNABLES": PLAIN_PROCESSOR}, text=True, capture_output=True)
    if run.returncode != 0:
        sys.exit(f"{program.name} under valgrind ended with {run.returncode}: {run.stderr.strip()}")
    counts = {}
    for part, said in enumerate(run.stdout.splitlines(), 1):
        name, operations = said.split()
        profile = profile_of(name, folder)
        Path(f"{out}.{part}").replace(profile)
        total = re.search(r"^totals: (\d+)", profile.read_text(), re.M)
        counts[name] = round(int(total[1]) / int(operations), 2)
    return counts


def top_functions(profile: str, most: int = 6) -> list[tuple[int, str]]:
    """Returns the functions of a callgrind file by their own instructions (exclusive)."""
    names: dict[str, str] = {}
    own: dict[str, int] = {}
    current, is_call = "", False
    for text in profile.splitlines():
        if found := re.match(r"c?fn=\((\d+)\)(?: (.*))?", text):
            if found[2]:
                names[found[1]] = found[2]
            if text.startswith("fn="):
                current = found[1]
        elif text.startswith("calls="):
            # The next line has the cost of the callee.
            is_call = True
        elif found := re.match(r"[+*\-\d]\S* (\d+)$", text):
            if not is_call:
                own[current] = own.get(current, 0) + int(found[1])
            is_call = False
    ranked = sorted(((cost, names.get(function, function)) for function, cost in own.items()), reverse=True)
    return ranked[:most]


def describe_toolchain() -> dict[str, object]:
    """Returns everything besides the source that affects the counts."""
    return {
        "rustc": output("rustc", "--version"),
        "cc": output(c_compiler(), "--version").splitlines()[0],
        "libc": output("ldd", "--version").splitlines()[0],
        "valgrind": output("valgrind", "--version"),
        "chosen_by_processor": chosen_by_processor(),
    }


def chosen_by_processor() -> list[str]:
    """Returns measured functions of the C library that have variants for different processors."""
    found: set[str] = set()
    for profile in COUNTS.glob("*.callgrind"):
        found |= set(CHOSEN_BY_PROCESSOR.findall(profile.read_text()))
    return sorted(found)


def c_compiler() -> str:
    return os.environ.get("CC") or "cc"


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
