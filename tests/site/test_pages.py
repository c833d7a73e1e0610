"""The built pages in a browser: no errors, no network, formulas rendered, sliders that work.

Tests that take `page` only look: they share one opened page. Those that take `visit` open their own.
"""

import itertools
import json
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import url2pathname

import page_report
import pytest
import yaml
from conftest import PAGES, SITE
from notebooks import ROOT, slider_captions, toc_chapters
from playwright.sync_api import expect

CHAPTERS = [f"chapters/{name}.html" for name in toc_chapters()]
WITH_SLIDERS = ["index.html", *CHAPTERS]
chapters_only = pytest.mark.parametrize("page_name", CHAPTERS, indirect=True)
with_sliders = pytest.mark.parametrize("page_name", WITH_SLIDERS, indirect=True)
PHONE = {"width": 390, "height": 844}
SHARED_LIMIT, OWN_LIMIT = 600, 400  # kB, compressed as a web server would
SLIDER_STATE = """figure => ({
    image: figure.querySelector("img").src,
    alt: figure.querySelector("img").alt,
    caption: figure.querySelector("figcaption").textContent,
})"""
# The first of each kind of thing that takes the keyboard's focus.
FOCUSABLE = (
    "article p a", "article summary", "article pre[tabindex]", "input[type=range]",
    "figure button", ".quiz input", ".quiz button", ".bd-sidebar-primary nav a",
    "header button.theme-switch-button", "button.search-button-field, .search-button__button",
    ".page-toc a", ".prev-next-area a",
)  # fmt: skip
LOOK = """e => { const s = getComputedStyle(e);
    return [s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow, s.backgroundColor].join() }"""


def test_the_book_was_built():
    assert "index.html" in PAGES
    assert set(CHAPTERS) <= set(PAGES)


def test_nothing_complains_and_nothing_is_fetched_from_elsewhere(page):
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_formulas_are_rendered(page):
    assert page.locator("mjx-merror").count() == 0
    assert page.locator(".math").count() == page.locator(".math mjx-container").count()
    text = page.locator("article, main").first.inner_text()
    for raw in ("$$", "\\(", "\\[", "\\frac", "\\tag"):
        assert raw not in text


def test_formulas_have_a_form_for_assistive_technology(page):
    """Each formula's glyphs are hidden from it, and MathML that says the same stands beside them."""
    formulas = page.locator("mjx-container").evaluate_all(
        """all => all.map(e => [
            e.querySelector(":scope > mjx-math")?.getAttribute("aria-hidden"),
            e.querySelector(":scope > mjx-assistive-mml > math")?.textContent.trim().length > 0,
        ])"""
    )
    assert all(hidden == "true" and said for hidden, said in formulas)


def test_formulas_have_the_colour_of_the_text(page):
    """Their glyphs inherit it, so axe-core need not look at each of them."""
    other = page.locator("mjx-container").evaluate_all(
        """all => all.filter(e => [...e.querySelectorAll("mjx-math, mjx-math *")].some(glyph =>
            getComputedStyle(glyph).color !== getComputedStyle(e.parentElement).color
        )).map(e => e.textContent)"""
    )
    assert other == []


def test_every_picture_has_a_text(page):
    texts = page.locator("article img").evaluate_all("all => all.map(i => i.alt)")
    assert all(len(text) > 20 for text in texts)


def test_page_names_its_language(page):
    assert page.locator("html").get_attribute("lang") == "en"


def test_headings_are_in_order(page):
    levels = page.locator("main :is(h1, h2, h3, h4, h5, h6)").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_links_in_the_text_can_be_told_from_it_and_say_where_they_lead(page):
    links = page.locator("article :is(p, li, td) a[href]").evaluate_all(
        """all => all.filter(e => e.checkVisibility() && !e.matches(".headerlink, nav a"))
            .map(e => [e.textContent.trim(), getComputedStyle(e).textDecorationLine])"""
    )
    assert [text for text, line in links if "underline" not in line] == []
    assert [text for text, _ in links if text.lower() in ("", "here", "click here", "link")] == []


