"""Folders of runs with scores that a test chooses: of simulations, evaluations and trainings, without driving."""

import csv
import json
from pathlib import Path

METRICS = (
    {"name": "safety", "label": "Safety", "sentence": "1 without a collision", "role": "multiplier", "passes_from": 1.0,
     "failure": "collision"},
    {"name": "gap_m", "label": "Gap", "sentence": "gap to others", "unit": "m", "range": [0.0, None], "better": "low",
     "digits": 1},
)  # fmt: skip


def write_simulation(folder: Path, scores, *, planner="made", failed=(), **changes) -> Path:
    """Write a simulation with a score for each scene, by number; None for one without a score.

    ``safety`` is 1 where the score is above 0, ``gap_m`` is 10 times the score.

    Args:
        folder: Where.
        scores: By scene.
        planner: Who drives.
        failed: Scenes that could not be driven.
        **changes: Other facts of ``run.json``: ``digest``, ``agents``, ``start_frame``, ``scored_by``, ``l5kit``,
            ``about_metrics``, ``log``.
    """
    folder.mkdir(parents=True)
    about = changes.get("about_metrics", METRICS)
    run = {
        "l5kit": changes.get("l5kit", "2.0.0"),
        "data": {"path": "/nowhere/sample.zarr", "digest": changes.get("digest", "abc"), "num_scenes": 100},
        "files": {"log": str(changes.get("log", "/nowhere/sample.zarr")), "map": None, "meta": None},
        "planner": planner,
        "agents": changes.get("agents", "replay"),
        "options": {"start_frame": changes.get("start_frame", 0), "num_frames": None},
        "digests": {"data": changes.get("digest", "abc"), "map": None},
    }
    if "scored_by" in changes:
        run["scored_by"] = changes["scored_by"]
    (folder / "run.json").write_text(json.dumps(run))
    unscored = [{"scene": scene, "message": "nobody moves"} for scene, score in scores.items() if score is None]
    (folder / "scores.json").write_text(json.dumps({"about_metrics": list(about), "unscored": unscored, **run}))
    with (folder / "scenes.csv").open("w", newline="") as file:
        names = [metric["name"] for metric in about]
        table = csv.DictWriter(file, ["log", "scene", "position", "score", *names, "message"], restval="")
        table.writeheader()
        for position, (scene, score) in enumerate(scores.items()):
            row = {"log": "sample.zarr", "scene": scene, "position": position}
            if score is not None:
                row |= {"score": score, **{name: float(score > 0) for name in names}}
                row |= {"gap_m": 10 * score} if "gap_m" in names else {}
            table.writerow(row)
        for scene in failed:
            table.writerow({"log": "sample.zarr", "scene": scene, "message": "the planner broke"})
    return folder


def write_evaluation(folder: Path, errors_m, *, num_samples_of_log=100, horizon_s=4.0) -> Path:
    """Write an open-loop evaluation with the errors (ADE, FDE, None where unknown) of the samples of each scene."""
    folder.mkdir(parents=True)
    num_samples = sum(map(len, errors_m.values()))
    facts = {
        "checkpoint": "/nowhere/planner.safetensors",
        "workflow": "vector_planner",
        "log": "/nowhere/sample.zarr",
        "data": {"path": "/nowhere/sample.zarr", "digest": "abc", "num_scenes": 9},
        "l5kit": "2.0.0",
        "num_samples": num_samples,
        "num_samples_of_log": num_samples_of_log,
        "num_trajectories": num_samples,
        "scores": [{"who": "network", "horizon_s": horizon_s}],
    }
    (folder / "scores.json").write_text(json.dumps(facts))
    lines = ["scene_index,frame_index,label,ade_m,fde_m,miss"]
    for scene, samples in errors_m.items():
        for ade_m, fde_m in samples:
            lines.append(f"{scene},0,AV,{ade_m}," + ("," if fde_m is None else f"{fde_m},{int(fde_m > 2)}"))
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    return folder


def write_training(folder: Path, scores, *, digest="abc", best_by=None) -> Path:
    """Write what a training leaves at its end."""
    folder.mkdir(parents=True)
    data = {"path": "scenes/validate.zarr", "digest": digest, "num_scenes": 3}
    result = {"scores": scores, "best_by": best_by, "l5kit": "2.0.0", "eval_data": data}
    (folder / "result.json").write_text(json.dumps(result))
    return folder
