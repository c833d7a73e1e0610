"""Join the built pages into one page for paper: a title page, contents, chapters, then answers.

Sphinx has a single-page builder, but chapters use the same anchors ("exercises", "quiz"), which it
would confuse. Here each anchor is given the name of its page, so every link leads where it led.
"""

import html
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parent.parent
WHOLE = 28  # code of at most so many lines is not split between pages
STYLE = ROOT / "assets/print.css"
UNPRINTED = "script, form, .headerlink, .prev-next-footer, [hidden]:not(.quiz-folded)"


@dataclass(frozen=True)
class Page:
    """One built page: its name ("chapters/attention"), and the part of the book it is in."""

    name: str
    part: str


@dataclass(frozen=True)
class Answer:
    """A hint, a solution or the answer to a question, moved from its chapter to the end."""

    chapter: str
    body: str


@dataclass(frozen=True)
class Entry:
    """A line of the contents: its level (0 a part, 1 a chapter, 2 a section), text and anchor."""

    level: int
    text: str
    anchor: str


@dataclass(frozen=True)
class Joined:
    """The book as one HTML page, and its contents."""

    html: str
    contents: list[Entry]


def pages(root: Path = ROOT) -> list[Page]:
    """The pages of the book in the order of ``_toc.yml``; the cover comes first."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts = toc.get("parts", [{"chapters": toc.get("chapters", [])}])
    listed = [
        Page(entry["file"], part.get("caption", "")) for part in parts for entry in part["chapters"]
    ]
    return [Page(toc["root"], ""), *listed]


def join(site: Path, book: list[Page], title: str, author: str, version: str) -> Joined:
    """The whole book as one HTML page that lies anywhere, with its pictures left in `site`.

    Args:
        site: the folder of the built HTML book.
        book: its pages, in order; the first is the cover.
        title: of the book.
        author: of the book.
        version: of the book.

    Raises:
        FileNotFoundError: a page has not been built.
        ValueError: a page has no article, or two elements of the whole have one id.
    """
    names = {page.name for page in book}
    articles = [(page, _article(site, page.name, names)) for page in book]
    cover = articles[0][1]
    front = _title_page(cover, title, author, version)
    answers = [answer for page, article in articles for answer in _move_answers(page.name, article)]
    if answers:
        articles.append((Page("answers", "Answers"), _answers_section(answers)))
    contents = _contents(articles)
    chapters = [_chapter(page, article) for page, article in articles]
    body = "\n".join([front, _contents_section(contents), *chapters])
    _check_ids(body)
    joined = _TEMPLATE.format(
        title=html.escape(title),
        style=_style(site, articles, title),
        mathjax=(site / "vendor/mathjax/startup.js").as_uri(),
        settings=_mathjax_settings(site, names),
        body=body,
    )
    return Joined(joined, contents)


def anchor(page: str, fragment: str = "") -> str:
    """The id in the joined page of a page, or of a place on it."""
    name = page.rpartition("/")[2]
    return f"{name}--{fragment}" if fragment else name


def _article(site: Path, name: str, names: set[str]) -> Tag:
    path = site / f"{name}.html"
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    article = soup.find("article")
    if article is None:
        raise ValueError(f"{path} has no article")
    _describe_positions(soup, article)
    for element in article.select(UNPRINTED):
        element.decompose()
    for element in article.select("[id]:not(svg [id])"):  # a drawing refers to its own parts by id
        element["id"] = anchor(name, element["id"])
    for code in article.select("pre"):
        if code.get_text().count("\n") <= WHOLE:
            code["class"] = "whole"
    for link in article.select("a[href]"):
        target = _target(link["href"], name, names)
        if target:
            link["href"] = target
        else:
            link.unwrap()
    for picture in article.select("img[src]"):
        if not picture["src"].startswith("data:"):
            picture["src"] = (path.parent / picture["src"]).resolve().as_uri()
    return article


def _describe_positions(soup: BeautifulSoup, article: Tag) -> None:
    """Under each figure with sliders: where they stand in the picture."""
    for figure in article.select("figure.explore"):
        controls = figure.select(".explore-control")
        where = ", ".join(f"{c.label.get_text()} = {c.output.get_text()}" for c in controls)
        note = soup.new_tag("p", attrs={"class": "position"})
        note.string = f"Drawn for {where}; the web edition has a slider."
        if len(controls) > 1:
            note.string = note.string.replace("a slider", "sliders")
        figure.append(note)


def _target(href: str, name: str, names: set[str]) -> str | None:
    """Where a link of page `name` leads on paper: to the web, to a printed page, or nowhere."""
    if re.match(r"[a-z]+:", href):
        return href
    path, _, fragment = href.partition("#")
    page = name
    if path:
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        page = page.removesuffix(".html")
    if page not in names:
        return None
    return "#" + anchor(page, fragment.partition("?")[0])


def _move_answers(name: str, article: Tag) -> list[Answer]:
    """Take hints, solutions and quiz answers out of a page, leaving references to them."""
    moved = []
    for number, details in enumerate(article.select("details"), start=1):
        heading = details.find_parent("section").find(re.compile("^h[1-6]$")).get_text()
        item = details.find_parent("li")
        if item and details.find_parent(class_="quiz"):
            count = len(item.find_previous_siblings("li")) + 1
            title = f"Quiz, question {count}"
        elif heading.startswith("Exercise"):
            title = f"{heading.partition(' · ')[0]}, {details.summary.get_text().lower()}"
        else:
            details["open"] = ""
            continue
        here = anchor(name, f"answer-{number}")
        kind = details.summary.get_text()
        details.summary.decompose()
        body = f'<div class="answer" id="{here}"><h4>{title}</h4>{details.decode_contents()}</div>'
        details.replace_with(
            BeautifulSoup(
                f'<p class="to-answer"><a href="#{here}">{kind}: page '
                f'<span data-page-of="{here}"></span></a></p>',
                "html.parser",
            )
        )
        moved.append(Answer(article.find("h1").get_text(), body))
    return moved


def _answers_section(answers: list[Answer]) -> Tag:
    soup = BeautifulSoup("<article><h1>Hints, solutions and answers</h1></article>", "html.parser")
    for title in dict.fromkeys(answer.chapter for answer in answers):
        name = anchor("answers", re.sub(r"\W+", "-", title.lower()).strip("-"))
        inner = "".join(answer.body for answer in answers if answer.chapter == title)
        section = f'<section id="{name}"><h2>{html.escape(title)}</h2>{inner}</section>'
        soup.article.append(BeautifulSoup(section, "html.parser"))
    return soup.article


def _title_page(cover: Tag, title: str, author: str, version: str) -> str:
    """The title page; the cover's own heading and motto, which it repeats, are taken off the cover."""
    motto = cover.find("em")
    subtitle = motto.get_text() if motto else ""
    cover.find("h1").string = "About this book"
    if motto and motto.parent.get_text() == subtitle:
        motto.parent.decompose()
    return (
        f'<section class="title-page"><h1>{html.escape(title)}</h1>'
        f'<p class="subtitle">{html.escape(subtitle)}</p><p>{html.escape(author)}</p>'
        f'<p class="edition">Version {version} · print edition<br>'
        "Text and figures CC BY 4.0, code MIT</p></section>"
    )


