"""Readers of logs that make no samples: mask, scenes, validation, viewer, pages, recordings, chopped sets."""

import base64
import gzip
import json
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from attack.clean_sets import CHOPPED_FRAMES
from attack.job import Job
from attack.judging import ANYTHING, Expected, MismatchError, Outcome
from attack.oracle import THRESHOLDS, table_row
from attack.reading_samples import has_frames
from attack.record_files import ATTRIBUTES, read_records
from attack.study import Study
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.map.opened import open_map
from l5kit.data.scene_table import read_scene_table
from l5kit.dataset.mask_cache import load_or_compute_mask
from l5kit.evaluation.chop_dataset import create_chopped_dataset
from l5kit.visualization.recording import write_mcap
from l5kit.visualization.scene_content import read_scene_content
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.viewed_log import ViewedLog


def read_open(job: Job) -> None:
    job.attempt("opening", lambda: job.dataset)


def read_mask(job: Job) -> None:
    """The agents mask of the whole log; rows of each scene are judged by themselves."""
    study = job.study
    must_work = job.is_row_damage and study is not None and study.is_same
    mask = job.attempt(
        "the mask", lambda: np.array(load_or_compute_mask(job.dataset, THRESHOLDS)), Expected(must_work=must_work)
    )
    if mask is None:
        return
    whole = job.whole
    for scene in range(len(job.clean.records["scenes"])):
        frames = whole.frames_of_scene(scene)
        rows = whole.rows_of_frames(frames, "agents")
        if (study is None or not study.is_sound(scene)) and (mask[rows] == 0).all():
            continue  # no sample comes of it
        if study is None or study.is_visibly_broken(scene, frames, with_faces=False):
            expected = Expected(clean=lambda scene=scene: job.clean.mask(scene))
        elif study.is_same_extent(scene):
            expected = Expected(
                clean=lambda scene=scene: job.clean.mask(scene), stored=lambda scene=scene: job.stored.mask(scene)
            )
        else:  # a whole scene now has other frames, which nobody can detect
            continue
        job.attempt(f"the mask of scene {scene}", lambda rows=rows: mask[rows], expected)


def _expect_scene(job: Job, scene: int, give: Callable[[Any, int], Any]) -> Expected:
    """Return what reading a scene by its number may give.

    Who names a scene gets what its record says, also where this breaks the run.
    """
    study = job.study
    if study is None:
        without = job.without_faces
        return Expected(lambda: give(job.clean, scene), lambda: give(without, scene), warns_if_stored=True)
    if scene >= len(study.stored["scenes"]):
        return Expected(clean=lambda: give(job.clean, scene))
    frames = study.frames_of_scene(scene)
    return Expected(
        clean=lambda: give(job.clean, scene),
        stored=None if _loses_rows(study, scene, frames) else lambda: give(job.stored, scene),
        must_work=job.is_row_damage and study.is_sound(scene),
        warns_if_stored=study.lacks_faces,
    )


def _loses_rows(study: Study, scene: int, frames: slice) -> bool:
    """Whether rows of a scene are gone, so that nothing can be said of it."""
    lost = study.stored.is_lost("scenes")[scene] or study.stored.is_lost("frames")[frames].any()
    agents = study.rows_of_frames(frames, "agents")
    return bool(lost or study.stored.is_lost("agents")[agents].any())


def read_scenes(job: Job) -> None:
    """Each scene by its number."""
    for scene in range(len(job.clean.records["scenes"])):

        def read(scene: int = scene) -> Any:
            log = job.dataset.get_scene_dataset(scene)
            return {key: np.asarray(getattr(log, name)) for key, name in ATTRIBUTES.items()}

        job.attempt(f"scene {scene}", read, _expect_scene(job, scene, lambda oracle, scene: oracle.scene_rows(scene)))


def read_summary(job: Job) -> None:
    job.attempt("the summary", lambda: (str(job.dataset), repr(job.dataset)))


def read_validation(job: Job) -> None:
    """The findings of an opened log."""
    job.attempt("opening", lambda: job.dataset)
    findings = job.attempt("validate()", lambda: job.dataset.validate()) if "dataset" in vars(job) else None
    if findings is not None:
        _judge_findings(job, "validate()", findings)


def read_path_validation(job: Job) -> None:
    """The findings of a path, also where it cannot be opened."""
    findings = job.attempt("validate_path", lambda: validate_path(job.damaged.log), Expected(must_work=True))
    if findings is not None:
        _judge_findings(job, "validate_path", findings)


def _judge_findings(job: Job, what: str, findings: list[Any]) -> None:
    """Findings must name what is broken; see also the comparison with all other readers at the end of a job."""
    has_error = any(finding.severity == "error" for finding in findings)
    finds = any(finding.severity == "error" or finding.check != "format" for finding in findings)
    job.finds_something = finds or bool(job.finds_something)
    study = job.study
    problems = study.problems() if study is not None else []
    if problems and not has_error:
        warned = ", ".join(f"{finding.check}: {finding.message}" for finding in findings)
        job.note(
            what, Outcome.WRONG, f"no error is found where {problems[0]}", f"{problems}; only {warned or 'nothing'}"
        )
    if not findings and study is not None and (odd := study.impossible_values()):
        job.note(what, Outcome.WRONG, f"impossible values pass: {odd[0]}", "no finding")


