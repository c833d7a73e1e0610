"""How glossary terms are found in the chapters: what a test checks and nobody has to remember.

A term has spellings: its heading in ``chapters/glossary.md``, and those listed in the comment below
it (``<!-- also: … -->``). A spelling with a capital letter is matched as written, any other in either
case, as whole words; where spellings of several terms overlap, the longest counts ("linear attention"
is no use of "attention").

A chapter uses a term where a spelling occurs in its *running text*: its Markdown cells from the
second to the last before "## Exercises", without headings, tables, code, formulas and link texts
(those of links to the glossary excepted). The first such use is a link to the term, and the only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from notebooks import ROOT, cells

PAGE = ROOT / "chapters/glossary.md"
GLOSSARY_LINK = re.compile(r"\[([^\]]+)\]\(glossary\.md#([\w-]+)\)")
NOT_RUNNING_TEXT = re.compile(
    r"^```.*?^```$|^#+ [^\n]*$|^\|[^\n]*$|\$\$.*?\$\$|\$[^$]+\$|`[^`\n]+`|\[[^\]]*\]\([^)]*\)|<[^>\n]+>",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    name: str
    spellings: tuple[str, ...]
    text: str

    @property
    def anchor(self) -> str:
        """The anchor of its heading, as in every front end that makes anchors in lower case."""
        return re.sub(r"[^\w\- ]", "", self.name.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Use:
    """An occurrence of a term in the running text of one cell."""

    term: Term
    start: int
    end: int
    target: str | None  # the anchor that it links to


def terms() -> list[Term]:
    """The entries of the glossary, in order."""
    entries = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = []
    for entry in entries:
        name, _, body = entry.partition("\n")
        also = re.search(r"<!-- also: (.*?) -->", body)
        more = also[1].split(", ") if also else []
        text = re.sub(r"<!--.*?-->|^## .*$", "", body, flags=re.MULTILINE).strip()
        found.append(Term(name, (name, *more), text))
    return found


def pattern(entries: list[Term]) -> tuple[re.Pattern[str], dict[str, Term]]:
    """One expression for all spellings, the longest first, and whose each is."""
    owner = {spelling: term for term in entries for spelling in term.spellings}
    alternatives = [
        re.escape(s) if s != s.lower() else f"(?i:{re.escape(s)})"
        for s in sorted(owner, key=len, reverse=True)
    ]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(alternatives)})(?![\w-])"), owner


def running_cells(name: str) -> Iterator[tuple[int, str]]:
    """Number (among the Markdown cells) and source of the cells with a chapter's running text."""
    for number, cell in enumerate(cells(name, "markdown")):
        if re.search(r"^## (Exercises|Quiz)$", cell.source, re.MULTILINE):
            return
        if number:
            yield number, cell.source


def uses(source: str, entries: list[Term]) -> list[Use]:
    """The terms used in the running text of a cell, in order."""
    linked = [(m.start(1), m.end(1), m[2]) for m in GLOSSARY_LINK.finditer(source)]
    masked = list(source)
    for match in NOT_RUNNING_TEXT.finditer(source):
        for i in range(*match.span()):
            masked[i] = "\n"
    for start, end, _ in linked:
        masked[start:end] = source[start:end]
    expression, owner = pattern(entries)
    found = []
    for match in expression.finditer("".join(masked)):
        target = next((t for a, b, t in linked if a <= match.start() and match.end() <= b), None)
        term = owner.get(match[0]) or owner[match[0].lower()]
        found.append(Use(term, *match.span(), target))
    return found
