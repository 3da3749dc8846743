"""The image: by its layout, its size, and run by runc where that can run."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import binary
import oci
from support import SAID, WithProject, only

MOST_BYTES = 8_000_000


class Image(WithProject):
    def setUp(self) -> None:
        super().setUp()
        with tarfile.open(only("oci/*.tar")) as archive:
            archive.extractall(self.project / "image", filter="data")
        self.index = json.loads((self.project / "image/index.json").read_text())

    def blob(self, described: dict) -> bytes:
        algorithm, _, digest = described["digest"].partition(":")
        content = (self.project / "image/blobs" / algorithm / digest).read_bytes()
        self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (described["size"], digest))
        return content

    def manifest(self, platform: binary.Platform) -> dict:
        found = [each for each in self.index["manifests"] if each["platform"]["architecture"] == platform.architecture]
        return json.loads(self.blob(found[0]))

    def test_every_blob_is_what_it_is_called_and_the_image_is_small(self) -> None:
        self.assertEqual(json.loads((self.project / "image/oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        for platform in binary.platforms():
            manifest = self.manifest(platform)
            config = json.loads(self.blob(manifest["config"]))
            layers = [gzip.decompress(self.blob(layer)) for layer in manifest["layers"]]
            self.assertEqual([oci.digest(layer) for layer in layers], config["rootfs"]["diff_ids"])
            self.assertLessEqual(sum(layer["size"] for layer in manifest["layers"]), MOST_BYTES)
            self.assertEqual(config["config"]["User"], f"{oci.UID}:{oci.UID}")

    def test_a_container_of_it_serves(self) -> None:
        """As its own user, with a root that cannot be written to, and a network of its own."""
        runc = shutil.which("runc")
        if os.getuid() != 0 or runc is None:
            if os.environ.get("TAUTWIRE_REQUIRED"):
                self.fail("runc is missing (Debian: sudo apt-get install runc)")
            self.skipTest("runc, and being root")
        bundle = self.bundle(runc)
        name = f"tautwire-{os.getpid()}"
        command = [runc, "--root", self.project / "runc", "run", "--bundle", bundle, name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
            try:
                # Engines give a container names; here there are only numbers.
                self.assertEqual(broker.stdout.readline(), "listening on mqtt://0.0.0.0:1883\n", "the container did not serve")
                within = [runc, "--root", self.project / "runc", "exec", name, "/usr/bin/tautwire"]
                self.run_in(*within, "pub", "-h", "127.0.0.1", "-r", "demo/hello", "hi")
                said = self.run_in(*within, "sub", "-h", "127.0.0.1", "-C", "1", "-W", "60", "-v", "demo/#")
                self.assertEqual(said.replace(" ", ": ", 1), SAID)
            finally:
                subprocess.run([runc, "--root", self.project / "runc", "kill", name, "KILL"], capture_output=True, check=False)

    def bundle(self, runc: str) -> Path:
        """What an engine would make of the image: its files, and what to run."""
        bundle = self.project / "bundle"
        manifest = self.manifest(binary.host())
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(self.blob(manifest["layers"][0])))) as tree:
            tree.extractall(bundle / "rootfs", filter="fully_trusted", numeric_owner=True)
        self.run_in(runc, "spec", "--bundle", bundle)
        spec = json.loads((bundle / "config.json").read_text())
        image = json.loads(self.blob(manifest["config"]))["config"]
        listen = ["serve", "--listen", "0.0.0.0:1883", "--set", "auth.anonymous=true", "--set", "data.path=/var/lib/tautwire"]
        spec["process"] |= {"terminal": False, "args": [*image["Entrypoint"], *listen], "cwd": image["WorkingDir"], "user": {"uid": oci.UID, "gid": oci.UID}}
        spec["root"]["readonly"] = True
        state = self.project / "state"
        state.mkdir()
        os.chown(state, oci.UID, oci.UID)
        spec["mounts"].append({"destination": "/var/lib/tautwire", "type": "bind", "source": str(state), "options": ["bind", "rw"]})
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle
