"""Readers of samples: one by one, in batches, by the loader, of the AV and of agents, as pictures and as vectors."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attack.job import Job
from attack.judging import ANYTHING, Expected, Outcome
from attack.oracle import MIN_FUTURE, MIN_HISTORY
from attack.study import Study
from l5kit.dataset import AgentDataset, EgoDataset, EgoDatasetVectorized, loader

_MOST_SINGLES = 16
_MOST_AGENTS = 8
_BATCH = 8


def has_frames(job: Job, scene: int) -> bool:
    start, stop = job.clean.records.bounds("scenes", "frame_index_interval")[scene].tolist()
    return start < stop


def places_of(job: Job) -> list[int]:
    """Return frames of the clean log to sample: the ends of scenes, and some in between."""
    bounds = job.clean.records.bounds("scenes", "frame_index_interval")
    filled = bounds[bounds[:, 1] > bounds[:, 0]]
    ends = np.concatenate([filled[:, 0], filled[:, 1] - 1, np.arange(2, filled[-1, 1], 7)])
    return np.unique(ends).tolist()


def _expect(
    job: Job,
    frame: int,
    clean: Callable[[int, int], Any],
    stored: Callable[[Any, int, int], Any],
    *,
    stored_frame: int | None,
) -> Expected:
    """Return what the sample of a frame may be.

    Args:
        job: The job.
        frame: The frame of the clean log.
        clean: Gives the right sample of a scene and a frame in it.
        stored: Gives what an oracle of the stored rows says.
        stored_frame: The frame of the log that the stored rows have in its place.
    """
    if not job.is_log_damage:
        return ANYTHING
    study = job.study
    scene, state = job.whole.place_of_frame(frame)
    if study is None:  # undecidable faces are left out with a warning
        without = job.without_faces
        return Expected(lambda: clean(scene, state), lambda: stored(without, scene, state), warns_if_stored=True)
    place = None if stored_frame is None else study.stored_place(stored_frame)
    return Expected(
        clean=lambda: clean(scene, state),
        stored=partial(stored, job.stored, *place) if place and study.may_be_as_stored(frame, place) else None,
        must_work=job.is_row_damage and study.is_sound(scene),
        warns_if_stored=study.lacks_faces,
    )


def _expect_ego(job: Job, frame: int) -> Expected:
    return _expect(job, frame, job.clean.sample, lambda oracle, *place: oracle.sample(*place), stored_frame=frame)


def _make(job: Job, make: Callable[[], Any]) -> Any:
    """Return a dataset of samples; one damaged scene must not make the others unreadable."""
    study = job.study
    must_work = job.is_row_damage and study is not None and _has_sound_scene(job, study)
    return job.attempt("making the dataset", make, Expected(must_work=must_work))


def _has_sound_scene(job: Job, study: Study) -> bool:
    return any(study.is_sound(scene) for scene in range(len(study.clean["scenes"])) if has_frames(job, scene))


def _make_egos(job: Job) -> Any:
    return _make(job, lambda: EgoDataset(job.tools.cfg, job.dataset, job.tools.rasterizer))


def read_egos(job: Job) -> None:
    dataset = _make_egos(job)
    if dataset is None:
        return
    for frame in places_of(job)[:_MOST_SINGLES]:
        job.attempt(f"sample {frame}", lambda frame=frame: dataset[frame], _expect_ego(job, frame))


def read_ego_batches(job: Job) -> None:
    dataset = _make_egos(job)
    if dataset is not None:
        _read_batches(job, dataset, [(frame, frame) for frame in places_of(job)], _expect_ego)


def _read_batches(
    job: Job, dataset: Any, places: list[tuple[int, int]], expect: Callable[[Job, int], Expected]
) -> None:
    """Read samples (index, and what to expect of it) at once; where that fails, in batches of one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = list(dataset.__getitems__([index for index, _ in places]))
        except Exception:
            samples = []
    for position, (index, place) in enumerate(places):
        what = f"sample {index} of a batch"
        if samples:
            job.attempt(what, lambda position=position: dict(samples[position]), expect(job, place))
        else:
            job.attempt(what, lambda index=index: dict(dataset.__getitems__([index])[0]), expect(job, place))


