"""The progress bar passes items through and never changes what a notebook stores."""

import pytest

from book_utils.progress import progress


@pytest.fixture
def displayed(monkeypatch):
    shown = []
    monkeypatch.delenv("BOOK_FRONT_END", raising=False)
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


def test_items_pass_through_while_the_bar_fills(displayed):
    values = []
    for item in progress([3, 1, 2], "training"):
        values.append((item, displayed[0].bar.value))
    assert values == [(3, 0), (1, 1), (2, 2)]
    assert displayed[0].bar.value == displayed[0].bar.max == 3


def test_text_is_constant(displayed):
    for _ in progress(range(2), "training"):
        pass
    assert displayed[0]._repr_mimebundle_()["text/plain"] == "training"


def test_nothing_is_shown_while_the_book_is_built(displayed, monkeypatch):
    monkeypatch.setenv("BOOK_FRONT_END", "html")
    assert list(progress(iter("ab"), "training", total=2)) == ["a", "b"]
    assert displayed == []


def test_an_iterator_needs_a_total():
    with pytest.raises(TypeError, match="total is needed for list_iterator"):
        progress(iter([1]), "training")
