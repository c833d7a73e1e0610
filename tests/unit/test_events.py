"""Event tasks: what is in a sequence, what is controlled, and the table of the sweep."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import events
from book_utils.events import OBJECT, QUERY, VALUE, WRITE, RecallTask, SumTask

PROPERTY = settings(deadline=None, max_examples=40, derandomize=True)


@st.composite
def recall_draws(draw):
    task = RecallTask(draw(st.integers(1, 5)), draw(st.booleans()), draw(st.integers(1, 6)))
    T = draw(st.integers(20, 40))
    distance = draw(st.none() | st.integers(1, task.longest(T)))
    gap = draw(st.none() | st.integers(1, task.max_gap)) if task.moved else None
    seed = draw(st.integers(0, 2**31))
    return task, T, distance, gap, task.draw(seed, 6, T, distance=distance, gap=gap)


def things(tokens):
    return tokens[..., OBJECT:].argmax(axis=-1)


@PROPERTY
@given(recall_draws())
def test_the_answer_is_what_a_dictionary_would_say(case):
    *_, batch = case
    np.testing.assert_array_equal(events.recall_by_dictionary(batch.tokens), batch.targets)


@PROPERTY
@given(recall_draws())
def test_every_object_is_written_as_often_as_the_task_says(case):
    task, _T, _distance, _gap, batch = case
    for sequence in batch.tokens:
        written = things(sequence)[sequence[:, WRITE] == 1]
        counts = np.bincount(written, minlength=task.objects)
        assert (counts == (2 if task.moved else 1)).all()


@PROPERTY
@given(recall_draws())
def test_distance_and_gap_are_where_they_should_be(case):
    task, T, distance, gap, batch = case
    for sequence, k in zip(batch.tokens, batch.at, strict=True):
        mine = (sequence[:, WRITE] == 1) & (things(sequence) == things(sequence)[-1])
        slots = np.flatnonzero(mine)
        assert T - 1 - slots[-1] == k
        assert 1 <= k <= task.longest(T)
        assert distance in (None, k)
        if task.moved:
            assert 1 <= slots[1] - slots[0] <= task.max_gap
            assert gap in (None, slots[1] - slots[0])


@PROPERTY
@given(recall_draws())
def test_form_of_the_tokens(case):
    task, T, *_, batch = case
    x = batch.tokens
    assert x.shape == (6, T, task.width)
    np.testing.assert_array_equal(x[..., OBJECT:].sum(-1), 1)
    np.testing.assert_array_equal(x[:, :-1, QUERY], 0)
    np.testing.assert_array_equal(x[:, -1, [VALUE, WRITE, QUERY]], [[0, 0, 1]] * 6)
    assert (abs(x[..., VALUE]) <= events.LARGEST).all()


def test_values_have_variance_one_and_writes_are_no_larger_than_distractors():
    batch = RecallTask(3, True).draw(0, 4000)
    written = batch.tokens[..., WRITE] == 1
    for values in (batch.targets, batch.tokens[:, :-1, VALUE][~written[:, :-1]]):
        uniform = scipy.stats.uniform(-np.sqrt(3), 2 * np.sqrt(3))
        assert scipy.stats.kstest(values[:4000], uniform.cdf).pvalue > 0.01


def test_distance_and_gap_are_uniform_and_independent():
    batch = RecallTask(1, True).draw(1, 20000)
    writes = batch.tokens[..., WRITE] == 1
    last = 47 - batch.at
    gap = last - writes.argmax(axis=1)
    table = np.zeros((39, 8))
    np.add.at(table, (batch.at - 1, gap - 1), 1)
    assert scipy.stats.chisquare(table.sum(1)).pvalue > 0.01
    assert scipy.stats.chisquare(table.sum(0)).pvalue > 0.01
    assert scipy.stats.chi2_contingency(table).pvalue > 0.01


def test_every_object_is_asked_for_equally_often():
    asked = things(RecallTask(4).draw(2, 8000).tokens)[:, -1]
    assert scipy.stats.chisquare(np.bincount(asked)).pvalue > 0.01


def test_the_same_seed_draws_the_same():
    one, two = (RecallTask(2, True).draw(5, 3) for _ in range(2))
    np.testing.assert_array_equal(one.tokens, two.tokens)
    assert (one.tokens != RecallTask(2, True).draw(6, 3).tokens).any()


@PROPERTY
@given(st.integers(1, 12), st.integers(14, 30), st.none() | st.integers(1, 13), st.integers(0, 999))
def test_the_sum_is_the_sum_of_the_writes(most, T, items, seed):
    batch = SumTask(most).draw(seed, 5, T, items=items)
    for x, target, count in zip(batch.tokens, batch.targets, batch.at, strict=True):
        assert x[:, WRITE].sum() == count
        assert items in (None, count)
        assert items or 1 <= count <= most
        assert target == pytest.approx(sum(v for v, w, *_ in x if w) / np.sqrt(most), abs=1e-12)
        np.testing.assert_array_equal(x[-1], [0, 0, 1, 1])


def test_the_sum_has_a_variance_of_items_over_most():
    batch = SumTask(16).draw(3, 20000, items=4)
    assert batch.targets.var() == pytest.approx(4 / 16, rel=0.05)


def test_the_dictionary_takes_the_last_write_by_hand():
    x = np.zeros((1, 5, 5))
    x[0, :, OBJECT] = 1
    x[0, 0, [VALUE, WRITE]] = 3.0, 1
    x[0, 2, [VALUE, WRITE]] = -1.0, 1
    x[0, 3, [VALUE, WRITE]] = 9.0, 1
    x[0, 3, [OBJECT, OBJECT + 1]] = 0, 1  # another object
    x[0, 4, QUERY] = 1
    assert events.recall_by_dictionary(x) == [-1.0]


def test_the_dictionary_refuses_what_it_cannot_answer():
    x = RecallTask(2).draw(0, 2).tokens
    for bad, why in (
        (x[0], "shape"),
        (x[:, :-1], "end with a query"),
        (x * np.nan, "finite"),
    ):
        with pytest.raises(ValueError, match=why):
            events.recall_by_dictionary(bad)
    x[..., WRITE] = 0
    with pytest.raises(ValueError, match="never written"):
        events.recall_by_dictionary(x)


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda: RecallTask(0), ValueError, "objects"),
        (lambda: RecallTask(1.0), TypeError, "objects"),
        (lambda: RecallTask(1, "yes"), TypeError, "moved"),
        (lambda: RecallTask(1, True, 0), ValueError, "max_gap"),
        (lambda: RecallTask().draw(0, 0), ValueError, "N must"),
        (lambda: RecallTask().draw(None, 1), TypeError, "rng"),
        (lambda: RecallTask().draw(0, 1, 9), ValueError, "T must leave room"),
        (lambda: RecallTask(30, True).draw(0, 1, 48), ValueError, "room for 60 writes"),
        (lambda: RecallTask().draw(0, 1, distance=40), ValueError, "at most 39"),
        (lambda: RecallTask().draw(0, 1, distance=0), ValueError, "distance"),
        (lambda: RecallTask(1, True).draw(0, 1, gap=9), ValueError, "gap must be at most 8"),
        (lambda: RecallTask().draw(0, 1, gap=2), ValueError, "one write only"),
        (lambda: SumTask(0), ValueError, "most"),
        (lambda: SumTask().draw(0, 1, 16), ValueError, "above most"),
        (lambda: SumTask().draw(0, 1, 8, items=8), ValueError, "items must be at most 7"),
        (lambda: SumTask().draw(0, 1, 1), ValueError, "T must"),
    ],
)
def test_bad_input(make, error, why):
    with pytest.raises(error, match=why):
        make()


def test_relative_error_of_perfection_ignorance_and_a_half():
    right = np.array([1.0, -2.0, 3.0])
    answers = np.stack([right, 0 * right, right / 2, -right])
    np.testing.assert_allclose(events.relative_error(answers, right), [0, 1, 0.25, 4])


@PROPERTY
@given(st.integers(0, 999), st.floats(0.1, 10))
def test_relative_error_has_no_unit(seed, scale):
    rng = np.random.default_rng(seed)
    y, found = rng.normal(size=9), rng.normal(size=(2, 9))
    expected = ((found - y) ** 2).mean(axis=1) / (y**2).mean()
    np.testing.assert_allclose(events.relative_error(found, y), expected)
    np.testing.assert_allclose(events.relative_error(scale * found, scale * y), expected)


@pytest.mark.parametrize(
    ("answers", "targets", "why"),
    [
        ([1.0, 2.0], [1.0], "shape"),
        ([1.0], [[1.0]], "shape"),
        ([np.nan], [1.0], "finite"),
        ([1.0], [0.0], "all be 0"),
    ],
)
def test_relative_error_refuses(answers, targets, why):
    with pytest.raises(ValueError, match=why):
        events.relative_error(answers, targets)


def small_sweep():
    rows = {
        ("1 object, moved", "a", 48, at, seed): at + seed / 10
        for at in (0, 3, 7)
        for seed in (1, 0)
    }
    return events.Sweep("abc", rows)


def test_a_sweep_survives_writing_and_reading():
    sweep = small_sweep()
    again = events.read_sweep(events.write_sweep(sweep))
    assert again.stamp == "abc"
    assert again.rows == sweep.rows
    assert events.write_sweep(again) == events.write_sweep(sweep)


def test_a_sweep_gives_seeds_in_order_and_leaves_the_average_out_of_profiles():
    sweep = small_sweep()
    np.testing.assert_array_equal(sweep.errors("1 object, moved", "a", 48, 3), [3.0, 3.1])
    at, errors = sweep.profile("1 object, moved", "a", 48)
    np.testing.assert_array_equal(at, [3, 7])
    np.testing.assert_array_equal(errors, [[3.0, 7.0], [3.1, 7.1]])


def test_a_sweep_says_what_it_lacks():
    for ask in (lambda s: s.errors("sum", "a", 48, 3), lambda s: s.profile("sum", "a", 48)):
        with pytest.raises(ValueError, match="no entry"):
            ask(small_sweep())
    for text, why in (("", "must begin"), ("# settings x\na,b\n", "columns")):
        with pytest.raises(ValueError, match=why):
            events.read_sweep(text)
