"""Runs the commands of the documents, and checks their results.

`python tests/docs/run.py` checks every link and code block, and runs the pages that have blocks
with the mark `runs`. `--page tour` runs the pages whose names contain it. The marks are explained
in tools/docs/README.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/docs"))

import blocks  # noqa: E402
import links  # noqa: E402
from pages import Block, Page, all_pages  # noqa: E402
from session import Failure, Session, loopback_up  # noqa: E402

EXECUTABLE = ROOT / "bin/tautwire"
PAGE_TIMEOUT_S = 300
# Pages mostly wait, so several run at once.
AT_ONCE = 3
ISOLATED = ["unshare", "--map-user=1000", "--map-group=1000", "--keep-caps", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]


def main() -> int:
    options = _options()
    if options.inside:
        loopback_up()
        return _run_here(Page(options.inside))
    pages = [page for page in all_pages() if options.page in page.name]
    wrong = [] if options.only_run else [*links.broken(pages), *blocks.wrong(pages, EXECUTABLE)]
    for line in wrong:
        print(line)
    running = [page for page in pages if any(block.mark == "runs" for block in page.blocks)]
    ran = [] if options.only_check or not _can_isolate(running) else _run_all(running)
    print(f"documents: {len(pages)} pages, {len(wrong)} findings, {sum(ran)} of {len(running)} pages with commands run")
    return 1 if wrong or not all(ran) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Checks the documents, and runs their commands.")
    parser.add_argument("--page", default="", metavar="PART", help="only pages whose names contain this")
    parser.add_argument("--only-check", action="store_true", help="check links and blocks, without running pages")
    parser.add_argument("--only-run", action="store_true", help="run pages, without checking links and blocks")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _can_isolate(running: list[Page]) -> bool:
    if not running or subprocess.run([*ISOLATED, "true"], capture_output=True).returncode == 0:
        return True
    if os.environ.get("TAUTWIRE_REQUIRED"):
        raise SystemExit("documents: this system does not allow network namespaces (unshare)")
    print("documents: NOT RUN: this system does not allow network namespaces (unshare)")
    return False


def _run_all(pages: list[Page]) -> list[bool]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_run, pages))


def _run(page: Page) -> bool:
    began = time.monotonic()
    command = [*ISOLATED, sys.executable, "-B", __file__, "--inside", str(page.path)]
    try:
        done = subprocess.run(command, timeout=PAGE_TIMEOUT_S, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        print(f"{page.name}: FAILED, not finished after {PAGE_TIMEOUT_S} s", flush=True)
        return False
    verdict = f"{page.name}: {'FAILED' if done.returncode else 'runs'}, {time.monotonic() - began:.1f} s"
    print(f"{done.stdout}{done.stderr}{verdict}" if done.returncode else verdict, flush=True)
    return done.returncode == 0


def _run_here(page: Page) -> int:
    with tempfile.TemporaryDirectory(prefix="tautwire-docs-") as place:
        folder = Path(place) / "work"
        folder.mkdir()
        session = Session(folder, EXECUTABLE)
        try:
            for block in page.blocks:
                try:
                    _do(block, session, folder)
                except Failure as failure:
                    print(f"{page.name}:{block.line}: {failure}")
                    return 1
        finally:
            session.close()
    return 0


def _do(block: Block, session: Session, folder: Path) -> None:
    if block.mark == "runs":
        match block.argument:
            case "any exit":
                session.run(block.text, None)
            case "the last line in another terminal":
                session.run(f"{block.text.rstrip()} &\n", 0)
            case code:
                session.run(block.text, int(code.removeprefix("exit ") or 0))
    elif block.mark == "prints":
        session.prints(block.text)
    elif block.mark == "file":
        file = folder / block.argument
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)


if __name__ == "__main__":
    sys.exit(main())
