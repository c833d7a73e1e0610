"""Works are cited as plain links; each stands exactly once in references.bib, and is complete there."""

import re

import pytest
from book_site.backmatter import TOPICS, VENUES, bibliography_page, links, reference
from notebooks import NAMES, ROOT, cells
from pybtex.database import parse_file

WORKS = parse_file(str(ROOT / "references.bib"), "bibtex").entries
PAGES = ("bibliography", "where_next")
KNOWN = {link: key for key, work in WORKS.items() for link in links(work)}


def cited():
    texts = [c.source for name in NAMES for c in cells(name, "markdown")]
    texts += [(ROOT / "chapters" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES]
    return set(re.findall(r"\]\((https://[^)\s]+)\)", "\n".join(texts)))


def test_every_cited_work_is_in_the_bibliography_and_back():
    works = {link for link in cited() if re.match(r"https://(arxiv\.org/abs|doi\.org)/", link)}
    assert works <= set(KNOWN)
    for key, work in WORKS.items():
        assert cited() & set(links(work)), f"{key} is cited nowhere"


def test_no_work_stands_twice():
    addresses = [link for work in WORKS.values() for link in links(work)]
    assert len(set(addresses)) == len(addresses)
    titles = [re.sub(r"\W", "", work.fields["title"]).lower() for work in WORKS.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("key", list(WORKS))
def test_an_entry_is_complete(key):
    work = WORKS[key]
    assert work.persons["author"]
    assert "others" not in str(work.persons["author"][-1])
    assert work.fields["title"]
    assert re.fullmatch(r"(19|20)\d\d", work.fields["year"])
    assert key.endswith(work.fields["year"]) or work.fields["year"] in key or key in MOVED
    assert any(name in work.fields for name in VENUES)
    assert re.fullmatch(r"\d{4}\.\d{4,5}", work.fields.get("eprint", "2000.00000"))
    assert links(work), "no arXiv id, DOI or address"
    assert work.fields["keywords"] in TOPICS
    assert 40 < len(work.fields["annotation"]) < 220
    assert work.fields["annotation"].endswith(".")


# Entries whose key keeps the year in which the work became known.
MOVED = {"chen2024stuffed"}


def test_the_page_shows_every_work_once_under_a_heading():
    page = bibliography_page(ROOT)
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(TOPICS.values())
    for key, work in WORKS.items():
        assert page.count(reference(work)) == 1, key
    assert len(re.findall(r"^- ", page, re.MULTILINE)) == len(WORKS)
    assert "{" not in page, "LaTeX was left over"


def test_a_reference_reads_well():
    assert reference(WORKS["gu2022s4"]) == (
        "Albert Gu, Karan Goel and Christopher Ré (2022). "
        "[Efficiently Modeling Long Sequences with Structured State Spaces]"
        "(https://arxiv.org/abs/2111.00396). "
        "*International Conference on Learning Representations*, arXiv:2111.00396."
    )
    assert "Bo Peng, Eric Alcaide, Quentin Anthony and 29 others (2023)" in reference(
        WORKS["peng2023rwkv"]
    )


def test_the_page_says_which_chapters_cite_a_work():
    line = next(x for x in bibliography_page(ROOT).splitlines() if "Attention is not Expl" in x)
    assert line.endswith("Cited in [chapter 1](attention.ipynb).")
