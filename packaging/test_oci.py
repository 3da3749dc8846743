"""Tests of the image: its layout, its size, and run by runc if that is available."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import binary
import common
import oci
from support import BROKER, SAID, WithProject, only

MOST_BYTES = 8_000_000
INSTALLING = common.ROOT / "docs/operating/installing.md"
# Options of `docker run` that take a value.
WITH_VALUE = {"-p", "-v", "--cap-drop"}


def documented() -> list[str]:
    """Returns the commands of the installation page that run a container with users and a certificate."""
    section = INSTALLING.read_text().partition("\n## Container\n")[2].partition("\n## ")[0]
    block = section.split("```sh\n")[2].partition("```")[0].replace("\\\n", " ")
    return [line for line in block.splitlines() if line.strip()]


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

    def test_every_blob_matches_its_digest_and_the_image_is_small(self) -> None:
        self.assertEqual(json.loads((self.project / "image/oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        for platform in binary.platforms():
            manifest = self.manifest(platform)
            config = json.loads(self.blob(manifest["config"]))
            layers = [gzip.decompress(self.blob(layer)) for layer in manifest["layers"]]
            self.assertEqual([oci.digest(layer) for layer in layers], config["rootfs"]["diff_ids"])
            self.assertLessEqual(sum(layer["size"] for layer in manifest["layers"]), MOST_BYTES)
            self.assertEqual(config["config"]["User"], f"{oci.UID}:{oci.UID}")

    def test_the_image_has_the_authorities_of_mozilla(self) -> None:
        manifest = self.manifest(binary.host())
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(self.blob(manifest["layers"][0])))) as tree:
            bundle = tree.extractfile(oci.AUTHORITIES)
            assert bundle is not None
            self.assertGreater(bundle.read().count(b"-----BEGIN CERTIFICATE-----"), 100)

    def test_a_container_serves_clients(self) -> None:
        """Runs as its own user, with a read-only root and a separate network."""
        command = ["serve", "--listen", "0.0.0.0:1883", "--set", "auth.anonymous=true", "--set", "data.path=/var/lib/tautwire"]
        with self.container(command) as (within, lines, _):
            # Engines resolve names in a container; here there are only addresses.
            self.assertEqual(lines[0], "listening on mqtt://0.0.0.0:1883\n", "the container did not serve")
            self.run_in(*within, "pub", "-h", "127.0.0.1", "-r", "demo/hello", "hi")
            said = self.run_in(*within, "sub", "-h", "127.0.0.1", "-C", "1", "-W", "60", "-v", "demo/#")
            self.assertEqual(said.replace(" ", ": ", 1), SAID)

    def test_the_documented_commands_run_a_broker_that_a_user_can_connect_to(self) -> None:
        *before, docker = documented()
        tools = self.project / "tools"
        tools.mkdir()
        (tools / "tautwire").symlink_to(BROKER)
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "TAUTWIRE_PASSWORD": "secret"}
        for line in before:
            self.run_in("sh", "-c", line.removeprefix("sudo "), **environment)
        options, command = shlex.split(docker)[2:], []
        mounts = {}
        while options:
            option = options.pop(0)
            if option in WITH_VALUE:
                value = options.pop(0)
                if option == "-v" and value.startswith("./"):
                    source, target, *_ = value.split(":")
                    mounts[target] = self.project / source
            elif not option.startswith("-"):
                command = options
                break
        with self.container(command, mounts) as (within, lines, _):
            self.assertEqual(lines[0], "listening on mqtts://0.0.0.0:8883\n")
            password = self.state / "password"
            password.write_text("secret\n")
            os.chown(password, oci.UID, oci.UID)
            to = ["--url", "mqtts://127.0.0.1:8883", "--dangerously-accept-any-certificate"]
            self.run_in(*within, "pub", *to, "-u", "ann", "--password-file", "/var/lib/tautwire/password", "-q", "1", "t", "x")

    def test_a_configuration_that_accepts_no_client_is_reported(self) -> None:
        manifest = self.manifest(binary.host())
        command = json.loads(self.blob(manifest["config"]))["config"]["Cmd"]
        with self.container(command) as (_, lines, said):
            self.assertTrue(lines[0].startswith("listening on "))
        # The engine sets the limit of open files; plain runc allows 1,024.
        warnings = [line for line in said if "WARN" in line.upper() and "[descriptors]" not in line]
        self.assertEqual(len(warnings), 1, said)
        self.assertIn("no client can connect to mqtt://[::]:1883 and ws://[::]:8083/mqtt: /etc/tautwire/users has no users", warnings[0])
        self.assertNotIn("try, in", "".join(lines))

    @contextlib.contextmanager
    def container(self, command: list[str], mounts: dict[str, Path] | None = None) -> Iterator[tuple[list, list[str], list[str]]]:
        """Runs the image. Yields a function that runs a program in it, the lines of standard output so far, and at the end those of standard error."""
        runc = shutil.which("runc")
        if os.getuid() != 0 or runc is None:
            if os.environ.get("TAUTWIRE_REQUIRED"):
                self.fail("runc is missing (Debian: sudo apt-get install runc)")
            self.skipTest("runc, and being root")
        bundle = self.bundle(runc, command, mounts or {})
        name = f"tautwire-{os.getpid()}-{self._testMethodName}"
        root = ["--root", self.project / "runc"]
        lines: list[str] = []
        said: list[str] = []
        with open(self.project / "stderr", "w+") as stderr:
            broker = subprocess.Popen([runc, *root, "run", "--bundle", bundle, name], stdout=subprocess.PIPE, stderr=stderr, text=True)
            with broker:
                try:
                    lines.append(broker.stdout.readline())
                    if not lines[0]:
                        broker.wait()
                        stderr.seek(0)
                        self.fail(f"the container did not serve: {stderr.read()}")
                    yield [runc, *root, "exec", name, "/usr/bin/tautwire"], lines, said
                finally:
                    subprocess.run([runc, *root, "kill", name, "TERM"], capture_output=True, check=False)
                    lines.extend(broker.stdout)
            stderr.seek(0)
            said.extend(stderr)

    def bundle(self, runc: str, command: list[str], mounts: dict[str, Path]) -> Path:
        """Unpacks the image as an engine would: its files, and the command."""
        bundle = self.project / "bundle"
        manifest = self.manifest(binary.host())
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(self.blob(manifest["layers"][0])))) as tree:
            tree.extractall(bundle / "rootfs", filter="fully_trusted", numeric_owner=True)
        self.run_in(runc, "spec", "--bundle", bundle)
        spec = json.loads((bundle / "config.json").read_text())
        image = json.loads(self.blob(manifest["config"]))["config"]
        spec["process"] |= {"terminal": False, "args": [*image["Entrypoint"], *command], "cwd": image["WorkingDir"], "user": {"uid": oci.UID, "gid": oci.UID}}
        spec["root"]["readonly"] = True
        self.state = self.project / "state"
        self.state.mkdir()
        os.chown(self.state, oci.UID, oci.UID)
        # Only the owner can access the directory of the test.
        self.project.chmod(0o755)
        for target, source in {"/var/lib/tautwire": self.state, **mounts}.items():
            access = "rw" if source == self.state else "ro"
            spec["mounts"].append({"destination": target, "type": "bind", "source": str(source), "options": ["rbind", access]})
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle
