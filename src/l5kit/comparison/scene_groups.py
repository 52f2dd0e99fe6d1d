"""Groups of scenes by their tags, which are found in the log that runs are of."""

from collections.abc import Mapping, Sequence

import numpy as np

from l5kit._types import BoolArray
from l5kit.comparison.scored_run import SceneKey, ScoredRun
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_maps
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.scene_tags.tag_kinds import TAG_KINDS
from l5kit.evaluation.scene_tags.tag_scenes import tag_scenes
from l5kit.visualization.viewer.log_tags import LogTags


def find_groups(run: ScoredRun, scenes: Sequence[SceneKey], *, show_bar: bool) -> Mapping[str, BoolArray]:
    """Return which scenes have each tag, (S,) by the label of the tag; tags that no scene has are left out.

    Tags of a whole log are kept in the user's cache, as the viewer keeps them.

    Args:
        run: One of the runs, which knows the log.
        scenes: The scenes of it.
        show_bar: Whether a bar is shown, if standard error is a terminal.

    Raises:
        InvalidArgumentError: The log is not where it was.
    """
    if run.log is None or not run.log.exists():
        raise InvalidArgumentError(
            f"tags are found in the log, but {str(run.log)!r}, of which {run.path} is, is not there; put it back, or "
            "compare without tags"
        )
    map_path, meta_path = (path if path is not None and path.is_file() else None for path in run.map_files)
    files = find_dataset_files(run.log, map_path=map_path, meta_path=meta_path)
    log, maps = ChunkedDataset(files.dataset).open(), open_maps(files)

    # Tags of the whole log are kept, which pays where half of its scenes are asked for.
    indices = [scene for _, scene in scenes]
    if 2 * len(indices) >= len(log.scenes):
        tags = LogTags(log, maps, lambda: None)
        tags.find()
        known = tags.since(0)
        if known["error"]:
            raise InvalidArgumentError(f"tags of {run.log} cannot be found: {known['error']}; compare without tags")
        has = {
            kind.name: np.array([kind.name in known["scenes"].get(str(scene), {}) for scene in indices])
            for kind in TAG_KINDS
        }
    else:
        with show_progress("Tagging", visible=show_bar) as progress:
            table = tag_scenes(log, maps, scenes=indices, progress=progress)
        has = {kind.name: table.has(kind.name) for kind in TAG_KINDS}
    return {kind.label: has[kind.name] for kind in TAG_KINDS if has[kind.name].any()}
