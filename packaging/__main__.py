"""Builds the packages for each registry, and checks that their versions, changelogs and licences match.

    python3 packaging build [KIND…]      dist/KIND, and dist/SHA256SUMS
    python3 packaging check [--release]  versions, changelogs and licences; --release: changelogs name the version
    python3 packaging versions           write packaging/versions.toml into the manifests

TAUTWIRE_PLATFORMS=host builds the broker for this machine alone, not for all platforms.
"""

import argparse
import shutil
import sys

import archive
import c_library
import common
import crates
import debian
import go_module
import helm
import homebrew
import npm
import oci
import versions
import wheel

# One script for each kind. Add a line for each new kind of package.
KINDS = {
    "npm": npm.build,
    "crates": crates.build,
    "go": go_module.build,
    "c": c_library.build,
    "python": wheel.build,
    "archive": archive.build,
    "deb": debian.build,
    "oci": oci.build,
    "helm": helm.build,
    # References the archives by their checksums.
    "homebrew": homebrew.build,
}


def build(kinds: list[str]) -> None:
    for kind in kinds:
        out = common.DIST / kind
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        KINDS[kind](out)
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            print(f"{path.relative_to(common.ROOT).as_posix()} {path.stat().st_size:,} B")
    common.write_sums(common.DIST)


def check(is_release: bool) -> int:
    findings = [*versions.findings(), *(versions.unreleased() if is_release else [])]
    for finding in findings:
        print(finding)
    print(f"packaging: {len(findings)} findings")
    return 1 if findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="packaging", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    commands.add_parser("check").add_argument("--release", action="store_true")
    commands.add_parser("versions")
    arguments = parser.parse_args()
    try:
        if arguments.command == "check":
            return check(arguments.release)
        if arguments.command == "versions":
            versions.write()
        else:
            build(arguments.kinds or list(KINDS))
    except common.Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
