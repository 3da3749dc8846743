"""Tests of the SCRAM vectors: their schema, their generator, and the example exchange of RFC 7677."""

import importlib.util
import json
import unittest
from pathlib import Path

import jsonschema

VECTORS = Path(__file__).resolve().parent / "vectors/scram"
FILE = json.loads((VECTORS / "cases.json").read_text())

# Section 3 of RFC 7677, verbatim.
PUBLISHED = {
    "client_first": "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "server_first": "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "client_final": (
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ),
    "server_final": "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
}


class ScramVectors(unittest.TestCase):
    def test_the_file_matches_its_schema(self):
        jsonschema.validate(FILE, json.loads((VECTORS / "schema.json").read_text()))

    def test_every_vector_has_a_unique_name(self):
        names = [vector["id"] for vector in FILE["vectors"]]
        self.assertEqual(len(names), len(set(names)))

    def test_the_file_matches_the_generator(self):
        spec = importlib.util.spec_from_file_location("scram_vectors", VECTORS / "generate.py")
        generate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generate)
        self.assertEqual(generate.file_text(generate.collect()), (VECTORS / "cases.json").read_text())

    def test_the_published_exchange_is_included(self):
        vector = next(vector for vector in FILE["vectors"] if vector["id"] == "rfc7677")
        self.assertEqual({name: vector[name] for name in PUBLISHED}, PUBLISHED)


if __name__ == "__main__":
    unittest.main()