def _contents(articles: list[tuple[Page, Tag]]) -> list[Entry]:
    entries, part = [], ""
    for number, (page, article) in enumerate(articles):
        if page.part != part:
            part = page.part
            entries.append(Entry(0, part, anchor(page.name)))
        entries.append(Entry(1, article.find("h1").get_text(), anchor(page.name)))
        if number > 0:
            sections = [(s.h2.get_text(), s["id"]) for s in article.select("section:has(> h2)")]
            entries += [Entry(2, *each) for each in sections if len(each[0]) > 1]  # no lone letters
    return entries


def _contents_section(contents: list[Entry]) -> str:
    def line(entry: Entry) -> str:
        text = html.escape(entry.text)
        if entry.level == 0:
            return f'<p class="part">{text}</p>'
        return (
            f'<p class="level-{entry.level}"><a href="#{entry.anchor}">{text}</a>'
            f'<span class="dots"></span><span data-page-of="{entry.anchor}"></span></p>'
        )

    return f'<section class="contents"><h1>Contents</h1>{"".join(map(line, contents))}</section>'


def _chapter(page: Page, article: Tag) -> str:
    name = anchor(page.name)
    return f'<section class="chapter" id="{name}" style="page: {name}">{article.decode_contents()}</section>'


def _style(site: Path, articles: list[tuple[Page, Tag]], title: str) -> str:
    """The colours of code, the book's look, the rules for paper, and a running head a chapter."""
    heads = "\n".join(
        f"@page {anchor(page.name)} {{ @top-left {{ content: {_quoted(title)} }} "
        f"@top-right {{ content: {_quoted(article.find('h1').get_text())} }} }}"
        for page, article in articles
    )
    sheets = (site / "_static/pygments.css", site / "_static/book.css", STYLE)
    return "\n".join([*(sheet.read_text(encoding="utf-8") for sheet in sheets), _fonts(), heads])


def _fonts() -> str:
    """Fonts that come with Matplotlib, so that the print edition looks the same everywhere."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts/ttf"
    faces = [
        ("Book Serif", 400, "normal", "STIXGeneral.ttf"),
        ("Book Serif", 400, "italic", "STIXGeneralItalic.ttf"),
        ("Book Serif", 700, "normal", "STIXGeneralBol.ttf"),
        ("Book Serif", 700, "italic", "STIXGeneralBolIta.ttf"),
        ("Book Mono", 400, "normal", "DejaVuSansMono.ttf"),
        ("Book Mono", 700, "normal", "DejaVuSansMono-Bold.ttf"),
        ("Book Mono", 400, "italic", "DejaVuSansMono-Oblique.ttf"),
        ("Book Sans", 400, "normal", "DejaVuSans.ttf"),
        ("Book Sans", 700, "normal", "DejaVuSans-Bold.ttf"),
    ]
    return "\n".join(
        f"@font-face {{ font-family: '{family}'; font-weight: {weight}; font-style: {style}; "
        f"src: url('{(folder / file).as_uri()}') }}"
        for family, weight, style, file in faces
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mathjax_settings(site: Path, names: set[str]) -> str:
    """The book's own settings of MathJax, as the built pages carry them.

    Its hidden MathML is left out: in a PDF it would stand beside each formula a second time.
    """
    for name in sorted(names):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        found = re.search(r"<script>(window\.MathJax = .*?)</script>", text, re.DOTALL)
        if found:
            return found[1].replace(', "a11y/assistive-mml"', "")
    return ""


def _check_ids(body: str) -> None:
    seen: set[str] = set()
    for identity in re.findall(r'\sid="([^"]+)"', body):
        if identity in seen:
            raise ValueError(f"two elements of the book have the id {identity!r}")
        seen.add(identity)


_TEMPLATE = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
{style}
</style>
<script>{settings}</script>
<script defer src="{mathjax}"></script>
</head>
<body>
{body}
</body>
</html>
"""
