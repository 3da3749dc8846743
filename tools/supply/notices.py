"""The licence texts of the contents of a binary or a wheel, which are distributed with it."""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

from licences import of_others
from packages import ROOT, TARGET, CannotRead, Package, Product

# The packages of the dashboard, written with its files: building the broker does not need them installed.
DASHBOARD = ROOT / "broker/dashboard/dist/licences.txt"
TEXT_NAME = re.compile(r"^(licen[cs]e|copying|notice|unlicen[cs]e|copyright)", re.IGNORECASE)


def write(product: Product, path: Path, workspace: str = ".") -> list[str]:
    """Writes the licence texts, each once. Returns the names of packages without one."""
    folders = source_folders(workspace)
    users: dict[str, list[str]] = defaultdict(list)
    without = []
    for package in of_others(product):
        found = dashboard_texts(package) if package.purl.startswith("pkg:npm/") else texts(folders[(package.name, package.version)])
        for text in found:
            users[text].append(f"{package.name} {package.version} ({package.licence})")
        if not found:
            without.append(f"{package.name} {package.version}")
    blocks = (f"{', '.join(sorted(those))}\n\n{text}\n" for text, those in users.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"\n{'-' * 80}\n\n".join(sorted(blocks)))
    return without


def dashboard_texts(package: Package) -> list[str]:
    """Returns the text for one package of the dashboard: it is between the line that names the package and the next such line."""
    parts = re.split(r"(?m)^(\S+ \S+ \(.+\))\n\n", DASHBOARD.read_text())
    by_head = dict(zip(parts[1::2], parts[2::2]))
    text = by_head.get(f"{package.name} {package.version} ({package.licence})")
    return [] if text is None else [text.strip()]


def texts(folder: Path) -> list[str]:
    """Returns the licence texts in the folder of a package."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXT_NAME.match(path.name))
    return [path.read_text(errors="replace").strip() for path in files]


def source_folders(workspace: str) -> dict[tuple[str, str], Path]:
    """Maps each package of a workspace to the folder where cargo has unpacked it."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", TARGET]
    run = subprocess.run(command, cwd=ROOT / workspace, capture_output=True, text=True)
    if run.returncode != 0:
        raise CannotRead(f"cargo metadata failed: {run.stderr.strip()}")
    listed = json.loads(run.stdout)["packages"]
    return {(package["name"], package["version"]): Path(package["manifest_path"]).parent for package in listed}
