"""Perception noise of made scenes: as large and as lasting as is stated, and nothing else changes."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l5kit._types import Float64Array, Int64Array
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_arrays import FaceRows, SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.tracks import Tracks, label_probabilities_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.synthetic import CityFolder, CityParams, make_city
from l5kit.synthetic.perception_noise import (
    BEGIN_UNKNOWN_FRAMES,
    LOST_FRAMES,
    NOISE,
    STILL_SHARE,
    UNSURE_SHARE,
    YOUNG_FRAMES,
    perceive,
)

NUM_TRACKS, NUM_FRAMES = 400, 200
CAR, CYCLIST, PEDESTRIAN, UNKNOWN = (
    PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("CAR", "CYCLIST", "PEDESTRIAN", "UNKNOWN")
)
NAMES = {"PERCEPTION_LABEL_CAR": CAR, "PERCEPTION_LABEL_PEDESTRIAN": PEDESTRIAN, "PERCEPTION_LABEL_UNKNOWN": UNKNOWN}
SMALL = {"seed": 5, "num_scenes": 2, "num_frames": 12, "town_size": 250.0}
SIZE_M = (4.0, 2.0, 1.5)


def true_scene(label: int, *, speed_mps: float, first_frame: int = 0) -> SceneRecords:
    """Objects of one class that head along y, 30 m apart on x = 50 m, and an AV far behind that sees them all."""
    heading = np.pi / 2
    frames = np.arange(NUM_FRAMES)
    positions = np.zeros((NUM_TRACKS, NUM_FRAMES, 2))
    positions[..., 0] = 50.0
    positions[..., 1] = 30.0 * np.arange(NUM_TRACKS)[:, None] + speed_mps * 0.1 * frames
    tracks = Tracks(
        track_ids=np.arange(1, NUM_TRACKS + 1),
        is_valid=np.broadcast_to(frames >= first_frame, (NUM_TRACKS, NUM_FRAMES)).copy(),
        positions_m=positions,
        headings_rad=np.full((NUM_TRACKS, NUM_FRAMES), heading),
        velocities_mps=np.broadcast_to((0.0, speed_mps), (NUM_TRACKS, NUM_FRAMES, 2)).copy(),
        sizes_m=np.broadcast_to(SIZE_M, (NUM_TRACKS, 3)).copy(),
        label_probabilities=label_probabilities_of(np.full(NUM_TRACKS, label)),
    )
    return SceneArrays(
        host="car",
        timestamps_ns=1_000_000_000 + frames * 100_000_000,
        ego_positions_m=np.full((NUM_FRAMES, 3), (-1e5, -1e6, 0.0)),
        ego_rotations=np.broadcast_to(np.eye(3), (NUM_FRAMES, 3, 3)).copy(),
        agents=tracks.to_agent_rows(),
        tl_faces=FaceRows.none(NUM_FRAMES),
    ).to_records()


def frames_of(scene: SceneRecords) -> Int64Array:
    """Return the frame of each agent row."""
    return np.repeat(np.arange(len(scene.frames)), np.diff(scene.frames["agent_index_interval"], axis=1)[:, 0])


def errors_of(true: SceneRecords, noisy: SceneRecords) -> dict[str, Float64Array]:
    """Return the errors of objects in frames, NaN where they are lost, (K, F) each; positions identify the objects."""
    frame, row = frames_of(noisy), noisy.agents
    along_m = float(true.agents["velocity"][0, 1]) * 0.1 * frame
    number = np.rint((row["centroid"][:, 1] - along_m) / 30.0).astype(int)
    found = {}
    columns = {
        "along": row["centroid"][:, 1] - along_m - 30.0 * number,
        "across": 50.0 - row["centroid"][:, 0],
        "heading": np.angle(np.exp(1j * (row["yaw"] - np.pi / 2))),
        "length": row["extent"][:, 0] / SIZE_M[0] - 1.0,
        "width": row["extent"][:, 1] / SIZE_M[1] - 1.0,
        "height": row["extent"][:, 2] / SIZE_M[2] - 1.0,
        "vx": row["velocity"][:, 0],
        "vy": row["velocity"][:, 1],
        "id": row["track_id"].astype(float),
        "unknown": row["label_probabilities"].argmax(axis=1) == UNKNOWN,
    }
    for name, values in columns.items():
        found[name] = np.full((NUM_TRACKS, NUM_FRAMES), np.nan)
        found[name][number, frame] = values
    return found


@pytest.fixture(scope="module", params=[(name, v) for name in NAMES for v in (0.0, 8.0)], ids=str)
def made(request: pytest.FixtureRequest) -> tuple[str, float, dict[str, Float64Array]]:
    """Class, speed, and errors of many objects of it."""
    name, speed_mps = request.param
    true = true_scene(NAMES[name], speed_mps=speed_mps)
    return name, speed_mps, errors_of(true, perceive(true, np.random.default_rng(1)))


def test_errors_are_as_large_and_as_lasting_as_stated(made: tuple[str, float, dict[str, Float64Array]]) -> None:
    name, speed_mps, errors = made
    noise = NOISE[name]
    stated = noise.moving if speed_mps else noise.standing
    for place, quantity in enumerate(("along", "across", "heading", "length", "width", "height")):
        values, deviation = errors[quantity], stated[place]
        if quantity == "heading" and deviation > 0.5:
            continue  # angles that go around have no such deviation
        assert abs(np.nanmean(values)) < 0.1 * deviation, quantity
        is_size = place >= 3  # sizes are cut short more often, and kept above a fifth
        least, most = (0.8, 1.2) if is_size else (0.9, 1.1)
        assert least < np.nanstd(values) / deviation < most, quantity
        kept = np.nanmean(values[:, 5:] * values[:, :-5]) / np.nanmean(values**2)
        lasting = np.exp(-0.5 / noise.times_s[place])
        assert kept == pytest.approx(lasting, abs=0.08), quantity


def test_most_errors_come_in_few_frames(made: tuple[str, float, dict[str, Float64Array]]) -> None:
    name, speed_mps, errors = made
    steps = np.abs(np.diff(errors["across"], axis=1))
    steps = steps[~np.isnan(steps)]
    time_s, noise = NOISE[name].times_s[1], NOISE[name]
    wanted = (noise.moving if speed_mps else noise.standing)[1] * np.sqrt(2.0 * (1.0 - np.exp(-0.1 / time_s)))
    assert np.sqrt((steps**2).mean()) == pytest.approx(wanted, rel=0.12)
    assert np.median(steps) < 0.35 * wanted  # 0.67 of a Gaussian


def test_velocities_follow_the_places(made: tuple[str, float, dict[str, Float64Array]]) -> None:
    name, speed_mps, errors = made
    is_still = (np.nan_to_num(errors["vy"]) == 0).all(axis=1)
    if name == "PERCEPTION_LABEL_UNKNOWN" and speed_mps == 0:
        assert is_still.all()
        return
    wanted = STILL_SHARE if name == "PERCEPTION_LABEL_CAR" and speed_mps == 0 else 0.0
    assert is_still.mean() == pytest.approx(wanted, abs=0.06)
    steps_mps = np.diff(errors["along"], axis=1)[~is_still] / 0.1
    speeds = errors["vy"][~is_still, 1:] - speed_mps
    known = ~np.isnan(steps_mps) & ~np.isnan(speeds)
    assert abs(speeds[known].mean()) < 0.02
    assert 0.05 < speeds[known].std() < 0.4 * steps_mps[known].std()  # smoother than differences of two frames
    assert np.corrcoef(steps_mps[known], speeds[known])[0, 1] > 0.3


@pytest.fixture
def no_dropouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of the tracker alone."""
    noise = {name: replace(each, dropout_rate=0.0) for name, each in NOISE.items()}
    monkeypatch.setattr("l5kit.synthetic.perception_noise.NOISE", noise)


