"""Packages that a product would contain in two versions, or that cannot be verified."""

from collections import defaultdict
from collections.abc import Iterator

from packages import Product

# Products that are allowed to contain two versions of a package, and why: `{("tautwire", "base64"): "b needs the older one until
# 2.0"}`.
# nkeys 0.4, which async-nats needs for NKeys, uses older versions of RustCrypto and rand than the broker.
OF_NKEYS = ["block-buffer", "const-oid", "cpufeatures", "crypto-common", "der", "digest", "rand", "rand_core", "sha2", "spki"]
TWICE: dict[tuple[str, str], str] = {
    **{("tautwire", name): "nkeys needs the older one until it moves to ed25519-dalek 3" for name in OF_NKEYS},
    ("tautwire", "base64"): "async-nats needs the older one, ureq the newer one",
    ("tautwire", "getrandom"): "ring needs the older one, rand of async-nats the newer one",
}


def refused(products: list[Product], allowed: dict[tuple[str, str], str] = TWICE) -> Iterator[str]:
    """Packages that are included twice or have no checksum, and exceptions that are no longer needed."""
    found = set()
    for product in products:
        versions = defaultdict(set)
        for package in product.packages.values():
            if package.is_shipped:
                versions[package.name].add(package.version)
            if not (package.is_ours or package.hashes):
                yield f"{product.name}: {package.name} {package.version} has no checksum in its lock file"
        for name, held in versions.items():
            if len(held) > 1:
                found.add((product.name, name))
                if (product.name, name) not in allowed:
                    listed = " and ".join(sorted(held))
                    yield f"{product.name} would hold {name} {listed}: make its users agree on one version, or give the reason in tools/supply/versions.py"
    for product_name, name in sorted(allowed.keys() - found):
        yield f"tools/supply/versions.py: {product_name} contains only one {name}; remove the exception"
