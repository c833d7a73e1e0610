"""The map of chapters on the cover agrees with the table of contents and with the chapters' openers."""

import re
from xml.etree import ElementTree

from notebooks import ROOT, SUMMARY, cells, toc_chapters

COVER = (ROOT / "index.md").read_text(encoding="utf-8")
MAP = ElementTree.fromstring(re.search(r"<svg.*?</svg>", COVER, re.DOTALL)[0])
SVG = "{http://www.w3.org/2000/svg}"
ARROWS = [
    (p.get("data-from"), p.get("data-to")) for p in MAP.iter(f"{SVG}path") if p.get("data-to")
]


def number(name):
    return re.match(r"# (\d+) · ", cells(name, "markdown")[0].source)[1]


def before(name):
    """The chapters from which arrows lead to this one, directly or through others."""
    direct = {start for start, end in ARROWS if end == name}
    return direct.union(*(before(start) for start in direct))


def test_every_chapter_is_in_the_map_and_in_the_table():
    boxes = {link.get("href"): link for link in MAP.iter(f"{SVG}a")}
    assert sorted(boxes) == sorted(f"chapters/{name}.html" for name in toc_chapters())
    for name in toc_chapters():
        assert f"| {number(name)} | [" in COVER
        assert f"](chapters/{name}.ipynb) |" in COVER
        lines = [text.text for text in boxes[f"chapters/{name}.html"].iter(f"{SVG}text")]
        title = cells(name, "markdown")[0].source.partition("\n")[0]
        assert title == f"# {lines[0]} · {' '.join(lines[1:])}"


def test_arrows_lead_from_what_a_chapter_says_it_needs():
    for name in toc_chapters():
        opener = cells(name, "markdown")[0].source
        need = re.search(r"\*\*You need\*\*(.*)", opener)[1]
        sentences = [s for s in re.split(r"(?<=[.;])\s", need) if "not needed" not in s]
        needed = set(re.findall(r"\((\w+)\.ipynb\)", " ".join(sentences)))
        assert needed <= before(name), name


def test_the_map_is_put_into_words():
    words = MAP.find(f"{SVG}desc").text
    for name in toc_chapters():
        assert re.search(rf"\b{number(name)}\b", words), name
    assert MAP.get("aria-labelledby").split() == ["map-title", "map-words"]
    assert before(SUMMARY)
