"""The npm tarballs. Needs the build of clients/typescript."""

import json
from pathlib import Path

from common import ROOT, Failure, run
from versions import NPM, NPM_FOLDERS


def build(out: Path) -> None:
    for name, folder in zip(NPM, NPM_FOLDERS, strict=True):
        if name != "mqtt-packet" and not (ROOT / folder / "dist/cjs").exists():
            raise Failure(f"{folder} has not been built: `npm ci && npm run build` in clients/typescript")
        packed = json.loads(run("npm", "pack", "--json", "--pack-destination", out, cwd=ROOT / folder))
        for file in packed[0]["files"]:
            if "/test" in file["path"]:
                raise Failure(f"{folder}: {file['path']} would be published")
