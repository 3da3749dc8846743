"""A container image that contains only the broker, for all platforms, as an OCI image layout archive. No daemon is needed."""

import gzip
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import binary
from common import ROOT, Failure, time_s
from versions import read

SOURCE = ROOT / "packaging/container"
# The user in the image, listed in passwd.
UID = 1883
CONFIGURATION = "etc/tautwire/tautwire.toml"
USERS = "etc/tautwire/users"
DATA = "var/lib/tautwire"
# The path of the system's root certificates, and the path of Mozilla's list in Debian's package. The bundle of this machine is not
# used: it may contain authorities that only this machine trusts.
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
AUTHORITIES_SOURCE = Path("/usr/share/ca-certificates/mozilla")
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def build(out: Path) -> None:
    version = read()["rust"]
    blobs: dict[str, bytes] = {}
    manifests = [image(platform, version, blobs) for platform in binary.platforms()]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    files |= {f"blobs/sha256/{digest.removeprefix('sha256:')}": blob for digest, blob in blobs.items()}
    with tarfile.open(out / f"tautwire-{version}-oci.tar", "w") as archive:
        for name, content in sorted(files.items()):
            archive.addfile(entry(name, len(content), 0o644), io.BytesIO(content))


def image(platform: binary.Platform, version: str, blobs: dict[str, bytes]) -> dict:
    """Adds the image of a platform to the blobs, and returns its entry in the index."""
    tree = layer(binary.built(platform))
    created = datetime.fromtimestamp(time_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "tautwire",
        "org.opencontainers.image.version": version,
        # The list of root certificates is under MPL-2.0.
        "org.opencontainers.image.licenses": "(MIT OR Apache-2.0) AND MPL-2.0",
        "org.opencontainers.image.source": "https://github.com/tautwire/tautwire",
    }
    config = {
        "created": created,
        "architecture": platform.architecture,
        "os": "linux",
        "config": {
            "User": f"{UID}:{UID}",
            "Entrypoint": ["/usr/bin/tautwire"],
            "Cmd": ["serve", "--config", f"/{CONFIGURATION}"],
            "ExposedPorts": {"1883/tcp": {}, "8083/tcp": {}},
            "Volumes": {f"/{DATA}": {}},
            "WorkingDir": f"/{DATA}",
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(tree)]},
        "history": [{"created": created, "created_by": "packaging/oci.py"}],
    }
    described = add(blobs, CONFIG, json.dumps(config).encode())
    layers = [add(blobs, LAYER, gzip.compress(tree, 9, mtime=0))]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers, "annotations": labels}
    return add(blobs, MANIFEST, json.dumps(manifest).encode()) | {
        "platform": {"architecture": platform.architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": version},
    }


def layer(program: Path) -> bytes:
    """Returns all files of the image as a tar."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tree:
        for folder, owner, mode in [("usr", 0, 0o755), ("usr/bin", 0, 0o755), ("etc", 0, 0o755), ("etc/tautwire", 0, 0o755), ("etc/ssl", 0, 0o755), ("etc/ssl/certs", 0, 0o755), ("var", 0, 0o755),
                                    ("var/lib", 0, 0o755), (DATA, UID, 0o700), ("tmp", 0, 0o1777)]:
            tree.addfile(entry(folder, 0, mode, owner, tarfile.DIRTYPE))
        files = {
            "usr/bin/tautwire": (program.read_bytes(), 0o755),
            CONFIGURATION: ((SOURCE / "tautwire.toml").read_bytes(), 0o644),
            # Empty: no client can authenticate until the user mounts another file.
            USERS: (b"", 0o600),
            AUTHORITIES: (authorities(), 0o644),
            "etc/passwd": (f"tautwire:x:{UID}:{UID}:Tautwire:/{DATA}:/sbin/nologin\n".encode(), 0o644),
            "etc/group": (f"tautwire:x:{UID}:\n".encode(), 0o644),
        }
        for name, (content, mode) in files.items():
            owner = UID if name == USERS else 0
            tree.addfile(entry(name, len(content), mode, owner), io.BytesIO(content))
    return packed.getvalue()


def authorities() -> bytes:
    """The root certificates that Mozilla trusts, in PEM: for hooks, JWKS, telemetry and clusters over TLS."""
    files = sorted(AUTHORITIES_SOURCE.glob("*.crt"))
    if not files:
        raise Failure(f"{AUTHORITIES_SOURCE}: there are no certificates (Debian: sudo apt-get install ca-certificates)")
    return b"".join(path.read_bytes().rstrip() + b"\n" for path in files)


def entry(name: str, size: int, mode: int, owner: int = 0, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    told = tarfile.TarInfo(name)
    told.size, told.mode, told.mtime, told.type = size, mode, time_s(), kind
    told.uid = told.gid = owner
    return told


def add(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict:
    """Stores a blob, and returns its descriptor."""
    blobs[digest(content)] = content
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
