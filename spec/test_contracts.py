"""Tests that the contract vectors match the oracle's results for the cases."""

import sys
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "vectors" / "contracts"


class ContractVectors(unittest.TestCase):
    def test_the_file_matches_the_generator(self):
        # Other vectors have a generator with the same module name.
        before = sys.modules.pop("generate", None), sys.modules.pop("cases", None)
        sys.path.insert(0, str(FOLDER))
        try:
            import generate

            made = generate.text()
        finally:
            sys.path.remove(str(FOLDER))
            for name, module in zip(("generate", "cases"), before):
                sys.modules.pop(name, None)
                if module is not None:
                    sys.modules[name] = module
        self.assertEqual(made, (FOLDER / "vectors.json").read_text(), "run spec/vectors/contracts/generate.py")


if __name__ == "__main__":
    unittest.main()