@pytest.mark.usefixtures("no_dropouts")
@pytest.mark.parametrize("label", NAMES.values(), ids=NAMES)
def test_tracks_are_lost_as_often_as_stated_and_found_under_new_numbers(label: int) -> None:
    name = next(each for each, number in NAMES.items() if number == label)
    true = true_scene(label, speed_mps=0.0)
    errors = errors_of(true, perceive(true, np.random.default_rng(2)))
    ids = errors["id"]
    assert (ids[:, 0] == np.arange(1, NUM_TRACKS + 1)).all()  # the first piece keeps its number
    young, old, num_young, num_old, gaps = 0, 0, 0, 0, []
    for row in ids:
        seen = np.flatnonzero(~np.isnan(row))
        ends = np.flatnonzero(np.diff(row[seen]) != 0)
        for place, piece in enumerate(np.split(seen, 1 + ends)):
            assert (np.diff(piece) == 1).all()  # no gaps inside of a track
            is_lost = place < len(ends)
            at_risk = YOUNG_FRAMES if place else 0  # what is there in frame 0 is not young
            num_young, num_old = num_young + min(len(piece), at_risk), num_old + max(len(piece) - at_risk, 0)
            young, old = young + (is_lost and len(piece) <= at_risk), old + (is_lost and len(piece) > at_risk)
        gaps += (seen[ends + 1] - seen[ends] - 1).tolist()
    numbers = np.unique(ids[~np.isnan(ids)])
    assert len(numbers) == NUM_TRACKS + young + old == numbers.max()  # no number twice, none left out
    stated = NOISE[name].loss_rates
    assert old / max(num_old, 1) == pytest.approx(stated[1], rel=0.15)
    if stated[1]:
        assert young / num_young == pytest.approx(stated[0], rel=0.35)
        assert np.mean(gaps) == pytest.approx(LOST_FRAMES, rel=0.2)


