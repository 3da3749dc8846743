"""Which licences are allowed, and the page that lists the licences of everything we ship."""

import re
from collections import defaultdict
from collections.abc import Iterator

from packages import TARGET, Package, Product

PAGE = "docs/licences.md"

# Permissive: distributors of the binary must name the authors, and nothing else.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0",
    "Unicode-3.0", "Unlicense", "Zlib",
}  # fmt: skip

HEAD = f"""\
# Licences

Written by `make licences`; `make lint` says when it is not current. It lists what others have written and we give away: what is in the
binary `tautwire` for `{TARGET}`, and in the packages of the clients. The permissive licences have one condition in common:
who gives the binary away gives the texts with it. `make sbom` collects them in `target/sbom/notices.txt`, those for the wheel in `notices-python.txt`, beside SBOMs in the form of CycloneDX.

The binary also holds the standard library of Rust (MIT OR Apache-2.0). On Linux with glibc it is linked with glibc statically, whose
licence is LGPL-2.1-or-later: who gives such a binary away has to let others link it again with another glibc, which the source of
Tautwire allows. A binary of which that is not wanted is built with `RELEASE_RUSTFLAGS= make build`; it finds glibc when it starts.

`preact` and `uplot` are in the dashboard, which the binary holds. The packages for TypeScript, Go and C need none of others. The wheel for Python holds those of `client-python`.
"""


class NotUnderstood(Exception):
    """The expression is not valid SPDX."""


def is_allowed(expression: str) -> bool:
    """Whether the allowed licences alone can satisfy the terms."""
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    value, rest = either(tokens)
    if rest:
        raise NotUnderstood(expression)
    return value


def either(tokens: list[str]) -> tuple[bool, list[str]]:
    value, tokens = both(tokens)
    while tokens[:1] == ["OR"]:
        other, tokens = both(tokens[1:])
        value = value or other
    return value, tokens


def both(tokens: list[str]) -> tuple[bool, list[str]]:
    value, tokens = one(tokens)
    while tokens[:1] == ["AND"]:
        other, tokens = one(tokens[1:])
        value = value and other
    return value, tokens


def one(tokens: list[str]) -> tuple[bool, list[str]]:
    if tokens[:1] == ["("]:
        value, tokens = either(tokens[1:])
        if tokens[:1] != [")"]:
            raise NotUnderstood("a parenthesis is not closed")
        return value, tokens[1:]
    if not tokens or tokens[0] in ("AND", "OR", "WITH", ")"):
        raise NotUnderstood("a licence is missing")
    if tokens[1:2] == ["WITH"]:
        return " ".join(tokens[:3]) in ALLOWED, tokens[3:]
    return tokens[0] in ALLOWED, tokens[1:]


def refused(products: list[Product]) -> Iterator[str]:
    """Yields a line for each package with a licence that is not allowed, even if it is only used for the build."""
    for product in products:
        for package in product.packages.values():
            try:
                allowed = is_allowed(package.licence)
            except NotUnderstood:
                allowed = False
            if not allowed:
                licence = package.licence or "none"
                yield f"{product.name}: {package.name} {package.version}: its licence, {licence}, is not allowed in tools/supply/licences.py"


def of_others(product: Product) -> list[Package]:
    return [package for package in product.packages.values() if package.is_shipped and not package.is_ours]


def page(products: list[Product]) -> str:
    """Returns the text of the page."""
    users: dict[str, list[str]] = defaultdict(list)
    found: dict[str, Package] = {}
    for product in products:
        for package in of_others(product):
            users[package.purl].append(product.name)
            found[package.purl] = package
    rows = sorted(found.values(), key=lambda package: (package.name, package.version))
    lines = [HEAD, "| package | version | licence | in |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.version} | {row.licence} | {', '.join(users[row.purl])} |" for row in rows]
    lines += ["", "## In two versions", "", "Each is compiled and kept twice. A row that comes new is worth a look at who needs the older one.", ""]
    lines += [f"- {line}" for line in twice(products)] or ["None."]
    return "\n".join(lines) + "\n"


def twice(products: list[Product]) -> Iterator[str]:
    """Yields the third-party packages that one product contains in more than one version, and which packages need each."""
    for product in products:
        versions: dict[str, list[Package]] = defaultdict(list)
        for package in of_others(product):
            versions[package.name].append(package)
        for name, those in sorted(versions.items()):
            if len(those) > 1:
                told = "; ".join(f"{package.version} by {who_needs(product, package)}" for package in sorted(those, key=by_version))
                yield f"`{name}` in {product.name}: {told}"


def by_version(package: Package) -> list[str]:
    return [part.zfill(8) for part in package.version.split(".")]


def who_needs(product: Product, package: Package) -> str:
    needing = (product.packages[purl] for purl, needs in product.needs.items() if package.purl in needs)
    return ", ".join(sorted({f"`{other.name}`" for other in needing if other.is_shipped}))