def read_loader(job: Job) -> None:
    dataset = _make_egos(job)
    if dataset is None:
        return
    batches = job.attempt("all batches", lambda: list(loader(dataset, _BATCH, threads=1)))
    for number, batch in enumerate(batches or []):
        for i in range(len(batch["timestamp"])):
            frame = number * _BATCH + i
            if frame >= len(job.clean.records["frames"]):
                job.note(f"sample {frame} of the loader", Outcome.WRONG, "a sample of a frame that there is not")
                return
            job.attempt(
                f"sample {frame} of the loader",
                lambda batch=batch, i=i: {key: values[i] for key, values in batch.items()},
                _expect_ego(job, frame),
            )


def _agents(job: Job) -> Any:
    def make() -> AgentDataset:
        return AgentDataset(
            job.tools.cfg, job.dataset, job.tools.rasterizer, min_frame_history=MIN_HISTORY, min_frame_future=MIN_FUTURE
        )

    # the mask needs all chunks of the agents
    dataset = _make(job, make) if job.damaged.kind.family == "records" else job.attempt("making the dataset", make)
    if dataset is not None and len(dataset.agents_mask) != len(job.clean.records["agents"]) and job.study is None:
        return None
    return dataset


def _expect_agent(job: Job, row: int) -> Expected:
    """Return what the sample of an agent row may be."""
    clean_rows = job.clean.records["agents"]
    whole = job.whole
    if row >= len(clean_rows):
        return Expected(clean=lambda: None)
    frame = whole.frame_of_agent(row)
    track = int(clean_rows["track_id"][row])

    def of_stored(oracle: Any, scene: int, state: int) -> Any:
        return oracle.sample(scene, state, int(oracle.records["agents"]["track_id"][row]))

    def of_clean(scene: int, state: int) -> Any:
        return job.clean.sample(scene, state, track)

    now = frame if job.study is None else job.study.stored_frame_of_agent(row)
    return _expect(job, frame, of_clean, of_stored, stored_frame=now)


def _agent_places(dataset: AgentDataset) -> list[tuple[int, int]]:
    rows = dataset.agents_indices
    chosen = np.unique(np.linspace(0, len(rows) - 1, _MOST_AGENTS).astype(int)) if len(rows) else []
    return [(int(index), int(rows[index])) for index in chosen]


def read_agents(job: Job) -> None:
    dataset = _agents(job)
    if dataset is None:
        return
    for index, row in _agent_places(dataset):
        job.attempt(f"sample {index} (agent row {row})", lambda index=index: dataset[index], _expect_agent(job, row))
    _check_agents_of_scenes(job, dataset)


def _check_agents_of_scenes(job: Job, dataset: AgentDataset) -> None:
    """The samples of a scene are those of its agent rows."""
    study = job.study
    if study is None:
        return
    for scene in range(len(study.clean["scenes"])):
        if not study.is_sound(scene):
            continue
        rows = study.rows_of_frames(study.frames_of_scene(scene), "agents")
        wanted = np.flatnonzero((dataset.agents_indices >= rows.start) & (dataset.agents_indices < rows.stop))
        job.attempt(
            f"the samples of scene {scene}",
            lambda scene=scene: dataset.get_scene_indices(scene),
            Expected(clean=lambda wanted=wanted: wanted, must_work=True),
        )


def read_agent_batches(job: Job) -> None:
    dataset = _agents(job)
    if dataset is not None:
        _read_batches(job, dataset, _agent_places(dataset), _expect_agent)


def _expect_vectors(job: Job, frame: int) -> Expected:
    return _expect(
        job, frame, job.clean.vector_sample, lambda oracle, *place: oracle.vector_sample(*place), stored_frame=frame
    )


def read_vectors(job: Job) -> None:
    dataset = _make(job, lambda: EgoDatasetVectorized(job.tools.vector_cfg, job.dataset, job.tools.vectorizer))
    if dataset is None:
        return
    places = places_of(job)
    for frame in places[1::3]:
        job.attempt(f"sample {frame}", lambda frame=frame: dataset[frame], _expect_vectors(job, frame))
    _read_batches(job, dataset, [(frame, frame) for frame in places[::2]], _expect_vectors)
