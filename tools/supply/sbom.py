"""SBOMs in CycloneDX 1.5 format. The same sources and tools give the same bytes."""

import json
import os
import subprocess
import uuid
from datetime import UTC, datetime
from pathlib import Path

from packages import Package, Product

# The namespace for UUIDs that are derived from names.
SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/schema/bom-1.5.schema.json")


def write(products: list[Product], folder: Path) -> list[Path]:
    """Writes one file per product."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for product in products:
        path = folder / f"{product.name}.cdx.json"
        path.write_text(text(product, toolchain() if product.is_program else []))
        written.append(path)
    return written


def text(product: Product, linked: list[dict]) -> str:
    """Returns the SBOM of a product. `linked`: components that are in no lock file."""
    made_of = sorted((package for purl, package in product.packages.items() if purl != product.root.purl), key=lambda package: package.purl)
    metadata: dict = {"component": component(product.root) | {"type": "application" if product.is_program else "library"}}
    del metadata["component"]["scope"]
    # A timestamp would change each SBOM, so it is only written if one is given.
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        metadata = {"timestamp": datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} | metadata
    body = {
        "version": 1,
        "metadata": metadata,
        "components": [*map(component, made_of), *linked],
        "dependencies": dependencies(product, [part["bom-ref"] for part in linked]),
    }
    serial = uuid.uuid5(SPACE, json.dumps(body, sort_keys=True))
    whole = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
    } | body
    return json.dumps(whole, indent=2) + "\n"


def component(package: Package) -> dict:
    """Returns a package as a CycloneDX component."""
    told: dict = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        # Build dependencies are not part of the product.
        "scope": "required" if package.is_shipped else "excluded",
    }
    if package.hashes:
        told["hashes"] = [{"alg": name, "content": digits} for name, digits in sorted(package.hashes.items())]
    if package.licence:
        told["licenses"] = [{"expression": package.licence}]
    told["purl"] = package.purl
    if package.repository:
        told["externalReferences"] = [{"type": "vcs", "url": package.repository}]
    return told


def dependencies(product: Product, linked: list[str]) -> list[dict]:
    needs = {purl: sorted(those) for purl, those in product.needs.items()}
    needs[product.root.purl] = sorted([*needs.get(product.root.purl, []), *linked])
    return [{"ref": purl, "dependsOn": needs[purl]} if needs[purl] else {"ref": purl} for purl in sorted(needs)]


def toolchain() -> list[dict]:
    """Returns what is linked into the binary besides packages: the Rust standard library, and glibc if used."""
    rustc = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    linked = [own("rust-std", rustc, "MIT OR Apache-2.0")]
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return linked
    return [*linked, own(name, version, "LGPL-2.1-or-later")] if name == "glibc" else linked


def own(name: str, version: str, licence: str) -> dict:
    return component(Package(name, version, licence, f"pkg:generic/{name}@{version}", False))
