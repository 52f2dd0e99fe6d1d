"""``l5kit edit``: what it writes, prints and refuses."""

import json

from l5kit.data import ChunkedDataset


def test_edited_scenes_are_a_dataset(l5kit, city, tmp_path):
    done = l5kit(
        "edit", city, tmp_path / "out", "--edit", "parked_vehicle,ahead_m=5", "--edit", "fewer_agents,share=0.5"
    )
    assert done.exit_code == 0, done.stderr
    assert "3 edited, 0 left out" in done.stdout
    assert l5kit("info", tmp_path / "out").exit_code == 0
    record = json.loads((tmp_path / "out" / "edits.json").read_text("utf-8"))
    assert [each["edit"] for each in record["edits"]] == ["ParkedVehicle", "FewerAgents"]

    again = l5kit("edit", city, tmp_path / "out", "--edit", "parked_vehicle")
    assert again.exit_code == 1
    assert "exists" in again.stderr
    arguments = ["--edit", "fewer_agents", "--scenes", "1:9", "--overwrite", "--json"]
    done = l5kit("edit", city, tmp_path / "out", *arguments)
    assert json.loads(done.stdout)["scenes"] == [1, 2]
    assert "note: --scenes 1:9 takes 2 of 8, as the log has no more" in done.stderr
    assert len(ChunkedDataset(str(tmp_path / "out" / "scenes" / "sample.zarr")).open().agents) == 0


def test_scenes_that_an_edit_does_not_fit_are_listed(l5kit, city, tmp_path):
    done = l5kit("edit", city, tmp_path / "out", "--edit", "parked_vehicle,ahead_m=499")
    assert done.exit_code == 1
    assert "the edits fit none of the 3 scenes; scene 0: ParkedVehicle: " in done.stderr
    assert list(tmp_path.iterdir()) == []


FIRST_ONLY = """
from dataclasses import dataclass
from l5kit.editing import SceneEdit
from l5kit.editing.scene_edit import ImpossibleEditError

@dataclass(frozen=True)
class FirstOnly(SceneEdit):
    def apply(self, scene, setting):
        if scene.timestamps_ns[0] != {start_ns}:
            raise ImpossibleEditError("it is\\n  late")
        return scene
"""


def test_scenes_that_are_left_out_are_told_of(l5kit, city, tmp_path, monkeypatch):
    starts_ns = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().scenes["start_time"]
    (tmp_path / "own.py").write_text(FIRST_ONLY.format(start_ns=starts_ns[0]))
    monkeypatch.setattr("l5kit.cli.output.MOST_LISTED", 1)
    done = l5kit("edit", city, tmp_path / "out", "--edit", f"{tmp_path / 'own.py'}:FirstOnly")
    assert "1 edited, 2 left out" in done.stdout
    first, rest = done.stderr.splitlines()
    assert first == "left out: scene 1: FirstOnly: it is late"
    assert rest == f"left out: 1 more, listed in {tmp_path / 'out' / 'edits.json'}"


OWN = """
from dataclasses import dataclass, replace
from l5kit.editing import SceneEdit

@dataclass(frozen=True)
class Renamed(SceneEdit):
    host: str = "nobody"

    def apply(self, scene, setting):
        return replace(scene, host=self.host)

SOMEBODY = Renamed("somebody")
NUMBER = 3
"""


def test_edits_of_users_come_from_their_files(l5kit, city, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    for name, host in (("Renamed", "nobody"), ("Renamed,host=me", "me"), ("SOMEBODY", "somebody")):
        done = l5kit("edit", city, tmp_path / host, "--edit", f"{file}:{name}")
        assert done.exit_code == 0, done.stderr
        log = ChunkedDataset(str(tmp_path / host / "scenes" / "sample.zarr")).open()
        assert set(log.scenes["host"].tolist()) == {host}
    for name, message in (("Renamed,guest=me", "not a param"), ("NUMBER", "makes int"), ("Nobody", "has no Nobody")):
        refused = l5kit("edit", city, tmp_path / "out", "--edit", f"{file}:{name}")
        assert (refused.exit_code, message in refused.stderr) == (1, True), refused.stderr


def test_a_wrong_edit_is_told_with_the_nearest_one(l5kit, city, tmp_path):
    refused = l5kit("edit", city, tmp_path / "out", "--edit", "parked_vehicles")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "there is no edit 'parked_vehicles' (did you mean 'parked_vehicle'?)" in refused.stderr
    assert l5kit("edit", city, tmp_path / "out").exit_code == 2
