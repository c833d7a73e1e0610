"""The figures of the chapter on events show what their captions say."""

import re

import numpy as np
import pytest

from book_utils import events
from book_utils.plots import event_recall as figures
from book_utils.plots import style

MODELS = ("attention", "window", "selective")


@pytest.fixture(scope="module")
def sweep():
    """A table with known errors: attention .02, window by distance, selective 1.2 or .2 by seed."""
    rows = {}
    for task in events.TASKS:
        for T, k in figures.POSITIONS.values():
            for seed in (0, 1):
                rows[task, "attention", T, k, seed] = 0.02
                rows[task, "window", T, k, seed] = float(k > 15)
                rows[task, "selective", T, k, seed] = (1.2, 0.2)[seed]
    return events.Sweep("x", rows)


def marks(axes, name):
    """Positions of a model's marks in a panel of rows."""
    look = figures.LOOKS[name]
    return np.concatenate(
        [
            line.get_xdata()
            for line in axes.lines
            if line.get_marker() == look["marker"] and line.get_linestyle() == "None"
        ]
    )


def test_looks_differ_in_more_than_colour():
    looks = figures.LOOKS.values()
    assert len({look["marker"] for look in looks}) == len(looks)
    assert len({str(look["linestyle"]) for look in looks}) == len(looks)
    assert len({look["color"] for look in looks}) == len(looks)


def test_a_sequence_marks_its_writes():
    batch = events.TASKS["4 objects, moved"].draw(3, 1, distance=20)
    x = batch.tokens[0]
    figure, caption = figures.sequence(tokens=x), figures.describe_sequence(tokens=x)
    drawn = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in figure.axes[0].lines
        if line.get_marker() in figures.MARKS and line.get_markersize() > 5
    ]
    at = np.flatnonzero(x[:, events.WRITE])
    assert sorted(drawn) == sorted((47 - t, x[t, 0]) for t in at)
    name = figures.THINGS[x[-1, 3:].argmax()]
    assert f"{name} written 20 tokens before the query with value {batch.targets[0]:.2f}" in caption
    assert f"asks for the {name}" in caption
    assert caption.count("written") == 8


def test_weights_are_drawn_as_given():
    x = events.TASKS["1 object, moved"].draw(1, 1, 12, distance=2, gap=1).tokens[0]
    rules = {"one": np.arange(12) / 12, "two": np.zeros(12)}
    figure = figures.weights(tokens=x, rules=rules)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["one", "two"]
    caption = figures.describe_weights(tokens=x, rules=rules)
    assert "distance 3 and 2" in caption
    assert "one: 0.67 and 0.75, all other tokens together 4.08" in caption


def test_average_and_distance_shows_every_seed_and_the_range():
    errors = np.array([[0.0, 0.1, 0.2, 0.9, 1.0, 1.1], [0.0, 0.1, 0.0, 0.9, 1.0, 0.9]])
    x = (1, 2, 4, 8, 16, 32)
    given = {"averages": {"window": [0.5, 0.7]}, "profiles": {"window": (x, errors)}}
    figure = figures.average_and_distance(**given)
    top, bottom = figure.axes
    assert sorted(marks(top, "window")) == [0.5, 0.7]
    line = next(line for line in bottom.lines if line.get_label() == "window")
    np.testing.assert_allclose(line.get_ydata(), errors.mean(axis=0))
    assert len(bottom.collections) == 1
    caption = figures.describe_average_and_distance(**given)
    assert "window about .6, made of about .15 up to k = 4 and about 1 from k = 8" in caption


@pytest.mark.parametrize(
    ("mean", "word"),
    [
        (0.001, "below .002"),
        (0.05, "below .06"),
        (0.2, "about .15"),
        (0.5, "about .4"),
        (0.6, "about .6"),
        (0.8, "about .8"),
        (1.0, "about 1"),
        (3.0, "above 1"),
    ],
)
def test_words_for_errors(mean, word):
    profiles = {"attention": (np.array([1, 8]), np.full((2, 2), mean))}
    caption = figures.describe_by_gap(profiles=profiles)
    assert (
        caption
        == f"Error against the gap between the two writes: attention {word} at gap 1, {word} at gap 8."
    )


def test_by_gap_is_logarithmic_and_named():
    profiles = {name: (np.arange(1, 9), np.full((3, 8), 0.01)) for name in MODELS}
    ax = figures.by_gap(profiles=profiles).axes[0]
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(MODELS)


