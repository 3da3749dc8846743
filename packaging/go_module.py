"""The Go module in the layout of a module proxy: a directory for GOPROXY.

The go command makes the zip itself, from a repository that has nothing but the module and its tag. So the rules of golang.org/x/mod/zip
are kept by the one who made them, and sums are those that a proxy would get.
"""

import json
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from common import ROOT, run, time_s, tracked
from versions import GO, read

HOME = "https://github.com/tautwire/tautwire"
MODULE = f"github.com/tautwire/tautwire/{GO}"


def build(out: Path) -> None:
    version = f"v{read()['go']}"
    with tempfile.TemporaryDirectory(prefix="tautwire-go-") as folder:
        repository, cache, empty = (Path(folder, name) for name in ["repository", "cache", "empty"])
        tag(repository, f"{GO}/{version}")
        empty.mkdir()
        redirect = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{repository}.insteadOf",
            "GIT_CONFIG_VALUE_0": HOME,
        }
        settings = {"GOPROXY": "direct", "GOSUMDB": "off", "GOFLAGS": "-modcacherw", "GOMODCACHE": str(cache)}
        run("go", "mod", "download", f"{MODULE}@{version}", cwd=empty, **redirect, **settings)
        served = cache / "cache/download" / MODULE / "@v"
        to = out / MODULE / "@v"
        to.mkdir(parents=True)
        for suffix in ["mod", "zip"]:
            shutil.copy(served / f"{version}.{suffix}", to)
    moment = datetime.fromtimestamp(time_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (to / f"{version}.info").write_text(json.dumps({"Version": version, "Time": moment}) + "\n")
    (to / "list").write_text(f"{version}\n")


def tag(repository: Path, name: str) -> None:
    """Creates a repository with the files of the module in their directory, and the tag."""
    for path in tracked(GO):
        to = repository / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    moment = f"{time_s()} +0000"
    who = {f"GIT_{role}_{part}": "tautwire" for role in ["AUTHOR", "COMMITTER"] for part in ["NAME", "EMAIL"]}
    when = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
    for command in [["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", name], ["tag", name]]:
        run("git", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false", *command, cwd=repository, **who, **when)
