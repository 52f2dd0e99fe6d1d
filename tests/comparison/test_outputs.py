"""Outputs of a comparison: tables, pictures, the page, and their folder."""

import csv
import json
import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from l5kit.comparison import compare, draw_comparison, write_comparison
from l5kit.comparison.tables import as_latex, as_markdown, overview_tables, scene_table
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.resampling import Resampling
from support.compared_runs import write_simulation

FILES = {
    *("comparison.csv", "scenes.csv", "comparison.md", "comparison.tex", "comparison.png", "comparison.svg"),
    *("comparison.html", "comparison.json", "receipt.json"),
}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """A planner that loses each third scene of 30 by a collision, and one with a name that needs care."""
    folder = tmp_path_factory.mktemp("runs")
    scores = {scene: 0.8 + 0.001 * scene for scene in range(30)}
    lower = {scene: 0.0 if scene % 3 == 0 else score for scene, score in scores.items()}
    runs = {"base": write_simulation(folder / "base", scores), "low_er": write_simulation(folder / "lower", lower)}
    runs["<b> & $x|y"] = write_simulation(folder / "odd", scores)
    return compare(runs, resampling=Resampling(num_draws=500))


def test_the_table_of_the_score_says_what_is_more_than_chance(comparison):
    score, metrics = overview_tables(comparison)
    by_planner = {row[0]: dict(zip(score.columns, row, strict=True)) for row in score.rows}
    assert by_planner["base"]["difference to base"] == "reference"
    lower = by_planner["low_er"]
    assert (lower["verdict"], lower["won / lost"]) == ("worse", "0 / 10")
    assert re.fullmatch(r"-0\.271 \(-0\.\d{3} to -0\.\d{3}\)", lower["difference to base"])
    assert by_planner["<b> & $x|y"]["verdict"] == "by chance"
    assert metrics.rows[2] == ("Gap (m, less is better)", "8.1", "5.4 better", "8.1")
    assert metrics.tones[2] == ("", "", "better", "")


def test_seeds_have_a_table_of_their_means(tmp_path):
    paths = {name: write_simulation(tmp_path / name, {0: score, 1: score}) for name, score in (("a", 0.2), ("b", 0.6))}
    base = write_simulation(tmp_path / "base", {0: 0.5, 1: 0.5})
    seeded = compare({"base": base, "mine": list(paths.values())}, resampling=Resampling(num_draws=100))
    seeds = list(overview_tables(seeded))[1]
    assert seeds.columns == ("planner", "seeds", "least", "most")
    assert list(seeds.rows) == [("mine", "2", "0.200", "0.600")]


def test_many_planners_stand_in_several_tables_each_with_the_reference(tmp_path):
    scores = dict.fromkeys(range(3), 0.5)
    paths = [write_simulation(tmp_path / f"p{number}", scores) for number in range(9)]
    many = compare(paths, reference="p8", resampling=Resampling(num_draws=100))
    _, *metrics = overview_tables(many)
    assert [table.columns[1:] for table in metrics] == [
        ("p0", "p1", "p2", "p3", "p4", "p8"),
        ("p5", "p6", "p7", "p8"),
    ]


def test_scenes_are_listed_from_the_largest_difference_on(comparison):
    table = scene_table(comparison, most=2)
    assert [row[:3] for row in table.rows] == [("low_er", "27", "-0.827"), ("low_er", "24", "-0.824")]
    assert table.rows[0][-2:] == ("collision", "-")


def test_markdown_and_latex_escape_names(comparison):
    tables = list(overview_tables(comparison))
    assert r"| <b> & $x\|y |" in as_markdown(tables, [])
    text = as_latex(tables, ["a note"])
    assert r"<b> \& \$x|y" not in text
    assert r"$<$b> \& \$x|y" in text
    assert r"low\_er & 0.543" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 2
    assert "% a note" in text


def test_the_drawing_is_one_of_svg_and_of_pixels(comparison):
    drawing = draw_comparison(comparison)
    root = ElementTree.fromstring(drawing.svg())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"base", "low_er", "difference to base", "Safety"} <= set(texts)
    assert texts.count("low_er") == 2
    image = drawing.image()
    assert image.shape == (2 * drawing.height, 2 * drawing.width, 3)
    # the line of what is worse is orange in both
    assert any(element.get("stroke") == "#c4501b" for element in root.iter("{http://www.w3.org/2000/svg}line"))
    assert (image == (0xC4, 0x50, 0x1B)).all(axis=-1).any()
    assert drawing._repr_svg_() == drawing.svg()
    with pytest.raises(InvalidArgumentError, match=r"allowed endings are \.png and \.svg"):
        drawing.save("figure.pdf")


def test_the_folder_has_all_files_and_says_the_same_in_each(comparison, tmp_path):
    folder = tmp_path / "compared"
    write_comparison(comparison, folder)
    assert {path.name for path in folder.iterdir()} == FILES
    with (folder / "comparison.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (lower,) = [row for row in rows if (row["metric"], row["planner"]) == ("score", "low_er")]
    assert (lower["verdict"], lower["scenes"], lower["scenes_worse"]) == ("worse", "30", "10")
    facts = json.loads((folder / "comparison.json").read_text())
    (same,) = [row for row in facts["rows"] if (row["metric"], row["planner"]) == ("score", "low_er")]
    assert same["mean"] == pytest.approx(float(lower["mean"]), abs=1e-6)
    assert facts["scenes"][3]["score"] == pytest.approx([0.803, 0.0, 0.803])
    assert facts["scenes"][3]["failures"] == ["", "collision", ""]
    with (folder / "scenes.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 90
    with Image.open(folder / "comparison.png") as picture:
        assert picture.size[0] == 2160
    page = (folder / "comparison.html").read_text("utf-8")
    assert "&lt;b&gt; &amp; $x|y" in page
    assert "<b> & $x|y" not in page
    folders = {str(run.path.parent) for planner in comparison.planners for run in planner.runs}
    assert not any(path in page for path in folders), "a page that is passed on tells no paths of this machine"
    assert not re.search(r"""(?:src|href)="(?!data:)""", page), "the page needs nothing else"


def test_a_folder_of_others_is_left_alone(comparison, tmp_path):
    folder = tmp_path / "compared"
    write_comparison(comparison, folder)
    with pytest.raises(InvalidArgumentError, match=r"holds a comparison; .*replace it \(--overwrite\)"):
        write_comparison(comparison, folder)
    before = (folder / "comparison.csv").read_bytes()
    write_comparison(comparison, folder, overwrite=True)
    assert (folder / "comparison.csv").read_bytes() == before
    (folder / "mine.txt").write_text("kept")
    with pytest.raises(InvalidArgumentError, match=r"holds 'mine.txt' in addition to a comparison"):
        write_comparison(comparison, folder, overwrite=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "scenes.csv").write_text("of somebody else")
    with pytest.raises(InvalidArgumentError, match="no comparison, so nothing in it is replaced"):
        write_comparison(comparison, other, overwrite=True)
    assert (other / "scenes.csv").read_text() == "of somebody else"
