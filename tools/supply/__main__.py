"""Checks and lists the dependencies of the broker and the packages: `python3 tools/supply check|licences|sbom|advisories`.

Prints one line per finding. Exits with 1 if there are any.
"""

import sys

import advisories
import licences
import notices
import packages
import sbom
import versions
from packages import ROOT, CannotRead

SBOMS = ROOT / "target/sbom"
# The products that contain other people's code: the workspace of each, and the file with the licence texts.
NOTICES = {"tautwire": (".", "notices.txt"), "client-python": ("clients/python", "notices-python.txt")}


def check() -> list[str]:
    """Licences that are not allowed, packages that would be included twice or have no checksum, and an outdated licence page."""
    products = packages.products()
    findings = [*licences.refused(products), *versions.refused(products)]
    page = ROOT / licences.PAGE
    if not page.exists() or page.read_text() != licences.page(products):
        findings.append(f"{licences.PAGE} is outdated: run `make licences`, and review the changes")
    count = len({purl for product in products for purl in product.packages})
    print(f"supply: {count} packages of {len(products)} products, {len(findings)} findings")
    return findings


def write_licences() -> list[str]:
    products = packages.products()
    (ROOT / licences.PAGE).write_text(licences.page(products))
    return list(licences.refused(products))


def write_sboms() -> list[str]:
    products = packages.products()
    written = sbom.write(products, SBOMS)
    without = []
    for name, (workspace, file) in NOTICES.items():
        product = next(product for product in products if product.name == name)
        without += notices.write(product, SBOMS / file, workspace)
        written.append(SBOMS / file)
    for path in written:
        print(path.relative_to(ROOT))
    for name in sorted(set(without)):
        print(f"{name} contains no licence text")
    return []


COMMANDS = {"check": check, "licences": write_licences, "sbom": write_sboms, "advisories": advisories.ask}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        findings = COMMANDS[arguments[0]]()
    except CannotRead as error:
        findings = [str(error)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
