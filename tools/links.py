"""Check that every link of the book to the outside still leads somewhere.

``python tools/links.py`` reads the chapters, the pages and ``references.bib``, asks for each address (a
few times, if need be) and lists those that are gone, with where they stand. A site that answers but
refuses programs is listed too; that alone is no failure.
"""

import argparse
import re
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "chapters/*.md", "chapters/*.ipynb", "references.bib")
LINK = re.compile(r"https?://(?:(?!\]\()[^\s<>\"'`{}\\])+")
EXAMPLE = re.compile(r"//localhost|/(HUB|NAME|YOU)/")  # stands for an address of the reader's
BIB_FIELDS = {"doi": "https://doi.org/", "eprint": "https://arxiv.org/abs/"}
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; link check of a textbook)"}
REFUSED = {401, 403, 405, 406, 429, 451, 999}  # the page may well be there for a person
TRIES, TIMEOUT, PAUSE = 4, 20, 5  # pause and timeout in seconds
GOOD, REFUSES, GONE = "good", "refuses programs", "gone"


def links_in(text: str) -> set[str]:
    """The addresses in a Markdown text, without the punctuation around them."""
    found = set()
    for link in LINK.findall(text):
        while link and (link[-1] in ".,;:!?*_]" or (link[-1] == ")" and _unbalanced(link))):
            link = link[:-1]
        found.add(link)
    return {link.partition("#")[0] for link in found if not EXAMPLE.search(link)}


def _unbalanced(link: str) -> bool:
    return link.count(")") > link.count("(")


def text_of(path: Path) -> str:
    """What a reader can click in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        notebook = nbformat.reads(text, as_version=4)
        return "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    if path.suffix == ".bib":
        entries = re.findall(r"\b(doi|eprint)\s*=\s*\{([^}]+)\}", text)
        return text + "\n".join(f" {BIB_FIELDS[field]}{value} " for field, value in entries)
    return text


def collect(root: Path) -> dict[str, list[str]]:
    """Every address, with the files that link to it."""
    places: dict[str, list[str]] = defaultdict(list)
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            for link in sorted(links_in(text_of(path))):
                places[link].append(path.relative_to(root).as_posix())
    return dict(places)


def status(link: str) -> tuple[str, str]:
    """One try: whether the address is good, and what it answered."""
    request = urllib.request.Request(link, headers=HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return GOOD, str(answer.status)
    except urllib.error.HTTPError as error:
        return (REFUSES if error.code in REFUSED else GONE), str(error.code)
    except (OSError, ValueError) as error:
        return GONE, str(error)


def check(link: str, *, tries: int = TRIES, pause: float = PAUSE) -> tuple[str, str]:
    """Several tries, further and further apart; the first good answer or the last bad one."""
    for number in range(tries):
        verdict = status(link)
        if verdict[0] == GOOD or verdict[1] in {"404", "410"}:
            break
        if number + 1 < tries:
            time.sleep(pause * 2**number)
    return verdict


def report(places: dict[str, list[str]], verdicts: Iterable[tuple[str, str]]) -> int:
    """Print what is not good; the number of addresses that are gone."""
    gone = 0
    for (link, files), (kind, answer) in zip(places.items(), verdicts, strict=True):
        gone += kind == GONE
        if kind != GOOD:
            print(f"{kind} ({answer}): {link}\n    in {', '.join(files)}")
    print(f"{len(places)} links, {gone} gone")
    return gone


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="only list the links")
    options = parser.parse_args()
    places = collect(ROOT)
    if options.list:
        print("\n".join(places))
        return 0
    with ThreadPoolExecutor(4) as pool:
        return int(report(places, pool.map(check, places)) > 0)


if __name__ == "__main__":
    sys.exit(main())
