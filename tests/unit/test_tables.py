"""Committed tables: their stamp, their text, and writing that cannot stop half-way."""

import csv
import io

import pytest

from book_utils import tables

COLUMNS = ("name", "count", "error")
ROWS = [
    {"name": "1 object, moved", "count": 3, "error": 1.5e-05},
    {"name": 'a "quoted" name', "count": 0, "error": 1.0},
    {"name": "", "count": -2, "error": float("inf")},
]


def test_the_stamp_changes_with_any_setting_and_not_with_their_order():
    settings = {"a": 1, "b": [1, 2]}
    assert tables.stamp(settings) == tables.stamp({"b": (1, 2), "a": 1})
    assert tables.stamp(settings) != tables.stamp({"a": 1, "b": [2, 1]})
    assert len(tables.stamp(settings)) == 12


def test_a_table_survives_writing_and_reading():
    text = tables.to_text("abc", COLUMNS, ROWS)
    again = tables.from_text(text, COLUMNS)
    assert again == tables.Table("abc", ROWS)
    assert [type(v) for v in again.rows[1].values()] == [str, int, float]
    assert tables.to_text(again.stamp, COLUMNS, again.rows) == text


def test_any_reader_of_csv_can_read_a_table():
    _, _, rest = tables.to_text("abc", COLUMNS, ROWS).partition("\n")
    found = list(csv.DictReader(io.StringIO(rest)))
    assert [row["name"] for row in found] == [row["name"] for row in ROWS]
    assert [float(row["error"]) for row in found] == [row["error"] for row in ROWS]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must begin"),
        ("name,count,error\n", "must begin"),
        ("# settings x\n", "columns"),
        ("# settings x\nname,count\n", "columns"),
        ("# settings x\nname,count,error\na,1\n", "3 entries"),
    ],
)
def test_what_is_no_such_table_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        tables.from_text(text, COLUMNS)


@pytest.mark.parametrize("row", [{"name": "a", "count": 1}, {**ROWS[0], "more": 1}])
def test_rows_must_have_the_columns(row):
    with pytest.raises(ValueError, match="columns"):
        tables.to_text("abc", COLUMNS, [row])


def test_rounding_keeps_significant_digits():
    assert tables.rounded(123456.0, 3) == 123000.0
    assert tables.rounded(-0.00123456, 3) == -0.00123
    assert tables.rounded(0.0, 3) == 0.0


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "new folder" / "table.csv"
    tables.write_at_once(path, "first\n")
    tables.write_at_once(path, "second: ±√3\n")
    assert path.read_bytes().decode("utf-8") == "second: ±√3\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path):
    path = tmp_path / "table.csv"
    tables.write_at_once(path, "old")
    with pytest.raises(UnicodeEncodeError):
        tables.write_at_once(path, "half of it \ud800")
    assert path.read_text() == "old"


def test_settings_that_json_cannot_hold_are_refused():
    with pytest.raises(TypeError):
        tables.stamp({"a": object()})
