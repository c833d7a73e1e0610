"""Works are cited as plain links, and each stands exactly once in references.bib."""

import re

from notebooks import NAMES, ROOT, cells

BIB = (ROOT / "references.bib").read_text(encoding="utf-8")


def cited():
    text = "\n".join(c.source for name in NAMES for c in cells(name, "markdown"))
    arxiv = set(re.findall(r"arxiv\.org/abs/(\d{4}\.\d{4,5})", text))
    doi = set(re.findall(r"doi\.org/(10\.[^)\s]+)", text))
    return arxiv | doi


def test_every_cited_work_is_in_the_bibliography_and_back():
    listed = re.findall(r"(?:eprint|doi)\s*=\s*\{([^}]+)\}", BIB)
    assert len(listed) == len(set(listed)), "an entry stands twice"
    assert cited() == set(listed)


def test_entries_are_complete():
    entries = re.findall(r"@\w+\{(\w+),(.*?)\n\}", BIB, re.DOTALL)
    assert len(entries) == BIB.count("\n@")
    for key, body in entries:
        for field in ("title", "author", "year"):
            assert re.search(rf"\b{field}\s*=", body), f"{key} has no {field}"