def test_all_tasks_has_a_panel_a_task_and_names_split_seeds():
    values = {"attention": [0.0, 0.01], "selective": [0.0, 1.0]}
    scores = {task: values for task in events.TASKS if task != "sum"}
    figure = figures.all_tasks(scores=scores)
    assert [ax.get_title(loc="left") for ax in figure.axes] == list(scores)
    assert sorted(marks(figure.axes[2], "selective")) == [0, 1]
    caption = figures.describe_all_tasks(scores=scores)
    assert caption.count("seeds more than .3 apart: selective") == 4
    assert "attention 0.01" in caption or "attention 0.00" in caption


def test_longer_training_shows_before_and_after():
    pairs = {"attention\n1 object": ([0.1, 0.3], [0.01, 0.01])}
    figure = figures.longer_training(pairs=pairs, times=4)
    assert any("4 times as long" in t.get_text() for t in figure.axes[0].get_legend().get_texts())
    caption = figures.describe_longer_training(pairs=pairs, times=4)
    assert "attention, 1 object 0.200 → 0.010" in caption


def test_by_object_writes_every_error():
    errors = np.array([[0.0, 1.0], [0.02, 0.95], [0.5, 1.01]])
    texts = [t.get_text() for t in figures.by_object(errors=errors).axes[0].texts]
    assert texts == ["0.00", "1.00", "0.02", "0.95", "0.50", "1.01"]
    caption = figures.describe_by_object(errors=errors)
    assert caption.startswith("Error of 3 runs on each of 2 objects. Most of the 6")
    assert "Some of the 4" in figures.describe_by_object(errors=np.full((2, 2), 0.5))


def test_far_describes_both_ends():
    x = np.array([16, 39, 96, 247])
    profiles = {"selective": (x, np.array([[0.0, 0.01, 0.1, 0.4], [0.0, 0.01, 0.3, 0.8]]))}
    panels = {"1 object": profiles, "1 object, moved": profiles}
    figure = figures.far(panels=panels)
    assert len(figure.axes) == 2
    caption = figures.describe_far(panels=panels)
    assert "at distance 39" in caption
    assert "at 247" in caption
    assert caption.count("selective 0.01 and 0.60") == 2


def test_running_sum_describes_the_most_items():
    near = {"attention": (np.array([1, 16]), np.array([[0.1, 0.02]]))}
    long = {"attention": (np.array([4, 128]), np.array([[0.1, 4.0]]))}
    caption = figures.describe_running_sum(near=near, long=long)
    assert "sum of 16 items in 48 tokens, and of 128 items in 256" in caption
    assert "attention 0.020 and 4.00" in caption
    assert len(figures.running_sum(near=near, long=long).axes) == 2


def test_recall_shows_the_errors_of_the_table(sweep):
    given = {"sweep": sweep, "models": MODELS}
    for distance, window in (("15", 0.0), ("16", 1.0), ("247 of 256", 1.0)):
        figure = figures.recall(distance, "1 object", **given)
        rows = figure.axes[1]
        assert set(marks(rows, "window")) == {window}
        assert sorted(marks(rows, "selective")) == [0.2, 1.2]
        assert [t.get_text() for t in rows.get_yticklabels()] == list(MODELS)
        caption = figures.describe_recall(distance, "1 object", **given)
        group = "lost" if window else "Recalled (error below .1)"
        assert re.search(rf"{re.escape(group)}: [^;]*window {window:.2f}", caption)
        assert "partly: selective 0.70" in caption


def test_recall_draws_the_distance_it_names(sweep):
    for distance, (T, k) in figures.POSITIONS.items():
        for task in ("1 object, moved", "4 objects"):
            batch = figures._example(task, T, k)
            assert batch.at[0] == k
            assert batch.tokens.shape[1] == T
        caption = figures.describe_recall(distance, task, sweep=sweep, models=MODELS)
        assert f"{k} tokens before the query, of {T}" in caption


def test_the_sum_has_no_distance(sweep):
    with pytest.raises(ValueError, match="task"):
        figures.recall("16", "sum", sweep=sweep, models=MODELS)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="seeds"):
        figures.by_gap(profiles={"attention": (np.arange(1, 9), np.zeros(8))})


def test_figures_have_the_books_width(sweep):
    figure = figures.recall("16", "1 object", sweep=sweep, models=MODELS)
    assert figure.get_size_inches()[0] == style.WIDTH
