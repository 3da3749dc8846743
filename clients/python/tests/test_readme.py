"""The examples of the README run as shown, except for the address."""

import re
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, PATIENCE_S, WithBroker

ADDRESS = "mqtt://localhost:1883"


class Readme(WithBroker):
    def test_each_example_runs(self):
        examples = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
        self.assertGreater(len(examples), 3)
        for example in examples:
            # Some write files.
            with self.subTest(example), tempfile.TemporaryDirectory() as folder:
                self.assertIn(ADDRESS, example)
                source = example.replace(ADDRESS, self.address)
                command = [sys.executable, "-W", "error", "-c", source]
                done = subprocess.run(command, capture_output=True, cwd=folder, text=True, timeout=PATIENCE_S)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        # The README shows the output of the first one.
        shown = re.search(r"^```\n(plant.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
        first = subprocess.run(
            [sys.executable, "-c", examples[0].replace(ADDRESS, self.address)], capture_output=True, text=True, timeout=PATIENCE_S
        )
        self.assertEqual(first.stdout, shown[1])


if __name__ == "__main__":
    unittest.main()