@pytest.mark.parametrize("scheme", page_report.SCHEMES)
def test_focus_is_visible(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.keyboard.press("Tab")  # from now on the browser shows focus as it does for a keyboard
    for kind in FOCUSABLE:
        found = page.locator(kind).locator("visible=true").first
        if page.locator(kind).locator("visible=true").count() == 0:
            continue
        page.evaluate("document.activeElement.blur()")
        before = found.evaluate(LOOK)
        found.focus()
        assert found.evaluate(LOOK) != before, f"{kind} looks the same with the focus"


def test_reduced_motion_is_honoured(page):
    page.emulate_media(reduced_motion="reduce")
    moving = page.locator("html, body *").evaluate_all(
        """all => all.filter(e => {
            const s = getComputedStyle(e);
            const lasts = times => Math.max(...times.split(",").map(parseFloat)) > 0.01;
            return s.scrollBehavior === "smooth" || lasts(s.transitionDuration)
                || (s.animationName !== "none" && lasts(s.animationDuration));
        }).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert moving == []


def test_on_a_phone_nothing_is_cut_off(page):
    """No sideways scrolling; every figure shown whole; what is wider scrolls, with the keyboard too."""
    page.emulate_media(reduced_motion="reduce")  # the sidebar leaves at once
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(1000)  # the theme gives wide code its tab stop a while after resizing
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    covered = page.locator("article img").evaluate_all(
        """all => all.flatMap(image => {
            image.scrollIntoView({ block: "center", behavior: "instant" });
            const box = image.getBoundingClientRect(), middle = (box.top + box.bottom) / 2;
            const seen = [box.left + 1, box.right - 1].map(x => document.elementFromPoint(x, middle));
            return seen.filter(e => e !== image).map(e => [image.alt, e && e.outerHTML.slice(0, 80)]);
        })"""
    )
    assert covered == []
    unreachable = page.locator("pre, div.math, :has(> table)").evaluate_all(
        "all => all.filter(e => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0)"
        ".map(e => e.textContent.slice(0, 60))"
    )
    assert unreachable == []
    begins_outside = page.locator("div.math:has(mjx-math)").evaluate_all(
        """all => all.filter(box => {
            box.scrollLeft = 0;
            const formula = box.querySelector("mjx-math").getBoundingClientRect();
            return formula.left < box.getBoundingClientRect().left - 1;
        }).map(box => box.textContent.slice(0, 60))"""
    )
    assert begins_outside == []


@pytest.mark.parametrize("scheme", page_report.SCHEMES)
@pytest.mark.parametrize("width", page_report.SIZES)
def test_no_accessibility_violations(page, width, scheme):
    assert page_report.violations(page, width, scheme) == []


@with_sliders
def test_in_print_the_figure_stands_without_its_controls(page):
    page.emulate_media(media="print")
    for figure in page.locator("figure.explore").all():
        assert figure.locator("form").is_hidden()
        assert figure.locator("img").is_visible()
        assert figure.locator("figcaption").is_visible()
    assert page.locator(".bd-sidebar-primary").is_hidden()


def test_internal_links_lead_somewhere(page):
    links = page.locator("a[href]").evaluate_all(
        "all => all.map(a => new URL(a.getAttribute('href'), document.baseURI).href)"
    )  # a.href is not a text where the link is part of a drawing
    here = f"{SITE.as_uri()}/"
    for link in {link for link in links if link.startswith("file:")}:
        assert link.startswith(here), link
        path, _, anchor = link.removeprefix(here).partition("#")
        target = SITE / unquote(path)
        assert target.is_file(), link
        anchor = anchor.partition("?")[0]  # a slider's position follows its name
        if anchor and target.suffix == ".html":
            assert f'id="{anchor}"' in target.read_text(encoding="utf-8"), link


def test_launch_buttons_need_a_repository(page):
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    has_repository = bool(config["repository"]["url"])
    launching = page.locator('a[href*="colab.research"], a[href*="mybinder.org"]')
    assert has_repository or launching.count() == 0


def test_pages_are_light(page):
    for figure in page.locator("figure.explore").all():
        figure.scroll_into_view_if_needed()
    files = {urlsplit(url).path for url in page.requests if url.startswith("file:")}
    sizes = {path: page_report.compressed_size(Path(url2pathname(path))) / 1000 for path in files}
    own = sum(size for path, size in sizes.items() if path.endswith(".html") or "/_frames/" in path)
    assert own <= OWN_LIMIT
    assert sum(sizes.values()) - own <= SHARED_LIMIT


def test_pages_without_formulas_load_no_mathjax(page):
    loads = any("mathjax" in url for url in page.requests)
    assert loads == (page.locator(".math").count() > 0)


@with_sliders
def test_a_slider_s_frame_is_there_when_the_browser_next_paints(page):
    """Counted in display frames, which a busy machine slows down as much as the slider."""
    assert all(frames <= 1 for _, frames in page_report.slider_responses(page))


@pytest.mark.parametrize(
    ("words", "chapter"),
    [("softmax", "red_object_lookup"), ("discretization", "ssm_discretization")],
)
def test_search_works_from_disk(words, chapter, visit):
    page = visit(f"search.html?q={words}")
    page.wait_for_selector("#search-results li a")
    links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    assert any(f"{chapter}.html" in link for link in links)
    assert page.complaints == []


@with_sliders
def test_sliders_move_by_keyboard_through_their_whole_range(page_name, visit):
    page = visit(page_name)
    figures = page.locator("figure.explore")
    for i in range(figures.count()):
        figure = figures.nth(i)
        others = [figures.nth(j) for j in range(figures.count()) if j != i]
        untouched = [other.evaluate(SLIDER_STATE) for other in others]
        for slider in figure.locator("input[type=range]").all():
            slider.focus()
            slider.press("Home")
            states = [figure.evaluate(SLIDER_STATE)]
            for _ in range(int(slider.get_attribute("max"))):
                slider.press("ArrowRight")
                states.append(figure.evaluate(SLIDER_STATE))
            assert slider.input_value() == slider.get_attribute("max")
            for before, after in itertools.pairwise(states):
                assert after["caption"] != before["caption"]
                assert after["image"] != before["image"]
                assert after["alt"] == after["caption"]
            slider.press("Home")
            slider.press("End")
            assert figure.evaluate(SLIDER_STATE) == states[-1]
        figure.get_by_role("button", name="Reset").click()
        page.wait_for_function(
            "f => [...f.querySelectorAll('input')].every(i => i.value === i.defaultValue)",
            arg=figure.element_handle(),
        )
        assert [other.evaluate(SLIDER_STATE) for other in others] == untouched
    assert page.complaints == []


def slider_data(name: str) -> list[dict]:
    """The frames and captions that a page carries for each of its sliders."""
    page = (SITE / name).read_text(encoding="utf-8")
    scripts = re.findall(r'<script type="application/json">(.*?)</script>', page)
    return [data for data in map(json.loads, scripts) if "captions" in data]


@pytest.mark.parametrize("name", toc_chapters())
def test_captions_are_what_the_chapter_computes(name):
    shown = [data["captions"] for data in slider_data(f"chapters/{name}.html")]
    assert shown == slider_captions(name)


def test_the_cover_s_slider_is_a_chapter_s():
    (borrowed,) = slider_data("index.html")
    assert borrowed in [data for name in CHAPTERS for data in slider_data(name)]


@with_sliders
def test_pictures_differ_wherever_captions_do(page_name):
    for data in slider_data(page_name):
        assert len(data["frames"]) == len(data["captions"])
        drawn = list(zip(data["captions"], data["frames"], strict=True))
        for (caption, frame), (next_caption, next_frame) in itertools.pairwise(drawn):
            assert (caption != next_caption) == (frame != next_frame), next_caption


@with_sliders
def test_a_link_can_name_a_slider_s_position(page_name, visit):
    """Whether the page is opened by the link (the first slider's) or the link is followed in it."""
    page, again = visit(page_name), None
    for figure in page.locator("figure.explore").all():
        slider = figure.locator("input[type=range]").first
        slider.focus()
        slider.press("Home")
        slider.press("ArrowRight")
        slider.press("Tab")
        link, caption = page.evaluate("location.hash"), figure.locator("figcaption").inner_text()
        assert link.startswith(f"#{figure.get_attribute('id')}?")
        if again is None:
            again = visit(f"{page_name}{link}")
        else:
            again.evaluate("link => { location.hash = link }", link)
        same = again.locator(f"#{figure.get_attribute('id')} figcaption")
        expect(same).to_have_text(caption)


def test_links_to_a_slider_s_position_are_followed(page, visit):
    links = page.locator('a[href*="#explore-"]').evaluate_all("all => all.map(a => a.href)")
    for link in links:
        name, _, fragment = link.removeprefix(f"{SITE.as_uri()}/").partition("#")
        identity, _, query = fragment.partition("?")
        figure = visit(f"{name}#{fragment}").locator(f"#{identity}")
        sliders = figure.locator("input[type=range]").evaluate_all(
            "all => all.map(slider => [slider.name, slider.nextElementSibling.value])"
        )
        assert sorted(map(tuple, sliders)) == sorted(parse_qsl(query)), link


@chapters_only
def test_the_quiz_answers_back_and_remembers(page_name, visit):
    page = visit(page_name)
    form = page.locator("div.quiz form")
    questions = form.locator("fieldset")
    count = questions.count()
    assert count >= 5
    for question in questions.all():
        question.locator("input").first.focus()
        page.keyboard.press("Space")
        for _ in range(question.locator("input").count()):
            page.keyboard.press("ArrowDown")
            option = question.locator("input:checked")
            right = option.get_attribute("data-right") is not None
            why = question.locator(".quiz-why").inner_text()
            assert why.startswith("Right." if right else "No.")
        question.locator("input[data-right]").check()
    everything = f"{count} right of {count} answered; {count} questions in all."
    assert form.locator("output").inner_text() == everything
    page.wait_for_timeout(500)  # the browser keeps what is stored a moment later
    page.reload()
    assert page.locator("div.quiz output").inner_text() == everything
    page.locator("div.quiz button").click()
    page.wait_for_function(
        "document.querySelector('div.quiz output').value.startsWith('0 right of 0')"
    )
    assert page.complaints == []


@with_sliders
def test_without_javascript_the_default_figure_stands(page_name, visit):
    page = visit(page_name, java_script_enabled=False)
    for figure in page.locator("figure.explore").all():
        assert figure.locator("img").is_visible()
        assert figure.locator("form").is_hidden()
        caption = figure.locator("figcaption").inner_text()
        assert caption == figure.locator("img").get_attribute("alt")
