"""Folders to log as artifacts, similar to those of trainings."""

import json
from pathlib import Path
from typing import Any

WEIGHTS = b"weights"


def make_training(folder: Path, **result: Any) -> Path:
    """Make a folder similar to that of a training, with ``result`` as its ``result.json``."""
    folder.mkdir()
    (folder / "config.yaml").write_text("workflow: raster_planner\nmodel_params: {size: 3}\n", "utf-8")
    (folder / "result.json").write_text(json.dumps({"num_steps": 5, "minutes": 0.5, **result}), "utf-8")
    (folder / "planner.safetensors").write_bytes(WEIGHTS)
    (folder / "last.ckpt").write_bytes(b"state")
    return folder


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their relative paths."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
