"""Foreign files at an output path: no command removes or replaces them, whatever their names."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from l5kit.data.jobs.owned_outputs import LOG_FILES, require_own_file
from l5kit.errors import InvalidArgumentError
from support.simulated_folders import digests_of

SMALL = ("--scenes", 1, "--frames", 12, "--town-size", 300)

NAMES = ["notes.txt", ".hidden", "thesis.tex", "scores.json.bak", "beach photo.png", "ä ö", "x.zarr", "part", "007.txt"]
"""Names that no output has at any depth; each output is tried with some of them, all of them with some output."""

OUTPUTS = {
    "simulate": {"parts/mine.txt", "parts/00000000/mine.txt", "simulated.zarr/mine.txt", "worst/mine.txt"},
    "evaluate": {"worst/mine.png", "simulated.zarr/.zgroup", "run.json", "parts/mine.txt"},
    "import": {"scenes/mine.txt", "sources/mine.txt", "semantic_map/mine.pb", "scenes/val.zarr/mine.txt"},
    "synth": {"scenes/mine.txt", "aerial_map/mine.png", "scenes/sample.zarr/mine/.zarray", "truth/mine.txt"},
    "columns": {"agents/mine.txt", "mine/.zarray", "README.md"},
    "tables": {"agents/mine.parquet", "logs/mine.arrow"},
    "py123d": {"logs/mine.arrow", "maps/mine.arrow", "logs/l5kit_train/mine.arrow", "README.md"},
}
"""Paths of foreign files in each output, including names of other outputs."""


@dataclass(frozen=True)
class Calls:
    """How outputs are written, in this process."""

    city: Path
    network: Path
    source: Path

    def of(self, kind: str, out: Path) -> tuple[object, ...]:
        """Return the call that writes a kind of output, or replaces it with ``--overwrite``."""
        return {
            "simulate": (
                "simulate",
                self.city,
                "--planner",
                "standing",
                "--scenes",
                "0:1",
                "--frames",
                3,
                "--out",
                out,
            ),
            "evaluate": ("evaluate", self.network, "--data", self.city, "--max-samples", 2, "--worst", 1, "--out", out),
            "import": ("import", "argoverse2", self.source, out),
            "synth": ("synth", out, *SMALL),
            "columns": ("export", self.city, out),
            "tables": ("export", self.city, out, "--layout", "parquet"),
            "py123d": ("export", self.city, out, "--layout", "py123d"),
        }[kind]


@pytest.fixture(scope="module")
def calls(city, tmp_path_factory):
    """Inputs of the outputs."""
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    from support import argoverse2_files
    from support.networks import save_network

    folder = tmp_path_factory.mktemp("inputs")
    argoverse2_files.write_scenario(folder / "source" / "val", "00000001-0000-4000-8000-000000000000")
    return Calls(city, save_network("vector_planner", city, folder), folder / "source")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_file_of_somebody_else_in_an_output_is_named_and_stays(l5kit, calls, tmp_path, kind):
    out = tmp_path / "out"
    call = calls.of(kind, out)
    made = l5kit(*call)
    assert made.exit_code == 0, made.stderr
    # one foreign file in each case, so that the error names this file
    folders = [path for path in sorted(out.rglob("*")) if path.is_dir()]
    rng = random.Random(kind)
    tried = NAMES[list(OUTPUTS).index(kind) % 4 :: 4]
    places = {(rng.choice([out, *folders]) / name).relative_to(out).as_posix() for name in tried}
    for place in sorted(places | OUTPUTS[kind]):
        new = [parent for parent in (out / place).parents if not parent.exists()]
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text("years of work")
        before = digests_of(out)
        refused = l5kit(*call, "--overwrite")
        assert (refused.exit_code, refused.stdout) == (1, ""), place
        assert repr(place) in refused.stderr, (place, refused.stderr)
        assert digests_of(out) == before
        (shutil.rmtree(new[-1]) if new else (out / place).unlink())
    done = l5kit(*call, "--overwrite")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_folder_with_names_of_an_output_but_not_its_mark_stays(l5kit, calls, tmp_path, kind):
    names = ["scores.json", "predictions.csv", "parts/00000000/scenes.json", "run.json", "receipt.json", "import.json"]
    names += ["meta.json", "scenes/sample.zarr/.zgroup", "scenes.parquet", "zarr.json", "logs/mine.arrow", ".zgroup"]
    for name in names:
        out = tmp_path / name.replace("/", "-")
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text('{"mine": 1}')
        before = digests_of(out)
        for options in ((), ("--overwrite",)):
            refused = l5kit(*calls.of(kind, out), *options)
            assert (refused.exit_code, refused.stdout) == (1, ""), (name, options)
            assert digests_of(out) == before, (name, options)


@pytest.mark.parametrize("name", ["mine/photo.png", "photo.png", "00/notes.txt"])
def test_what_lies_where_an_import_keeps_its_scenes_stays(l5kit, calls, tmp_path, name):
    (tmp_path / "out.parts" / name).parent.mkdir(parents=True)
    (tmp_path / "out.parts" / name).write_text("mine")
    refused = l5kit(*calls.of("import", tmp_path / "out"))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"holds {name!r}" in refused.stderr
    assert digests_of(tmp_path / "out.parts") == {name: digests_of(tmp_path / "out.parts")[name]}


def test_removals_that_were_cut_off_are_cleared_by_the_next_run(l5kit, calls, tmp_path):
    out = tmp_path / "out"
    for scratch in (out / ".parts.00c0ffee.part", tmp_path / ".out.parts.00c0ffee.part"):
        (scratch / "parts" / "00000000").mkdir(parents=True)
        (scratch / "owner.lock").touch()
        (scratch / "owner.txt").write_text(_this_machine())
    assert l5kit(*calls.of("simulate", out)).exit_code == 0
    assert not list(out.glob(".*"))
    shutil.rmtree(out)
    assert l5kit(*calls.of("import", out)).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def _this_machine():
    from l5kit._files import _this_machine

    return "\n".join(_this_machine())


FILES = {
    "a.png": ("render", "--frame", 1),
    "a.gif": ("render", "--frames", "0:2"),
    "a.html": ("view",),
    "a.json": ("manifest",),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_replaced_only_where_it_is_of_l5kit(l5kit, city, tmp_path, name):
    command, *options = FILES[name]
    call = (command, city, "--export" if command == "view" else "--out", tmp_path / name, *options)
    (tmp_path / name).write_bytes(b"years of work")
    refused = l5kit(*call)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "was not written by l5kit" in refused.stderr
    assert (tmp_path / name).read_bytes() == b"years of work"
    (tmp_path / name).write_bytes(b"")
    for _ in range(2):
        assert l5kit(*call).exit_code == 0
    require_own_file(tmp_path / name, argument="out")


@pytest.mark.parametrize("name", ["index.html", "drive.gif"])
def test_a_demo_replaces_no_page_of_somebody_else(l5kit, tmp_path, name):
    (tmp_path / name).write_text("my home page")
    refused = l5kit("demo", "--out", tmp_path)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("path", "is_of_log"),
    [
        (".zgroup", True),
        ("agents/0", True),
        ("agents/.zarray", True),
        ("agents_mask/0.5/0.0", True),
        ("agents_mask/.zgroup", True),
        ("agents/mine", False),
        ("mine/0", False),
        ("agents/0/mine", False),
        ("notes.txt", False),
    ],
)
def test_paths_of_a_log(path, is_of_log):
    import re

    assert bool(re.fullmatch(LOG_FILES, path)) == is_of_log


def test_a_link_is_not_replaced(tmp_path, l5kit, city):
    (tmp_path / "link").symlink_to(city)
    before = digests_of(city)
    refused = l5kit("synth", tmp_path / "link", "--overwrite", *SMALL)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "is a link" in refused.stderr
    assert digests_of(city) == before


def test_the_error_of_a_file_names_the_argument(tmp_path):
    (tmp_path / "x.png").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"--out is '.*x\.png', which was not written by l5kit"):
        require_own_file(tmp_path / "x.png", argument="--out")
