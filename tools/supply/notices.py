"""The texts of the licences of what is in a binary or a wheel, which go with it wherever it is given away."""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

from licences import of_others
from packages import ROOT, TARGET, CannotRead, Package, Product

# The packages of the dashboard, written with its files: whoever builds the broker need not have them.
DASHBOARD = ROOT / "broker/dashboard/dist/licences.txt"
TEXT_NAME = re.compile(r"^(licen[cs]e|copying|notice|unlicen[cs]e|copyright)", re.IGNORECASE)


def write(product: Product, path: Path, workspace: str = ".") -> list[str]:
    """Writes them, each text once. Gives the names of packages that bring none."""
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
    """The one of a package of the dashboard: it stands below a line that names the package, up to that of the next."""
    parts = re.split(r"(?m)^(\S+ \S+ \(.+\))\n\n", DASHBOARD.read_text())
    by_head = dict(zip(parts[1::2], parts[2::2]))
    text = by_head.get(f"{package.name} {package.version} ({package.licence})")
    return [] if text is None else [text.strip()]


def texts(folder: Path) -> list[str]:
    """What a package says of its licence."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXT_NAME.match(path.name))
    return [path.read_text(errors="replace").strip() for path in files]


def source_folders(workspace: str) -> dict[tuple[str, str], Path]:
    """Where cargo has unpacked each package of a workspace."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", TARGET]
    run = subprocess.run(command, cwd=ROOT / workspace, capture_output=True, text=True)
    if run.returncode != 0:
        raise CannotRead(f"cargo metadata does not say where the packages are: {run.stderr.strip()}")
    listed = json.loads(run.stdout)["packages"]
    return {(package["name"], package["version"]): Path(package["manifest_path"]).parent for package in listed}
