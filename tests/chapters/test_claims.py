"""Each claim of a chapter is a tag on the cell that shows it, and the promised sliders are there."""

import itertools
import json
import re
import statistics
import time

import pytest
from book_site.backmatter import Chapter, anchor, chapters, claims_page
from notebooks import LESSONS, ROOT, contract, prose, read, slider_captions, sliders

from book_utils.explore import pen, svg

CLAIM = re.compile(r"^\d+\.\d+$")


@pytest.mark.parametrize("name", LESSONS)
def test_every_claim_is_tagged_and_every_tag_is_a_claim(name):
    tags = {
        tag
        for cell in read(name).cells
        for tag in cell.metadata.get("tags", [])
        if CLAIM.match(tag)
    }
    assert tags == set(contract(name)["claims"])


@pytest.mark.parametrize("name", LESSONS)
def test_every_claim_is_one_sentence(name):
    for identity, sentence in contract(name)["claims"].items():
        assert sentence.strip().endswith("."), identity
        assert 20 < len(sentence) < 260, identity


@pytest.mark.parametrize("name", LESSONS)
def test_every_position_of_every_slider_can_be_drawn(name):
    found = sliders(name)
    names = [slider.name for slider in found]
    assert len(names) == len(set(names)), "two sliders of a page share a name"
    assert set(contract(name)["sliders"]) <= set(names)
    for slider, captions in zip(found, slider_captions(name, found), strict=True):
        for position, caption in zip(slider.positions(), captions, strict=True):
            assert len(caption) > 20
            assert "nan" not in caption.lower().split()
            assert svg(slider.figure(**position)).startswith(b"<?xml")
        assert len(set(captions)) == len(slider), f"{slider.name}: some positions share a caption"
        assert statistics.median(redraw_times(slider)) < 0.25, f"{slider.name} redraws slowly"


def redraw_times(slider):
    """Processor seconds of redraws in a live notebook; `benchmarks/sliders.py` takes the wall clock."""
    draw, seconds = pen(), []
    for position in itertools.islice(slider.positions(), 9):
        start = time.process_time()
        draw(slider.figure(**position))
        seconds.append(time.process_time() - start)
    return seconds


def test_the_page_of_claims_links_each_to_a_section_that_holds_its_cell():
    lines = dict(re.findall(r"^- \*\*([\d.]+)\*\* (.+)$", claims_page(ROOT), re.MULTILINE))
    assert set(lines) == {claim for name in LESSONS for claim in contract(name)["claims"]}
    for chapter in chapters(ROOT):
        headings = re.findall(r"^##+ (.+)$", prose(chapter.path.stem), re.MULTILINE)
        anchors = {anchor(heading) for heading in headings}
        assert len(anchors) == len(headings)
        for claim in chapter.claims:
            links = re.findall(rf"\({chapter.path.name}#([^)]+)\)", lines[claim])
            assert links, claim
            assert set(links) <= anchors, claim


def test_a_claim_is_shown_under_the_heading_before_its_cell(tmp_path):
    cell = {"cell_type": "code", "metadata": {"tags": ["1.1"]}, "source": ["1"]}
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# 1 · Title\n", "\n", "Text."]}
    section = {"cell_type": "markdown", "metadata": {}, "source": "## 1.1 A $x_t$ here\n\nText."}
    path = tmp_path / "page.ipynb"
    path.write_text(json.dumps({"cells": [text, cell, section, cell, cell]}), encoding="utf-8")
    chapter = Chapter(path)
    assert chapter.title == "1 · Title"
    assert chapter.sections_showing("1.1") == ["1 · Title", "1.1 A $x_t$ here"]
    assert chapter.sections_showing("1.2") == []
    assert anchor("1.1 A $x_t$ here") == "11-a--here"
