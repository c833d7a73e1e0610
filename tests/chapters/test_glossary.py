"""Every term of the glossary is linked from its first use in each chapter, and from nowhere else."""

import re

import pytest
from glossary import GLOSSARY_LINK, PAGE, running_cells, terms, uses
from notebooks import NAMES, cells

ENTRIES = terms()
INTRODUCED = re.compile(r"\*Introduced in \[(?:section|chapter) ([\d.]+)\]\((\w+)\.ipynb\)\.\*$")


def test_entries_are_in_order_and_short():
    names = [term.name.lower() for term in ENTRIES]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for term in ENTRIES:
        definition = INTRODUCED.sub("", term.text).strip()
        assert 1 <= len(re.findall(r"[.?](?=\s|$)", definition)) <= 3, term.name
        assert len(definition) > 40, term.name


def test_no_two_terms_share_a_spelling():
    spellings = [s.lower() for term in ENTRIES for s in term.spellings]
    assert len(set(spellings)) == len(spellings)


@pytest.mark.parametrize("term", ENTRIES, ids=lambda term: term.anchor)
def test_a_term_is_used_where_the_glossary_says_it_is_introduced(term):
    number, name = INTRODUCED.search(term.text).groups()
    inside = "." not in number  # a chapter as a whole means the text before its first section
    found = False
    for _, source in running_cells(name):
        for part in re.split(r"^(?=## )", source, flags=re.MULTILINE):
            if part.startswith("## "):
                inside = part.startswith(f"## {number} ")
            found |= inside and any(use.term == term for use in uses(part, ENTRIES))
    assert found, f"section {number} of {name} does not use {term.name!r}"


@pytest.mark.parametrize("name", NAMES)
def test_the_first_use_of_each_term_is_its_only_link(name):
    seen, missing = set(), []
    for number, source in running_cells(name):
        for use in uses(source, ENTRIES):
            first = use.term.name not in seen
            seen.add(use.term.name)
            if first != (use.target == use.term.anchor):
                context = source[max(0, use.start - 30) : use.end + 30].replace("\n", " ")
                missing.append((use.term.name, number, context))
    assert missing == [], "links missing, misplaced or doubled"


@pytest.mark.parametrize("name", NAMES)
def test_links_to_the_glossary_stand_in_running_text_and_lead_to_a_term(name):
    running = [source for _, source in running_cells(name)]
    everywhere = [cell.source for cell in cells(name, "markdown")]
    links = [link for source in everywhere for link in GLOSSARY_LINK.findall(source)]
    assert links == [link for source in running for link in GLOSSARY_LINK.findall(source)]
    assert {target for _, target in links} <= {term.anchor for term in ENTRIES}


def test_every_term_is_linked_from_somewhere():
    linked = {
        target
        for name in NAMES
        for cell in cells(name, "markdown")
        for _, target in GLOSSARY_LINK.findall(cell.source)
    }
    assert linked == {term.anchor for term in ENTRIES}


def test_the_page_has_an_anchor_for_each_term():
    headings = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [term.name for term in ENTRIES]
