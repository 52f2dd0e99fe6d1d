"""Datasets over logs whose intervals break the run: a sample is the right one, or an error that says what is wrong."""

import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data.index.log_index import require_readable_log
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.dataset.mask_cache import load_or_compute_mask
from l5kit.dataset.select_agents.selection import select_agents
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.errors import CorruptedDataError, SampleError
from support.logs import make_log, write_with_chunks
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg

NUM_SCENES, NUM_FRAMES = 4, 14
FRAMES_OF_SCENE, AGENTS_OF_FRAME, FACES_OF_FRAME = (
    "frame_index_interval",
    "agent_index_interval",
    "traffic_light_faces_index_interval",
)
CFG = make_cfg(history_num_frames=2, future_num_frames=3)
MASK = {"min_frame_history": 1, "min_frame_future": 1}


def make_whole_log(*, has_breaks: bool = True) -> ChunkedDataset:
    """Return four scenes of 14 frames with 3 agents and a light each; each recorded apart, or all without a break."""
    scenes = [
        [
            [{"track_id": track, "centroid": (10 * scene + 0.1 * frame, 3.0 * track)} for track in (1, 2, 3)]
            for frame in range(NUM_FRAMES)
        ]
        for scene in range(NUM_SCENES)
    ]
    log = make_log(scenes)
    log.frames["timestamp"] += 10**12 + (np.arange(len(log.frames)) // NUM_FRAMES * 10**10 if has_breaks else 0)
    log.frames["ego_translation"][:, 0] = 10 * (np.arange(len(log.frames)) // NUM_FRAMES)
    log.scenes["start_time"] = log.scenes["end_time"] = 10**12
    return log


def set_scenes(**intervals: tuple[int, int]) -> Any:
    def damage(log: ChunkedDataset) -> None:
        for name, interval in intervals.items():
            log.scenes[FRAMES_OF_SCENE][int(name[1:])] = interval

    return damage


def set_frames(field: str, rows: slice, interval: Any) -> Any:
    def damage(log: ChunkedDataset) -> None:
        log.frames[field][rows] = interval

    return damage


def swap_frames(log: ChunkedDataset) -> None:
    log.frames[[20, 21]] = log.frames[[21, 20]]


def cut_agents(log: ChunkedDataset) -> None:
    log.agents = log.agents[:100]


def lose_agents(log: ChunkedDataset) -> None:
    log.agents = log.agents[:0]


def cut_faces(log: ChunkedDataset) -> None:
    log.tl_faces = log.tl_faces[:33]


DAMAGES: dict[str, tuple[Any, set[int]]] = {
    "a scene of [0, 0]": (set_scenes(s1=(0, 0)), {1}),
    "a scene of [14, 14]": (set_scenes(s1=(14, 14)), {1}),
    "a first scene of [0, 0]": (set_scenes(s0=(0, 0)), {0}),
    "two scenes swapped": (set_scenes(s1=(28, 42), s2=(14, 28)), {1, 2}),
    "scenes that overlap": (set_scenes(s1=(14, 30)), {1}),
    "a scene one frame short": (set_scenes(s1=(14, 27)), {1}),
    "a scene one frame late": (set_scenes(s1=(15, 28)), {1}),
    "a first scene that starts at 3": (set_scenes(s0=(3, 14)), {0}),
    "a last scene that ends early": (set_scenes(s3=(42, 53)), {3}),
    "a scene of negative frames": (set_scenes(s2=(-5, 3)), {2}),
    "a scene as the one before": (set_scenes(s2=(14, 28)), {2}),
    "frames of [0, 0]": (set_frames(AGENTS_OF_FRAME, slice(18, 24), 0), {1}),
    "first frames of [0, 0]": (set_frames(AGENTS_OF_FRAME, slice(0, 5), 0), {0}),
    "last frames of [0, 0]": (set_frames(AGENTS_OF_FRAME, slice(50, 56), 0), {3}),
    "a scene of frames of [0, 0]": (set_frames(AGENTS_OF_FRAME, slice(14, 28), 0), {1}),
    "a frame that is empty": (set_frames(AGENTS_OF_FRAME, slice(20, 21), 60), {1}),
    "a frame that lost an agent": (set_frames(AGENTS_OF_FRAME, slice(20, 21), (60, 62)), {1}),
    "a frame with agents of the next": (set_frames(AGENTS_OF_FRAME, slice(20, 21), (60, 64)), {1}),
    "a last frame that lost an agent": (set_frames(AGENTS_OF_FRAME, slice(55, 56), (165, 167)), {3}),
    "two frames swapped": (swap_frames, {1}),
    "frames without their lights": (set_frames(FACES_OF_FRAME, slice(18, 24), 0), {1}),
    "agents cut": (cut_agents, {2, 3}),
    "agents lost": (lose_agents, {0, 1, 2, 3}),
    "faces cut": (cut_faces, {2, 3}),
}


def make_ego(log: ChunkedDataset) -> EgoDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return EgoDataset(CFG, log, None)


def stored(log: ChunkedDataset, folder: Path, opener: str) -> ChunkedDataset:
    if opener == "memory":
        return log
    dataset = ChunkedDataset(write_with_chunks(log, folder / "log.zarr"))
    options: dict[str, Any] = {"mmap": {"cached": "mmap", "cache_folder": folder}, "chunks": {"cached": False}}
    return dataset.open(**options[opener])


def place_of(sample: dict[str, Any]) -> tuple[int, int, int]:
    return sample["scene_index"], sample["timestamp"], sample["track_id"]


def assert_right_or_refused(dataset: Any, expected: dict[tuple[int, int, int], dict[str, Any]]) -> set[int]:
    """Compare all samples with those of the whole log, by scene, time and track; return the scenes seen as a whole."""
    seen = set()
    for index in range(len(dataset)):
        sample, error = sample_or_error(dataset, index)
        if error is not None:
            assert isinstance(error.__cause__, CorruptedDataError), str(error)
            assert "scene" in str(error)
            with pytest.raises(SampleError) as batched:
                dataset.__getitems__([index])
            assert str(batched.value) == str(error)
            continue
        assert_samples_equal(sample, expected[place_of(sample)])
        assert_samples_equal(dataset.__getitems__([index])[0], sample)
        seen.add(place_of(sample))
    return {scene for scene in range(NUM_SCENES) if {place for place in expected if place[0] == scene} <= seen}


def sample_or_error(dataset: Any, index: int) -> tuple[dict[str, Any], SampleError | None]:
    try:
        return dataset[index], None
    except SampleError as error:
        return {}, error


@pytest.mark.parametrize("opener", ["memory", "mmap", "chunks"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_samples_of_the_av(damage: str, opener: str, tmp_path: Path) -> None:
    change, damaged = DAMAGES[damage]
    whole, broken = make_ego(make_whole_log()), make_whole_log()
    change(broken)
    log = stored(broken, tmp_path, opener)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        dataset = EgoDataset(CFG, log, None)
    readable = assert_right_or_refused(dataset, {place_of(sample): sample for sample in whole})
    assert readable == set(range(NUM_SCENES)) - damaged


@pytest.mark.parametrize("damage", DAMAGES)
def test_samples_of_agents(damage: str) -> None:
    change, damaged = DAMAGES[damage]
    whole, broken = make_agent_dataset(CFG, make_whole_log(), **MASK), make_whole_log()
    change(broken)
    if damaged == set(range(NUM_SCENES)):
        with pytest.raises(CorruptedDataError, match="scene 0"):
            make_agent_dataset(CFG, broken, **MASK)
        return
    dataset = make_agent_dataset(CFG, broken, **MASK)
    readable = assert_right_or_refused(dataset, {place_of(sample): sample for sample in whole})
    assert readable == set(range(NUM_SCENES)) - damaged


@pytest.mark.parametrize("damage", DAMAGES)
def test_samples_of_agents_of_a_mask(damage: str) -> None:
    change, damaged = DAMAGES[damage]
    whole, broken = make_agent_dataset(CFG, make_whole_log(), **MASK), make_whole_log()
    change(broken)
    mask = whole.agents_mask[: len(broken.agents)]
    dataset = make_agent_dataset(CFG, broken, agents_mask=mask)
    readable = assert_right_or_refused(dataset, {place_of(sample): sample for sample in whole})
    assert readable == set(range(NUM_SCENES)) - damaged


@pytest.mark.parametrize("damage", DAMAGES)
def test_validate_reports_each(damage: str) -> None:
    log = make_whole_log()
    log.scenes["end_time"] += 1
    assert [finding for finding in log.validate() if finding.severity == "error"] == []
    DAMAGES[damage][0](log)
    found = [finding for finding in log.validate() if finding.severity == "error" and "interval" in finding.check]
    assert found


@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_reads_a_scene_gets_it_right_or_refuses_it(damage: str) -> None:
    change, damaged = DAMAGES[damage]
    whole, broken = make_whole_log(), make_whole_log()
    change(broken)
    agents = make_agent_dataset(CFG, broken, agents_mask=np.ones(len(broken.agents), np.bool_))
    for scene in range(NUM_SCENES):
        if damage in ("a scene of [14, 14]", "a first scene of [0, 0]") and scene in damaged:
            assert len(broken.get_scene_dataset(scene).frames) == 0, "which is what the record says"
            continue
        if scene in damaged:
            with pytest.raises(CorruptedDataError, match=rf"scene {scene}\b|of scene"):
                broken.get_scene_dataset(scene)
            continue
        content, expected = broken.get_scene_dataset(scene), whole.get_scene_dataset(scene)
        for name in ("scenes", "frames", "agents", "tl_faces"):
            np.testing.assert_array_equal(getattr(content, name), getattr(expected, name))
        np.testing.assert_array_equal(agents.get_scene_indices(scene), np.arange(42 * scene, 42 * (scene + 1)))
        np.testing.assert_array_equal(agents.get_frame_indices(14 * scene + 3), np.arange(3) + 42 * scene + 9)
        assert len(agents.get_scene_dataset(scene)) == 42
        np.testing.assert_array_equal(
            make_ego(broken).get_scene_indices(scene), np.arange(14 * scene, 14 * (scene + 1))
        )


def test_a_scene_whose_frames_go_back_is_refused_by_name() -> None:
    """Its frames have no agents; only their position shows that the last of them were shifted with the rest."""
    log = make_whole_log()
    log.frames[AGENTS_OF_FRAME][14:28] = 42
    log.frames[AGENTS_OF_FRAME][28:] -= 42
    log.agents = log.agents[:126]
    log.frames[AGENTS_OF_FRAME][24:] -= 3
    with pytest.raises(CorruptedDataError, match="scene 1, frame 10 of it: agent_index_interval of frame 24 starts"):
        log.get_scene_dataset(1)


@pytest.mark.parametrize("damage", ["a scene one frame short", "scenes that overlap", "a scene one frame late"])
def test_where_nothing_tells_which_of_two_scenes_is_wrong_both_are_refused(damage: str) -> None:
    broken = make_whole_log(has_breaks=False)
    whole = {place_of(sample): sample for sample in make_ego(make_whole_log(has_breaks=False))}
    DAMAGES[damage][0](broken)
    refused = {1, 2} if damage != "a scene one frame late" else {0, 1}
    assert assert_right_or_refused(make_ego(broken), whole) == set(range(NUM_SCENES)) - refused


@pytest.mark.parametrize("taken", [[0], [2], [1, 3], [0, 1, 3]], ids=str)
@pytest.mark.parametrize("has_breaks", [True, False])
def test_scenes_that_were_left_out_of_the_array_take_nothing_from_the_others(
    taken: list[int], has_breaks: bool
) -> None:
    log = make_whole_log(has_breaks=has_breaks)
    whole = make_ego(make_whole_log(has_breaks=has_breaks))
    log.scenes = log.scenes[taken]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = EgoDataset(CFG, log, None)
    for frame in range(len(dataset)):
        scene = frame // NUM_FRAMES
        if scene in taken:
            assert_samples_equal(dataset[frame], whole[frame] | {"scene_index": taken.index(scene)})
        else:
            with pytest.raises(SampleError, match=f"frame {frame} belongs to no scene"):
                dataset[frame]


def test_windows_beside_damaged_frames_are_right() -> None:
    broken = make_whole_log()
    DAMAGES["a frame that is empty"][0](broken)
    dataset, whole = make_ego(broken), make_ego(make_whole_log())
    refused = [index for index in range(14, 28) if is_refused(dataset, index)]
    assert refused == [17, 18, 19, 20, 21, 22, 23], "three frames ahead of it, and two behind the one after it"
    for index in set(range(56)) - set(refused):
        assert_samples_equal(dataset[index], whole[index])


def test_a_frame_that_has_lost_agents_before_an_empty_one_of_the_next_scene_is_refused() -> None:
    """As many as others have: they may belong to either of the two frames."""

    def make() -> ChunkedDataset:
        crowd = [{"track_id": track, "centroid": (0.0, 3.0 * track)} for track in range(1, 7)]
        scenes = [[crowd if frame == 7 else crowd[:3] for frame in range(8)], [[], *[crowd[:3]] * 7]]
        return make_log(scenes)

    broken, whole = make(), make_ego(make())
    broken.frames[AGENTS_OF_FRAME][7, 1] -= 3
    dataset = make_ego(broken)
    refused = [index for index in range(16) if is_refused(dataset, index)]
    assert {7, 8} <= set(refused)
    for index in set(range(16)) - set(refused):
        assert_samples_equal(dataset[index], whole[index])
    with pytest.raises(CorruptedDataError, match="scene 1, frame 0 of it"):
        broken.get_scene_dataset(1)


@pytest.mark.parametrize("side", [0, 1])
def test_a_frame_that_has_lost_as_many_agents_as_others_have_is_refused_where_time_goes_on(side: int) -> None:
    def make() -> ChunkedDataset:
        crowd = [{"track_id": track, "centroid": (0.0, 3.0 * track)} for track in range(1, 8)]
        return make_log([[crowd if frame == 6 else crowd[:3] for frame in range(NUM_FRAMES)]])

    broken, whole = make(), make_ego(make())
    broken.frames[AGENTS_OF_FRAME][6, side] += 3 - 6 * side
    dataset = make_ego(broken)
    refused = [index for index in range(NUM_FRAMES) if is_refused(dataset, index)]
    assert refused == ([2, 3, 4, 5, 6, 7, 8] if side == 0 else [3, 4, 5, 6, 7, 8, 9]), "the frame and the one beside it"
    for index in set(range(NUM_FRAMES)) - set(refused):
        assert_samples_equal(dataset[index], whole[index])
    with pytest.raises(CorruptedDataError, match=r"agent_index_interval \[\d+, \d+\] of frame \d"):
        broken.get_scene_dataset(0)

    behind = 6 + side
    broken.frames["timestamp"][behind:] += 100_000_000  # a frame was left out there
    assert not any(is_refused(make_ego(broken), index) for index in range(NUM_FRAMES))


def is_refused(dataset: Any, index: int) -> bool:
    try:
        dataset[index]
    except SampleError:
        return True
    return False


def test_damaged_frames_between_scenes_refuse_no_scene_and_are_named() -> None:
    log = make_whole_log()
    log.scenes = log.scenes[[0, 2, 3]]
    log.frames[AGENTS_OF_FRAME][18] = (54, 50)
    named = r"14 frames belong to no scene \(agent_index_interval \[54, 50\] of frame 18 ends before it starts\)"
    with pytest.warns(RuntimeWarning, match=f"{named}, and are left out"):
        require_readable_log(log)
    with pytest.raises(CorruptedDataError, match=f"is damaged: {named}"):
        require_readable_log(log, has_all_frames=True)
    with pytest.warns(RuntimeWarning, match=f"is damaged, .* are errors: {named}"):
        EgoDataset(CFG, log, None)
    log.frames[FACES_OF_FRAME][16] = (3, 1)
    with pytest.warns(RuntimeWarning, match=r"no scene \(traffic_light_faces_index_interval \[3, 1\] of frame 16 ends"):
        require_readable_log(log)
    log.frames[AGENTS_OF_FRAME][4] = (54, 50)
    with pytest.raises(CorruptedDataError, match=r"is damaged: 1 of 3 scenes are damaged \(0\)"):
        require_readable_log(log)


def test_lights_that_nobody_asks_for_may_be_damaged() -> None:
    broken = make_whole_log()
    DAMAGES["frames without their lights"][0](broken)
    cfg = make_cfg(history_num_frames=2, future_num_frames=3, disable_traffic_light_faces=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset, whole = EgoDataset(cfg, broken, None), EgoDataset(cfg, make_whole_log(), None)
    for index in range(len(dataset)):
        assert_samples_equal(dataset[index], whole[index])


def test_a_log_that_lost_all_its_lights_is_read_without_them_after_a_warning() -> None:
    broken, dark = make_whole_log(), make_whole_log()
    broken.tl_faces = broken.tl_faces[:0]
    dark.tl_faces, dark.frames[FACES_OF_FRAME] = dark.tl_faces[:0], 0
    with pytest.warns(RuntimeWarning, match="no traffic light faces, although its frames name 56 of them"):
        dataset = EgoDataset(CFG, broken, None)
    whole = make_ego(dark)
    for index in range(len(dataset)):
        assert_samples_equal(dataset[index], whole[index])


def test_a_chunk_of_frames_that_cannot_be_read_leaves_the_other_scenes(tmp_path: Path) -> None:
    path = Path(write_with_chunks(make_whole_log(), tmp_path / "log.zarr"))
    (path / "frames" / "4").write_bytes(b"garbage")
    whole = {place_of(sample): sample for sample in make_ego(make_whole_log())}
    dataset = make_agent_dataset(CFG, ChunkedDataset(str(path)).open(), **MASK)
    of_agents = {place_of(sample): sample for sample in make_agent_dataset(CFG, make_whole_log(), **MASK)}
    assert assert_right_or_refused(dataset, of_agents) == {0, 2, 3}
    assert assert_right_or_refused(make_ego(ChunkedDataset(str(path)).open()), whole) == {0, 2, 3}


def test_a_chunk_of_agents_that_cannot_be_read_leaves_the_agents_of_other_scenes(tmp_path: Path) -> None:
    path = Path(write_with_chunks(make_whole_log(), tmp_path / "log.zarr"))
    (path / "agents" / "7").write_bytes(b"garbage")
    whole = {place_of(sample): sample for sample in make_agent_dataset(CFG, make_whole_log(), **MASK)}
    with pytest.warns(RuntimeWarning, match=r"takes no agent of 1 damaged scenes \(scene 1"):
        dataset = AgentDataset(CFG, ChunkedDataset(str(path)).open(), None, **MASK)
    assert assert_right_or_refused(dataset, whole) == {0, 2, 3}
    with pytest.raises(CorruptedDataError, match="agents/7"):
        select_agents(ChunkedDataset(str(path)).open(), 0.5, 30, 1.1, 50)


@pytest.mark.filterwarnings("ignore:the agents mask of .* has to be computed")
@pytest.mark.parametrize(
    "compute", [compute_agents_mask, partial(load_or_compute_mask, strict=True)], ids=["computed", "or read"]
)
def test_who_wants_a_whole_mask_does_not_wait_for_the_scenes_behind_a_damaged_one(compute: Any, tmp_path: Path) -> None:
    path = Path(write_with_chunks(make_whole_log(), tmp_path / "log.zarr"))
    (path / "agents" / "7").write_bytes(b"garbage")
    told: list[tuple[int, int]] = []
    with pytest.raises(CorruptedDataError, match="agents/7"):
        compute(ChunkedDataset(str(path)).open(), MaskThresholds(0.5), progress=lambda *done: told.append(done))
    assert told == [(1, NUM_SCENES)]


@pytest.mark.filterwarnings("ignore:the agents mask of .* has to be computed", "ignore:min_frame")
@pytest.mark.parametrize("is_transient", [False, True], ids=["nowhere to keep masks", "a chunk read again later"])
def test_a_mask_that_is_not_kept_goes_along_to_other_processes(
    is_transient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(write_with_chunks(make_whole_log(), tmp_path / "log.zarr"))
    chunk, content = path / "agents" / "7", (path / "agents" / "7").read_bytes()
    if is_transient:
        chunk.write_bytes(b"garbage")
    else:
        (tmp_path / "file").touch()
        monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "file"))
    told = "damaged scenes .* and is not kept" if is_transient else "cannot be kept"
    with pytest.warns(RuntimeWarning, match=told):
        dataset = AgentDataset(CFG, ChunkedDataset(str(path)).open(), None, **MASK)
    chunk.write_bytes(content)
    copied = dataset
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            copied = pickle.loads(pickle.dumps(copied))
        np.testing.assert_array_equal(copied.agents_mask, dataset.agents_mask)


@pytest.mark.parametrize("damage", ["a scene of [0, 0]", "frames of [0, 0]"])
def test_what_is_wrong_goes_along_to_other_processes(damage: str, tmp_path: Path) -> None:
    broken = make_whole_log()
    DAMAGES[damage][0](broken)
    for log in (broken, stored(broken, tmp_path, "mmap")):
        dataset = make_ego(log)
        copied = pickle.loads(pickle.dumps(dataset))
        assert [is_refused(copied, index) for index in range(56)] == [is_refused(dataset, index) for index in range(56)]
        agents = make_agent_dataset(CFG, log, **MASK)
        copied = pickle.loads(pickle.dumps(agents))
        assert len(copied) == len(agents)
        assert [is_refused(copied, index) for index in range(len(agents))] == [
            is_refused(agents, index) for index in range(len(agents))
        ]


def test_a_log_put_in_the_place_of_another_is_checked() -> None:
    dataset, broken = make_ego(make_whole_log()), make_whole_log()
    DAMAGES["a scene of [0, 0]"][0](broken)
    dataset.dataset, dataset.cumulative_sizes = broken, broken.scenes[FRAMES_OF_SCENE][:, 1]
    with pytest.warns(RuntimeWarning, match="is damaged"), pytest.raises(SampleError, match="scene 1"):
        dataset[14]
    assert dataset[28]["scene_index"] == 2
