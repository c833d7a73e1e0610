"""Each claim of a chapter is a tag on the cell that shows it, and the promised sliders are there."""

import re

import pytest
from notebooks import NAMES, contract, read, slider_captions, sliders

from book_utils.explore import svg

CLAIM = re.compile(r"^\d+\.\d+$")


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_tagged_and_every_tag_is_a_claim(name):
    tags = {
        tag
        for cell in read(name).cells
        for tag in cell.metadata.get("tags", [])
        if CLAIM.match(tag)
    }
    assert tags == set(contract(name)["claims"])


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_one_sentence(name):
    for identity, sentence in contract(name)["claims"].items():
        assert sentence.strip().endswith("."), identity
        assert 20 < len(sentence) < 260, identity


@pytest.mark.parametrize("name", NAMES)
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
