"""The tables of a run."""

import json

import pytest

from l5kit.errors import InvalidArgumentError
from l5kit_bench.machine import Machine
from l5kit_bench.reference import read_reference
from l5kit_bench.report import COLUMNS, BenchReport
from l5kit_bench.row import Fact, MeasuredRow

MACHINE = Machine(cpu="Abacus", num_cores=1, system="Wood 5", versions={"Python": "3.11.7", "NumPy": "2.0.0"})


@pytest.fixture
def report(make_row):
    """A score of 2,000, and rows that are worked out by hand below."""
    measured = [
        MeasuredRow(make_row("fast", floor=9, reference="Recorded"), (1000.0, 900.0, 1200.0)),
        MeasuredRow(make_row("twin", floor=1.7, base="fast", base_title="one"), (1600.0,), (Fact("memory", 310, 300),)),
        MeasuredRow(make_row("new", floor=2, reference="never recorded"), (12.345,)),
        MeasuredRow(make_row("huge", unit="rows"), (15_170_000.0,), (Fact("size", 1234.4),)),
        MeasuredRow(make_row("many", rate_floor=30_000), (36_000.0,), (Fact("share", 28.54, 30, "percent"),)),
    ]
    return BenchReport(
        data="somewhere",
        machine=MACHINE,
        scores=(1900, 2100),
        num_passes=3,
        measured=measured,
        left_out={"Gone": "there is no map"},
        reference={"Recorded": 50},
    )


def test_lines_hold_medians_score_and_ratios(report):
    assert len(COLUMNS) == 5
    assert report.lines() == [
        ("Fast", "1,000 things/s", "500", "10", "9 to L5Kit 1.5"),
        ("Twin", "1,600 things/s", "800", "1.6", "1.7 to one"),
        ("  memory", "310 MB", "-", "-", "< 300 MB"),
        ("New", "12.3 things/s", "6.17", "-", "2 to L5Kit 1.5"),
        ("Huge", "15.2 M rows/s", "7.58 M", "-", "-"),
        ("  size", "1,234 MB", "-", "-", "-"),
        ("Many", "36,000 things/s", "18,000", "0.9", "30,000/s at score 1,500"),
        ("  share", "28.5 percent", "-", "-", "< 30 percent"),
    ]


def test_the_verdict_names_what_is_missed(report):
    assert report.misses() == [
        "Twin: 1.6, asked 1.7",
        "Twin: memory, 310 MB, asked below 300 MB",
        "Many: 0.9, of the asked 30,000/s at score 1,500",
    ]
    assert report.verdict().splitlines() == ["Not what is asked:", *(f"  {missed}" for missed in report.misses())]


def test_the_verdict_without_misses(report):
    report.measured[:] = report.measured[:1]
    assert report.verdict() == "All that is compared is what is asked or better."


def test_the_verdict_without_a_reference(report):
    report.measured[:] = report.measured[2:4]
    assert report.verdict().startswith("There is nothing to compare with")


def test_a_row_whose_base_was_left_out_has_no_ratio(report):
    del report.measured[0]
    assert report.lines()[0][3] == "-"


def test_facts_of_the_machine_fit_on_lines(report):
    assert report.facts() == {
        "Machine": "Abacus, 1 core, Wood 5",
        "Software": "Python 3.11.7, NumPy 2.0.0",
        "Score": "2,000 (1,900 before, 2,100 after)",
    }


def test_markdown_has_the_same_cells(report):
    text = report.as_markdown()
    assert "| Fast | 1,000 things/s | 500 | 10 | 9 to L5Kit 1.5 |" in text
    assert "| memory | 310 MB | - | - | < 300 MB |" in text
    assert "somewhere; Abacus, 1 core, Wood 5; Python 3.11.7, NumPy 2.0.0; score 2,000" in text
    assert "Left out: Gone: there is no map." in text


def test_json_holds_every_pass(report):
    content = json.loads(json.dumps(report.as_json()))
    assert content["score"] == {"before": 1900, "after": 2100, "mean": 2000}
    first, second, third, _, many = content["rows"]
    assert (first["rates"], first["ratio"], first["compared_with"]) == ([1000, 900, 1200], 10, "Recorded")
    assert (second["compared_with"], second["facts"]) == ("fast", [{"title": "memory", "mb": 310, "below_mb": 300}])
    assert (third["ratio"], third["compared_with"]) == (None, None)
    assert (many["ratio"], many["asked"], many["asked_rate"]) == (0.9, 1, 30_000)
    assert many["facts"] == [{"title": "share", "percent": 28.54, "below_percent": 30}]
    assert content["left_out"] == {"Gone": "there is no map"}


def test_a_reference_is_read(tmp_path):
    path = tmp_path / "reference.json"
    path.write_text('{"what": "x", "workloads": {"A": {"rate": 89, "per_1000_score": 59}}}')
    assert read_reference(path) == {"A": 59}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "cannot be read", id="no file"),
        pytest.param("{", "must be a JSON object with the member workloads", id="no JSON"),
        pytest.param("[]", "must be a JSON object", id="no object"),
        pytest.param('{"workloads": {"A": {"rate": 1}}}', "KeyError: 'per_1000_score'", id="no rate per score"),
        pytest.param('{"workloads": [1]}', "must be a JSON object", id="no names"),
    ],
)
def test_another_file_is_no_reference(tmp_path, text, message):
    path = tmp_path / "reference.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        read_reference(path)
