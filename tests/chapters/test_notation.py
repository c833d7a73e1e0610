"""Each symbol of the notation page is used in the section that the page names."""

import re

import pytest
from notebooks import ROOT, read

PAGE = (ROOT / "chapters/notation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\$.*?\$) \| .* \| \[([\d.]+)\]\((\w+)\.ipynb\) \|$", PAGE, re.MULTILINE)


def section(name, number):
    """The text and code of one section, from its heading to the next."""
    text = "\n".join(cell.source for cell in read(name).cells)
    found = re.search(rf"^## {re.escape(number)} .*?(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert found, f"{name} has no section {number}"
    return found[0]


@pytest.mark.parametrize(("symbols", "number", "name"), ROWS)
def test_symbols_are_used_in_the_section_that_is_named(symbols, number, name):
    text = re.sub(r"\s", "", section(name, number))
    for symbol in re.findall(r"\$([^$]+)\$", symbols):
        assert re.sub(r"\s", "", symbol) in text, symbol


def test_no_row_is_left_out():
    start = PAGE.index("## Time")
    rows = [line for line in PAGE[start : PAGE.index("## Letters")].splitlines() if "| $" in line]
    assert len(rows) == len(ROWS)
