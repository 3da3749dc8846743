"""Packages of which a product would hold two versions, or one that nobody can check."""

from collections import defaultdict
from collections.abc import Iterator

from packages import Product

# Products that hold two versions of a package all the same, and why: `{("tautwire", "base64"): "b needs the older one until 2.0"}`.
# nkeys 0.4, which async-nats needs for NKeys, stands on the generation of RustCrypto and of rand before the one that the broker has.
OF_NKEYS = ["block-buffer", "const-oid", "cpufeatures", "crypto-common", "der", "digest", "rand", "rand_core", "sha2", "spki"]
TWICE: dict[tuple[str, str], str] = {
    **{("tautwire", name): "nkeys needs the older one until it changes to ed25519-dalek 3" for name in OF_NKEYS},
    ("tautwire", "base64"): "async-nats needs the older one, ureq the newer one",
    ("tautwire", "getrandom"): "ring needs the older one, rand of async-nats the newer one",
}


def refused(products: list[Product], allowed: dict[tuple[str, str], str] = TWICE) -> Iterator[str]:
    """What is there twice or has no checksum, and exceptions that are not needed any more."""
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
                    yield f"{product.name} would hold {name} {listed}: have those who need it agree on one, or say in tools/supply/versions.py why not"
    for product_name, name in sorted(allowed.keys() - found):
        yield f"tools/supply/versions.py: {product_name} holds one {name} only; take the exception out"
