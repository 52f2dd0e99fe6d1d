"""MCAP files: boxes and poses become scenes, our own recordings round-trip, and damage is reported by name."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, SceneRecords
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.errors import ConfigError, MissingDependencyError
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.readers.formats import open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.reader import SourceDataError
from support import mcap_files

NUM_STEPS = 12


def read_one(folder, told, *, write=mcap_files.write_json, **columns):
    mcap_files.write_columns(folder, **columns)
    write(folder / "a.mcap", told)
    reader = open_reader("table", folder)
    (ref,) = reader.list_scenes()
    return reader, reader.read(ref)


def needs_foxglove(write):
    if write is mcap_files.write_protobuf:
        pytest.importorskip("foxglove", reason="the extra mcap is not installed")


@pytest.mark.parametrize("objects_frame", ["map", "base"])
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(mcap_files.write_json, id="json"),
        pytest.param(mcap_files.write_protobuf, id="protobuf"),
        pytest.param(lambda file, told: mcap_files.write_json(file, told, compression="lz4"), id="lz4"),
        pytest.param(lambda file, told: mcap_files.write_json(file, told, compression="none"), id="as it is"),
    ],
)
def test_boxes_and_poses_become_a_scene(tmp_path, write, objects_frame):
    needs_foxglove(write)
    reader, scene = read_one(
        tmp_path, mcap_files.messages_of(NUM_STEPS, objects_frame=objects_frame), write=write, name="Drives"
    )
    moved_m = 0.8 * np.arange(NUM_STEPS)
    np.testing.assert_allclose(scene.ego.positions_m[:, :2], np.stack([100 + moved_m, 50 + 0 * moved_m], axis=-1))
    np.testing.assert_allclose(scene.ego.size_m, mcap_files.AV_SIZE_M)
    assert scene.timestamps_ns.tolist() == [mcap_files.START_NS + mcap_files.STEP_NS * n for n in range(NUM_STEPS)]
    assert (scene.tracks.ids, scene.tracks.classes) == (("7",), ("car",))
    np.testing.assert_allclose(scene.tracks.positions_m[0, :, 0], 120 + moved_m)
    np.testing.assert_allclose(scene.tracks.sizes_m[0], np.tile(mcap_files.SIZE_M, (NUM_STEPS, 1)))
    np.testing.assert_allclose(scene.tracks.velocities_mps[0], np.tile([8.0, 0.0], (NUM_STEPS, 1)), atol=1e-6)
    assert (reader.info.dataset, reader.info.step_time_s) == ("Drives", 0.1)


def test_messages_without_a_time_have_that_of_the_log(tmp_path):
    told = mcap_files.messages_of(NUM_STEPS)
    for topic, _, _, content in told:
        if topic == "/boxes":
            content["entities"][0]["timestamp"] = {"sec": 0, "nsec": 0}
    _, scene = read_one(tmp_path, told)
    assert scene.tracks.is_valid.all()
    assert scene.timestamps_ns[0] == mcap_files.START_NS


def test_files_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.readers.table_mcap._MOST_BYTES", 20_000)
    with pytest.raises(SourceDataError, match="unpack to more than 20000 bytes"):
        read_one(tmp_path, mcap_files.messages_of(300))


def test_a_class_that_no_entity_has_is_refused(tmp_path):
    mcap = {"objects": "/boxes", "av_pose": "/pose", "class": "kinds"}
    with pytest.raises(SourceDataError, match=r"mcap\.class is 'kinds', which no entity has .did you mean 'kind'"):
        read_one(tmp_path, mcap_files.messages_of(NUM_STEPS), mcap=mcap)


def test_the_av_may_be_an_entity(tmp_path):
    told = mcap_files.messages_of(NUM_STEPS)
    for topic, _, time_ns, content in told:
        if topic == "/boxes":
            content["entities"].append(mcap_files.box("me", "car", "map", time_ns, (1, 2), 0.5))
    _, scene = read_one(tmp_path, told, mcap={"objects": ["/boxes"]}, av="me", classes=None)
    np.testing.assert_allclose(scene.ego.yaws_rad, 0.5)
    assert scene.tracks.ids == ("7",)


def test_a_recording_of_ours_comes_back_as_it_was(city, tmp_path):
    """Through the transforms of the file, back into the world."""
    pytest.importorskip("foxglove", reason="the extra mcap is not installed")
    from l5kit.data import find_dataset_files, open_map
    from l5kit.visualization.recording import write_mcap
    from l5kit.visualization.scene_content import read_scene_content

    files = find_dataset_files(city)
    log, map_api = ChunkedDataset(files.dataset).open(), open_map(files)
    (tmp_path / "set").mkdir()
    write_mcap(tmp_path / "set" / "scene.mcap", read_scene_content(log, 1, map_api=map_api), map_api)
    mcap_files.write_columns(
        tmp_path / "set",
        mcap={
            "objects": "/agents",
            "av_pose": "/tf",
            "class": "label",
            "av_size": list(map(float, log.facts.ego_extent_m)),
        },
        classes=None,
    )
    result = import_dataset(open_reader("table", tmp_path / "set"), tmp_path / "out")
    assert not result.failed
    again = ChunkedDataset(str(tmp_path / "out" / "scenes" / "sample.zarr")).open()
    want, got = SceneRecords.read(log, 1), SceneRecords.read(again, 0)
    np.testing.assert_array_equal(got.frames["timestamp"], want.frames["timestamp"])
    np.testing.assert_allclose(got.frames["ego_translation"][:, :2], want.frames["ego_translation"][:, :2], atol=1e-6)
    yaws_rad = [rotations33_as_yaws(each.frames["ego_rotation"]) for each in (got, want)]
    np.testing.assert_allclose(*yaws_rad, atol=1e-6)
    np.testing.assert_allclose(again.facts.ego_extent_m, log.facts.ego_extent_m, atol=1e-6)
    assert len(got.agents) == len(want.agents) > 100
    np.testing.assert_array_equal(got.frames["agent_index_interval"], want.frames["agent_index_interval"])
    # track ids are new: identify the rows of a frame by position
    for interval in want.frames["agent_index_interval"]:
        rows, wanted = got.agents[slice(*interval)], want.agents[slice(*interval)]
        order, wanted_order = (np.lexsort(np.round(each["centroid"], 3).T) for each in (rows, wanted))
        rows, wanted = rows[order], wanted[wanted_order]
        np.testing.assert_allclose(rows["centroid"], wanted["centroid"], atol=1e-6)
        np.testing.assert_allclose(rows["extent"], wanted["extent"], atol=1e-6)
        turns_rad = rows["yaw"] - wanted["yaw"]
        np.testing.assert_allclose(np.cos(turns_rad), 1.0, atol=1e-6)
        labels = [each["label_probabilities"].argmax(axis=1) for each in (rows, wanted)]
        assert [PERCEPTION_LABELS[label] for label in labels[0]] == [PERCEPTION_LABELS[label] for label in labels[1]]
    assert not [
        finding for finding in validate_path(tmp_path / "out" / "scenes" / "sample.zarr") if finding.severity == "error"
    ]


def _changed(change):
    def make():
        told = mcap_files.messages_of(NUM_STEPS)
        boxes = [each for each in told if each[0] == "/boxes"]
        change(boxes[3][3]["entities"][0], told)
        return told

    return make


DAMAGE = {
    "NaN": (
        _changed(lambda box, _: box["cubes"][0]["pose"]["position"].update(x=float("nan"))),
        r"topic '/boxes' at \d+ ns: position must be finite numbers, got nan",
    ),
    "no rotation": (
        _changed(lambda box, _: box["cubes"][0]["pose"]["orientation"].update(w=0.0)),
        r"topic '/boxes' at \d+ ns: rotation must be a quaternion of length 1",
    ),
    "text for a size": (
        _changed(lambda box, _: box["cubes"][0]["size"].update(x="4")),
        r"topic '/boxes' at \d+ ns: size must be finite numbers, got '4'",
    ),
    "no pose": (_changed(lambda box, _: box["cubes"][0].pop("pose")), r"at \d+ ns: it has no 'pose'"),
    "two cubes": (
        _changed(lambda box, _: box["cubes"].append(box["cubes"][0])),
        r"entity '7' has 2 cubes; a road user has one",
    ),
    "a size of 0": (_changed(lambda box, _: box["cubes"][0]["size"].update(y=0.0)), "sizes_m of track '7'"),
    "another frame": (
        _changed(lambda box, _: box.update(frame_id="elsewhere")),
        "boxes and poses are in frames that no transform joins: 'map' in 'map', 'elsewhere' in 'elsewhere'",
    ),
    "a time before 1970": (
        _changed(lambda box, _: box["timestamp"].update(sec=-1)),
        r"timestamp is -\d+ ns; it must be from 0",
    ),
    "a track twice": (
        _changed(lambda box, told: told[3][3]["entities"].append(told[3][3]["entities"][0])),
        r"track '7' has two rows at \d+ ns",
    ),
    "a circle": (
        lambda: [
            *mcap_files.messages_of(NUM_STEPS, objects_frame="base"),
            (
                "/tf",
                "foxglove.FrameTransform",
                mcap_files.START_NS,
                {
                    "parent_frame_id": "base",
                    "child_frame_id": "map",
                    "translation": mcap_files.point(0, 0),
                    "rotation": mcap_files.quaternion(0.0),
                },
            ),
        ],
        "the transforms of frame '(map|base)' go round in a circle",
    ),
    "a transform long ago": (
        lambda: [
            each
            for number, each in enumerate(mcap_files.messages_of(NUM_STEPS, objects_frame="base"))
            if each[0] != "/tf" or number < 6
        ],
        r"frame 'base' has no transform within 0\.5 s of \d+ ns",
    ),
    "no messages": (list, r"topic '/boxes' must have foxglove\.SceneUpdate, but it is not there"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_told_by_topic_and_time(tmp_path, kind):
    make, message = DAMAGE[kind]
    with pytest.raises(SourceDataError, match=rf"a\.mcap: .*{message}"):
        read_one(tmp_path, make())


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        pytest.param(
            lambda content: content[: len(content) // 2],
            "no MCAP file, cut off, or damaged.*mcap recover",
            id="cut off",
        ),
        pytest.param(lambda content: b"", "no MCAP file, cut off, or damaged", id="empty"),
        pytest.param(lambda content: b"time,track\n1,2\n", "no MCAP file, cut off, or damaged", id="text"),
        pytest.param(
            lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:], "CRC|crc|damaged", id="a bit"
        ),
    ],
)
def test_files_that_are_broken_fail_alone(tmp_path, break_it, message):
    mcap_files.write_columns(tmp_path / "set")
    for name in "abc":
        mcap_files.write_json(tmp_path / "set" / f"{name}.mcap", mcap_files.messages_of(NUM_STEPS))
    file = tmp_path / "set" / "b.mcap"
    file.write_bytes(break_it(file.read_bytes()))
    result = import_dataset(open_reader("table", tmp_path / "set"), tmp_path / "out")
    assert result.num_scenes == 2
    (failed,) = result.failed
    assert failed.message.startswith("b.mcap: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(failed.message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"mcap": {"av_pose": "/pose"}}, "mcap must have objects:", id="no objects"),
        pytest.param({"mcap": {"objects": "/b", "topic": "/c"}}, "has the key 'topic'", id="a key"),
        pytest.param({"time_unit": "ms"}, "has mcap: and time_unit:, which is for tables", id="a unit"),
        pytest.param({"av": "none"}, "has mcap.av_pose, but av is none", id="no AV"),
        pytest.param({"mcap": {"objects": [1]}}, "must be a topic or a list of topics", id="no topic"),
        pytest.param({"mcap": {"objects": "/b", "av_size": [1, 2]}}, "mcap.av_size: sizes.CAR must be", id="a size"),
    ],
)
def test_the_column_map_is_checked(tmp_path, changes, message):
    mcap_files.write_columns(tmp_path, **changes)
    with pytest.raises(ConfigError, match=message):
        open_reader("table", tmp_path)


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    mcap_files.write_columns(tmp_path)
    mcap_files.write_json(tmp_path / "a.mcap", mcap_files.messages_of(NUM_STEPS))
    monkeypatch.setitem(__import__("sys").modules, "mcap.stream_reader", None)
    reader = open_reader("table", tmp_path)
    with pytest.raises(MissingDependencyError, match=r"library mcap: pip install .*\[mcap\]"):
        reader.read(reader.list_scenes()[0])
