"""Write the pages that only repeat what stands elsewhere: the bibliography and the list of claims.

``chapters/bibliography.md`` and ``chapters/claims.md`` hold a comment, ``<!-- bibliography -->`` and
``<!-- claims -->``, which is replaced while the book is built: by the entries of ``references.bib``,
and by the claims in ``chapters/claims`` with a link to where each is shown.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml
from myst_parser.mdit_to_docutils.base import default_slugify
from pybtex.database import Entry, Person, parse_file
from pybtex.richtext import Text
from sphinx.application import Sphinx

# The keywords of references.bib: the headings of the bibliography, in order.
TOPICS = {
    "attention": "Attention and the transformer",
    "cost": "What attention costs",
    "long": "Longer memories for transformers",
    "ssm": "State-space models and recurrences",
    "gated": "Linear attention, gates and selection",
    "limits": "What a memory can hold",
    "estimation": "Estimation and control",
    "training": "Learning from trajectories",
    "world": "World models",
}
VENUES = ("journal", "booktitle", "institution", "publisher")
FEW = 10  # authors; of longer lists the page shows the first ones


@dataclass(frozen=True)
class Chapter:
    """A notebook that states claims."""

    path: Path

    @cached_property
    def cells(self) -> list[dict]:
        """Its cells as stored."""
        return json.loads(self.path.read_text(encoding="utf-8"))["cells"]

    @cached_property
    def title(self) -> str:
        """Its first heading, such as "1 · Attention over trajectories"."""
        return self.prose.partition("\n")[0].removeprefix("# ")

    @property
    def prose(self) -> str:
        """All its Markdown."""
        return "\n\n".join(_source(c) for c in self.cells if c["cell_type"] == "markdown")

    @property
    def claims(self) -> dict[str, str]:
        """What it must show, by number."""
        file = self.path.parent / "claims" / f"{self.path.stem}.yml"
        return yaml.safe_load(file.read_text(encoding="utf-8"))["claims"]

    def sections_showing(self, claim: str) -> list[str]:
        """The headings under which the cells tagged `claim` stand, each once."""
        found, heading = {}, self.title
        for cell in self.cells:
            if cell["cell_type"] == "markdown":
                headings = re.findall(r"^##+ (.+)$", _source(cell), re.MULTILINE)
                heading = headings[-1] if headings else heading
            if claim in cell["metadata"].get("tags", []):
                found[heading] = None
        return list(found)


def chapters(root: Path) -> list[Chapter]:
    """The notebooks with claims, in the order of _toc.yml."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    files = [root / entry["file"] for part in toc.get("parts", []) for entry in part["chapters"]]
    stated = [f for f in files if (f.parent / "claims" / f"{f.name}.yml").exists()]
    return [Chapter(file.with_suffix(".ipynb")) for file in stated]


def anchor(heading: str) -> str:
    """The anchor that a heading gets, which leaves formulas out."""
    return default_slugify(re.sub(r"\$[^$]*\$", "", heading))


def claims_page(root: Path) -> str:
    """Each claim as a sentence with links to the sections that show it."""
    return "\n".join(line for chapter in chapters(root) for line in _claims_of(chapter))


def _claims_of(chapter: Chapter) -> Iterator[str]:
    yield f"\n## {chapter.title}\n"
    for number, sentence in chapter.claims.items():
        links = [
            f"[{heading}]({chapter.path.name}#{anchor(heading)})"
            for heading in chapter.sections_showing(number)
        ]
        yield f"- **{number}** {_escape(sentence)} Shown in {_listed(links)}."


def bibliography_page(root: Path) -> str:
    """Each work with its annotation and the chapters that cite it, by topic and year."""
    works = parse_file(str(root / "references.bib"), "bibtex").entries
    texts = chapters(root)
    lines = []
    for topic, title in TOPICS.items():
        lines.append(f"\n## {title}\n")
        chosen = [work for work in works.values() if work.fields["keywords"] == topic]
        for work in sorted(chosen, key=lambda w: (w.fields["year"], w.key)):
            lines.append(
                f"- {reference(work)} {_plain(work.fields['annotation'])}{_cited(work, texts)}"
            )
    return "\n".join(lines)


def reference(work: Entry) -> str:
    """A work as a line of Markdown: authors, year, linked title, where it appeared."""
    names = [_name(person) for person in work.persons["author"]]
    if len(names) > FEW:
        names = [*names[:3], f"{len(names) - 3} others"]
    authors = _listed(names).removesuffix(".")
    title = f"[{_plain(work.fields['title'])}]({links(work)[0]})"
    return f"{authors} ({work.fields['year']}). {title}. {_where(work)}."


def links(work: Entry) -> list[str]:
    """The addresses of a work, the freely readable one first."""
    fields = work.fields
    found = [f"https://arxiv.org/abs/{fields['eprint']}"] if "eprint" in fields else []
    found += [f"https://doi.org/{fields['doi']}"] if "doi" in fields else []
    return found + ([fields["url"]] if "url" in fields else [])


def _where(work: Entry) -> str:
    fields = work.fields
    venue = next(fields[name] for name in VENUES if name in fields)
    parts = [f"*{_plain(venue)}*"]
    parts += [f"edition {fields['edition']}"] if "edition" in fields else []
    if "volume" in fields:
        parts[0] += f" {fields['volume']}" + (f"({fields['number']})" if "number" in fields else "")
    elif "number" in fields:
        parts.append(fields["number"])
    if "pages" in fields:
        parts.append(fields["pages"].replace("--", "–"))
    if "eprint" in fields and fields["eprint"] not in venue:
        parts.append(f"arXiv:{fields['eprint']}")
    if "doi" in fields:
        parts.append(f"[doi:{fields['doi']}](https://doi.org/{fields['doi']})")
    return ", ".join(parts)


def _cited(work: Entry, texts: list[Chapter]) -> str:
    citing = [c for c in texts if any(f"({link})" in c.prose for link in links(work))]
    if not citing:
        return ""
    named = [f"[chapter {c.title.partition(' ')[0]}]({c.path.name})" for c in citing]
    return f" Cited in {_listed(named)}."


def _name(person: Person) -> str:
    parts = [*person.first_names, *person.middle_names, *person.prelast_names, *person.last_names]
    return _plain(" ".join(parts))


def _plain(latex: str) -> str:
    return str(Text.from_latex(latex))


def _listed(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>$])", r"\\\1", text)


def _source(cell: dict) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


PAGES = {
    "chapters/bibliography": ("<!-- bibliography -->", bibliography_page),
    "chapters/claims": ("<!-- claims -->", claims_page),
}


def connect(app: Sphinx) -> None:
    """Hook into the reading of pages."""
    app.connect("env-get-outdated", read_again)
    app.connect("source-read", fill)


def read_again(_app: Sphinx, env: object, added: set, changed: set, removed: set) -> list[str]:
    """Make the pages anew in every build: what they repeat may have changed."""
    return [page for page in PAGES if page in getattr(env, "found_docs", ())]


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the generated text in the place of its comment."""
    if page in PAGES:
        comment, make = PAGES[page]
        source[0] = source[0].replace(comment, make(Path(app.srcdir)))