def read_viewer(job: Job) -> None:
    """The table of scenes, each scene, and the map, as the page of the viewer asks for them."""

    log = job.attempt("opening for the viewer", lambda: ViewedLog(job.files))
    if log is None:
        return
    job.attempt("the facts as JSON", lambda: json.dumps(log.facts(), allow_nan=False) and None)
    job.attempt("the table as JSON", lambda: json.dumps(log.scene_columns, allow_nan=False) and None)
    job.attempt("the map", lambda: log.map_bytes and None)
    for scene in range(len(job.clean.records["scenes"])):
        job.attempt(
            f"scene {scene}",
            lambda scene=scene: log.scene(scene),
            _expect_scene(job, scene, lambda oracle, scene: oracle.content(scene))
            if job.is_log_damage and has_frames(job, scene)
            else ANYTHING,
        )
        job.attempt(f"the bytes of scene {scene}", lambda scene=scene: log.scene_bytes(scene) and None)
    log.close()


def read_table(job: Job) -> None:
    """The rows of the table of scenes."""

    table = job.attempt("the table", lambda: read_scene_table(job.dataset))
    if table is None:
        return
    for scene in range(min(len(table), len(job.clean.records["scenes"]))):
        is_sound = job.study is not None and job.is_row_damage and job.study.is_sound(scene)
        row = table_row(table, scene)
        if (scene in table.errors or not np.isfinite(row[1:-1]).all()) and (has_frames(job, scene) or not is_sound):
            if is_sound:
                job.note(f"row {scene}", Outcome.BLOCKED, "no numbers of a scene that is whole", str(row))
            continue
        expected = _expect_scene(job, scene, lambda oracle, scene: oracle.table_row(scene))
        job.attempt(f"row {scene}", lambda row=row: row, expected)


def read_export(job: Job) -> None:
    """A scene as a page that plays by itself."""

    log = job.attempt("opening for the viewer", lambda: ViewedLog(job.files))
    if log is None:
        return
    page = job.scratch / "page.html"
    for scene in _some_scenes(job):
        page.unlink(missing_ok=True)
        job.attempt(f"the page of scene {scene}", lambda scene=scene: write_exported_page(page, log, scene))
        if page.exists():
            job.attempt(
                f"the content of the page of scene {scene}", lambda: _packed_scene(page.read_text("utf-8")) and None
            )
    log.close()


def _some_scenes(job: Job) -> list[int]:
    """Return the damaged scene, as far as it can be determined, and one more."""
    study, num_scenes = job.study, len(job.clean.records["scenes"])
    struck = [s for s in range(num_scenes) if study is not None and not study.is_sound(s)]
    return sorted({*struck[:2], num_scenes - 1})


def _packed_scene(text: str) -> bytes:
    content = json.loads(text.split('id="l5kit-export">')[1].split("</script>")[0])
    return gzip.decompress(base64.b64decode(content["scene"]))


def read_recording(job: Job) -> None:
    """A scene as an MCAP file."""

    map_api = job.attempt("the map", lambda: open_map(job.files))
    file = job.scratch / "scene.mcap"
    for scene in _some_scenes(job)[:1]:
        content = job.attempt(
            f"scene {scene}", lambda scene=scene: read_scene_content(job.dataset, scene, map_api=map_api)
        )
        if content is not None:
            job.attempt(f"the recording of scene {scene}", lambda content=content: write_mcap(file, content, map_api))


def read_chop(job: Job) -> None:
    """A test set made of the log: it must hold the first frames of each scene, as they are stored."""
    lengths = np.diff(job.clean.records.bounds("scenes", "frame_index_interval"), axis=1)
    if lengths.min() <= CHOPPED_FRAMES:
        return
    folder = job.scratch / "chopped"
    shutil.rmtree(folder, ignore_errors=True)
    made = job.attempt(
        "chopping",
        lambda: create_chopped_dataset(
            str(job.damaged.log), 0.5, CHOPPED_FRAMES, 3, 1, output_folder=folder, verbose=False
        ),
        Expected(must_work=job.study is not None and job.study.is_same and job.is_row_damage),
    )
    if made is None:
        if folder.exists():
            job.note("chopping", Outcome.WRONG, "a folder is left behind by what failed")
        return
    chopped = read_records(folder / job.damaged.log.name, is_zip=False)
    if chopped is None:
        job.note("chopping", Outcome.WRONG, "what was chopped cannot be read")
        return
    result = Study(chopped, chopped)
    for scene in range(len(job.clean.records["scenes"])):

        def read(scene: int = scene) -> Any:
            if scene >= len(chopped["scenes"]) or result.is_suspect_scene[scene]:
                raise MismatchError("the chopped log is broken: its scenes do not follow each other")
            return _first_frames(chopped, scene)

        job.attempt(
            f"chopped scene {scene}",
            read,
            _expect_scene(job, scene, lambda oracle, scene: _first_frames(oracle.records, scene)),
        )


def _first_frames(records: Any, scene: int) -> list[dict[str, np.ndarray]]:
    """Return the first frames of a scene with their rows, without intervals."""
    start = int(records.bounds("scenes", "frame_index_interval")[scene, 0])
    found = []
    for frame in range(start, start + CHOPPED_FRAMES):
        row = records["frames"][frame]
        agents = records["agents"][slice(*row["agent_index_interval"].tolist())]
        faces = records["traffic_light_faces"][slice(*row["traffic_light_faces_index_interval"].tolist())]
        names = [name for name in row.dtype.names if "interval" not in name]
        found.append({name: row[name] for name in names} | {"agents": agents, "faces": faces})
    return found
