"""Joining pages for print: links lead where they led, answers move to the end, nothing is lost."""

import pytest
import single_page
from bs4 import BeautifulSoup
from print_edition import plain

COVER = """
<h1>A book</h1><p><em>Its motto.</em></p><p>See <a href='chapters/one.html#quiz'>this</a>.</p>
<figure><svg aria-labelledby="map-title"><title id="map-title">A map</title></svg></figure>
"""
ONE = """
<section id="one"><h1>1 · One<a class="headerlink" href="#one">#</a></h1>
<p><a href="two.html">two</a> <a href="two.html#explore-x?d=2">a figure</a> <a href="#quiz">below</a>
<a href="https://example.org/">web</a> <a href="../_sources/one.ipynb">the file</a></p>
<figure class="explore" id="explore-y"><form><div class="explore-control"><label>width</label>
<output>64 units</output></div></form><img src="../_frames/f.svg" alt="a frame">
<figcaption>What is seen.</figcaption><script>{"frames": []}</script></figure>
<details><summary>More</summary><p>An aside.</p></details>
<section id="exercises"><h2>Exercises</h2>
<section id="exercise-1-1-count-easy"><h3>Exercise 1.1 · Count (easy)</h3>
<details><summary>Hint</summary><p>Use your fingers.</p></details>
<details><summary>Solution</summary><p>It is ten.</p></details></section></section>
<section id="quiz"><h2>Quiz</h2><div class="quiz"><div class="quiz-folded"><ol>
<li>How many?<ul><li>ten</li></ul><details><summary>Answer</summary><p>Ten it is.</p></details></li>
</ol></div><form hidden><input type="radio"></form></div></section></section>
"""
TWO = """
<section id="two"><h1>2 · Two</h1>
<section id="quiz"><h2>Quiz</h2><p id="explore-x">x</p></section>
<section id="a"><h2>A</h2><p>as in a glossary</p></section></section>
"""
BOOK = [
    single_page.Page("index", ""),
    single_page.Page("chapters/one", "Part"),
    single_page.Page("chapters/two", "Part"),
]


@pytest.fixture
def site(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/pygments.css").write_text(".k { color: blue }")
    (tmp_path / "_static/book.css").write_text(".quiz { margin: 0 }")
    for name, body in {"index": COVER, "chapters/one": ONE, "chapters/two": TWO}.items():
        page = f"<html><body><nav>menu</nav><article>{body}</article></body></html>"
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
    return tmp_path


@pytest.fixture
def joined(site):
    return single_page.join(site, BOOK, "A book", "Ann Author", "1.2.3")


@pytest.fixture
def soup(joined):
    return BeautifulSoup(joined.html, "html.parser")


def test_links_lead_where_they_led(soup):
    links = {
        a.get_text(): a["href"] for a in soup.select(".chapter a") if "page" not in a.get_text()
    }
    assert links == {
        "this": "#one--quiz",
        "two": "#two",
        "a figure": "#two--explore-x",
        "below": "#one--quiz",
        "web": "https://example.org/",
    }
    assert "the file" in soup.get_text()
    ids = [element["id"] for element in soup.select("[id]")]
    assert len(ids) == len(set(ids))
    assert soup.svg["aria-labelledby"] in ids
    inside = [a["href"][1:] for a in soup.select("a[href^='#']")]
    assert set(inside) <= set(ids)


def test_answers_move_to_the_end_and_are_pointed_to(soup):
    chapter, last = soup.find(id="one"), soup.find(id="answers")
    for text in ("Use your fingers.", "It is ten.", "Ten it is."):
        assert text not in chapter.get_text()
        assert text in last.get_text()
    titles = [heading.get_text() for heading in last.select("h4")]
    assert titles == ["Exercise 1.1, hint", "Exercise 1.1, solution", "Quiz, question 1"]
    targets = [place["data-page-of"] for place in chapter.select("[data-page-of]")]
    assert targets == [answer["id"] for answer in last.select(".answer")]


def test_other_folded_text_is_opened(soup):
    (aside,) = soup.select("details")
    assert aside.has_attr("open")
    assert "An aside." in aside.get_text()


def test_figures_keep_caption_and_default_position_and_lose_their_controls(soup):
    figure = soup.select_one("figure.explore")
    assert not figure.select("form, script, input")
    assert "What is seen." in figure.get_text()
    assert "Drawn for width = 64 units; the web edition has a slider." in figure.get_text()
    assert figure.img["src"].startswith("file:")


def test_contents_name_parts_chapters_and_sections(joined):
    lines = [(entry.level, entry.text) for entry in joined.contents]
    assert lines == [
        (1, "About this book"),
        (0, "Part"),
        (1, "1 · One"),
        (2, "Exercises"),
        (2, "Quiz"),
        (1, "2 · Two"),
        (2, "Quiz"),
        (0, "Answers"),
        (1, "Hints, solutions and answers"),
        (2, "1 · One"),
    ]


def test_the_title_page_has_the_motto_that_the_cover_loses(soup):
    title = soup.find(class_="title-page").get_text()
    assert all(word in title for word in ("A book", "Its motto.", "Ann Author", "1.2.3"))
    assert "Its motto." not in soup.find(id="index").get_text()


def test_a_page_that_is_not_built_and_one_that_is_empty_are_refused(site):
    with pytest.raises(FileNotFoundError):
        single_page.join(site, [*BOOK, single_page.Page("chapters/three", "")], "t", "a", "v")
    (site / "chapters/two.html").write_text("<html><body></body></html>")
    with pytest.raises(ValueError, match="no article"):
        single_page.join(site, BOOK, "t", "a", "v")


def test_two_pages_of_one_name_are_refused(site):
    (site / "two.html").write_text((site / "chapters/two.html").read_text())
    with pytest.raises(ValueError, match="the id 'two"):
        single_page.join(site, [*BOOK, single_page.Page("two", "")], "t", "a", "v")


def test_bookmarks_have_no_tex():
    assert plain(r"1.5 Why divide by \(\sqrt{d_k}\)") == "1.5 Why divide by √d_k"
    assert plain("2 · Two") == "2 · Two"
