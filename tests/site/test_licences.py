"""Everything in the built book that others made is named on the page of licences."""

import re

from conftest import SITE
from notebooks import ROOT

PAGE = (ROOT / "chapters/licences.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (`.+`) \|$", PAGE, re.MULTILINE)


def test_every_shipped_file_belongs_to_one_part():
    shipped = {
        path.relative_to(SITE).as_posix()
        for folder in ("_static", "vendor", "_frames")
        for path in (SITE / folder).rglob("*")
        if path.is_file()
    }
    claimed = []
    for part, *_, patterns in ROWS:
        for pattern in re.findall(r"`([^`]+)`", patterns):
            deep = f"{pattern}/*" if pattern.endswith("**") else pattern
            files = {path.relative_to(SITE).as_posix() for path in SITE.glob(deep)} & shipped
            assert files, f"{part}: nothing is named {pattern}"
            claimed += files
    assert sorted(claimed) == sorted(shipped)


def test_every_part_has_authors_and_a_licence():
    assert len(ROWS) >= 10
    for part, authors, licence, _ in ROWS:
        assert len(authors) > 5, part
        assert re.search(r"MIT|BSD-\d-Clause|Apache-2\.0", licence), part


def test_the_texts_came_along():
    texts = set(re.findall(r'href="\.\./(licences/[\w.-]+\.txt)"', PAGE))
    assert texts == {path.relative_to(SITE).as_posix() for path in SITE.glob("licences/*.txt")}
    for text in texts:
        content = (SITE / text).read_text(encoding="utf-8")
        assert re.search(r"copyright|Bitstream", content, re.IGNORECASE), text
        assert len(content) > 800, text
