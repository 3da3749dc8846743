"""The site: every link leads to an existing file and heading, and nothing is loaded from another
host."""

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/docs"))

import site_pages  # noqa: E402


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.place = TemporaryDirectory()
        cls.folder = Path(cls.place.name).resolve()
        cls.faults = site_pages.build(cls.folder)
        cls.pages = {path: path.read_text() for path in cls.folder.rglob("*.html")}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.place.cleanup()

    def test_every_page_is_in_the_navigation(self) -> None:
        self.assertEqual([], self.faults)

    def test_links_have_targets(self) -> None:
        anchors = {path: set(re.findall(r'id="([^"]+)"', text)) for path, text in self.pages.items()}
        for path, text in self.pages.items():
            for link in re.findall(r'(?:href|src)="([^"]+)"', text):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = unquote(link).partition("#")
                target = (path.parent / name).resolve() if name else path
                self.assertTrue(target.exists(), f"{path.name}: {link}")
                if anchor and target in anchors:
                    self.assertIn(anchor, anchors[target], f"{path.name}: {link}")

    def test_no_resource_is_external(self) -> None:
        for path, text in self.pages.items():
            self.assertEqual([], re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="https?:[^"]*"', text), path.name)

    def test_test_markers_are_hidden(self) -> None:
        for path, text in self.pages.items():
            self.assertNotIn("<!-- runs", text, path.name)
            self.assertNotIn("<!-- prints", text, path.name)

    def test_the_search_covers_every_page(self) -> None:
        index = (self.folder / "index.js").read_text()
        for path in self.pages:
            self.assertIn(f'"address":"{path.relative_to(self.folder).as_posix()}', index)


    def test_the_search_works_without_a_server(self) -> None:
        browser = shutil.which("chromium")
        if not browser:
            self.skipTest("there is no chromium")
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
        with TemporaryDirectory() as profile:
            page = f"{(self.folder / 'guides/tour.html').as_uri()}?q=slow_consumer"
            shown = subprocess.run(
                [browser, *arguments, f"--user-data-dir={profile}", page], timeout=120, capture_output=True, text=True,
            ).stdout
        self.assertRegex(shown, r"<h2>\d+ results</h2>")
        self.assertIn('href="../guides/limit-clients.html#', shown)


if __name__ == "__main__":
    unittest.main()