@pytest.mark.parametrize("label", [CAR, PEDESTRIAN], ids=["car", "pedestrian"])
def test_some_tracks_begin_as_unknown(label: int) -> None:
    name = next(each for each, number in NAMES.items() if number == label)
    true = true_scene(label, speed_mps=0.0, first_frame=20)
    noisy = perceive(true, np.random.default_rng(3))
    unknown = {1 + number: [] for number in range(NUM_TRACKS)}
    for row in noisy.agents:
        if row["track_id"] <= NUM_TRACKS:
            unknown[int(row["track_id"])].append(row["label_probabilities"].argmax() == UNKNOWN)
    begins = np.array([each[0] for each in unknown.values()])
    assert begins.mean() == pytest.approx(NOISE[name].begins_unknown, abs=0.05)
    lasted = [np.argmin([*each, False]) for each in unknown.values() if each[0]]
    assert np.mean(lasted) == pytest.approx(BEGIN_UNKNOWN_FRAMES, rel=0.35)
    later = np.concatenate([each[25:] for each in unknown.values()])
    assert later.mean() == pytest.approx(4.0 * NOISE[name].turns_unknown, rel=0.5)


def test_classes_without_stated_noise_are_taken_for_cars_and_empty_scenes_stay() -> None:
    true = true_scene(PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_BUS"], speed_mps=8.0)
    car = true_scene(CAR, speed_mps=8.0)
    bus, other = (perceive(each, np.random.default_rng(4)) for each in (true, car))
    assert np.array_equal(bus.agents["yaw"], other.agents["yaw"])
    alone = SceneArrays.of_records(true).to_records()
    alone.frames["agent_index_interval"] = 0
    empty = SceneRecords(alone.frames, alone.agents[:0], alone.tl_faces)
    assert perceive(empty, np.random.default_rng(0)) is empty


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def cities(tmp_path_factory: pytest.TempPathFactory) -> tuple[CityFolder, CityFolder]:
    """The same city without noise and with it."""
    folder = tmp_path_factory.mktemp("noise")
    plain, noisy = (make_city(folder / str(noise), **SMALL, num_train_scenes=1, noise=noise) for noise in (False, True))
    return plain, noisy


def test_the_true_city_stands_beside_the_noisy_one_byte_for_byte(cities: tuple[CityFolder, CityFolder]) -> None:
    plain, noisy = cities
    assert (list(plain.truth), list(noisy.truth)) == ([], ["sample", "train"])
    assert not (plain.path / "truth").exists()
    for name, path in plain.scenes.items():
        assert _digests(path) == _digests(noisy.truth[name])
        assert _digests(path) != _digests(noisy.scenes[name])
    assert plain.semantic_map.read_bytes() == noisy.semantic_map.read_bytes()
    assert plain.aerial_map.read_bytes() == noisy.aerial_map.read_bytes()


def test_the_av_and_the_lights_stay_true(cities: tuple[CityFolder, CityFolder]) -> None:
    true, noisy = (ChunkedDataset(str(each.scenes["sample"])).open() for each in cities)
    assert noisy.validate() == []
    assert np.array_equal(true.scenes[:], noisy.scenes[:])
    assert true.tl_faces[:].tobytes() == noisy.tl_faces[:].tobytes()
    for name in ("timestamp", "ego_translation", "ego_rotation", "traffic_light_faces_index_interval"):
        assert np.array_equal(true.frames[:][name], noisy.frames[:][name])
    assert true.agents[:].tobytes() != noisy.agents[:].tobytes()


def test_same_arguments_same_noise_for_any_number_of_workers(
    cities: tuple[CityFolder, CityFolder], tmp_path: Path
) -> None:
    again = make_city(tmp_path / "again", **SMALL, num_train_scenes=1, noise=True, workers=2)
    assert _digests(again.path) == _digests(cities[1].path)


@pytest.mark.parametrize("noise", [1, "yes", None])
def test_noise_is_on_or_off(noise: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"noise must be True or False, got "):
        CityParams(noise=noise)  # type: ignore[arg-type]


def test_a_few_objects_are_never_certain() -> None:
    noisy = perceive(true_scene(CAR, speed_mps=8.0), np.random.default_rng(6))
    probabilities = noisy.agents["label_probabilities"]
    unsure = (probabilities.max(axis=1) < 1.0).mean()
    assert unsure == pytest.approx(UNSURE_SHARE, rel=1.0)
    assert unsure > 0
    np.testing.assert_allclose(probabilities[:, [CAR, UNKNOWN]].sum(axis=1), 1.0, rtol=1e-6)
