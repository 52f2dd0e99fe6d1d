"""The notebooks: stored with outputs that the site can show, and running from a clean kernel."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = "look_at_the_data"
MAX_BYTES = 600_000
OF_A_MACHINE = re.compile(r"/(tmp|home|root|work|Users)/")


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook):
    """Standard output of the cells, cell by cell."""
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout")
        for cell in code_cells(notebook)
    ]


def run(path, folder):
    from nbclient import NotebookClient

    notebook = read(path)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def first_cell(path):
    """The first cell with code as a script."""
    return code_cells(read(path))[0].source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_first_cell_takes_the_city_that_is_there(path):
    """So that a notebook can be run again; other content in the folder of the city does not matter."""
    calls = [
        call
        for call in ast.walk(ast.parse(first_cell(path)))
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "make_city"
    ]
    assert [{keyword.arg for keyword in call.keywords} >= {"seed", "reuse"} for call in calls] == [True]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_first_cell_installs_the_wheel_beside_it_where_l5kit_is_missing(path, tmp_path, monkeypatch):
    """As in Colab, where a wheel is uploaded."""
    tree = ast.parse(first_cell(path))
    assert isinstance(tree.body[1], ast.If)
    install = compile(ast.Module(tree.body[:2], []), str(path), "exec")
    calls = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda words, **_: calls.append(words))
    exec(install, {})
    assert calls == []

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="upload a wheel"):
        exec(install, {})
    (tmp_path / "l5kit2-2.0.0-py3-none-any.whl").touch()
    exec(install, {})
    (words,) = calls
    assert re.fullmatch(r"l5kit2-2\.0\.0-py3-none-any\.whl\[viz,(train|rl)\]", words[-1])


@pytest.mark.long
@pytest.mark.process
def test_a_first_cell_runs_twice_and_side_by_side(tmp_path):
    (path,) = [path for path in NOTEBOOKS if path.stem == QUICK]
    command = [sys.executable, "-c", first_cell(path)]
    side_by_side = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in side_by_side]
    assert [process.returncode for process in side_by_side] == [0, 0], errors
    made = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stderr
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == made
    assert [entry.name for entry in tmp_path.iterdir()] == ["city"]


def test_there_are_notebooks_for_all_that_people_know():
    assert {path.stem for path in NOTEBOOKS} == {
        QUICK,
        "train_a_motion_predictor",
        "plan_open_and_closed_loop",
        "urban_driver",
        "reinforcement_learning",
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_clean_outputs(path):
    """All cells were run in order, and none printed a warning or a path of a machine."""
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size < MAX_BYTES
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert not [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    texts = printed(notebook) + [
        text for output in outputs for kind, text in output.get("data", {}).items() if kind.startswith("text/")
    ]
    assert not [found for text in texts if "srcdoc" not in text and (found := OF_A_MACHINE.search(text))]
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.process
@pytest.mark.slow
def test_the_quick_notebook_prints_what_it_has_stored(tmp_path):
    (path,) = [path for path in NOTEBOOKS if path.stem == QUICK]
    assert printed(run(path, tmp_path)) == printed(read(path))


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if path.stem != QUICK], ids=lambda path: path.stem)
def test_a_notebook_runs_from_a_clean_kernel(path, tmp_path):
    notebook = run(path, tmp_path)
    kinds = [[output.output_type for output in cell.outputs] for cell in code_cells(notebook)]
    assert not any("error" in outputs for outputs in kinds)
    assert any(printed(notebook))
