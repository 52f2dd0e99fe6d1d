"""Sessions of planners by name: any planner that simulations know, in a loop without a dataset."""

import os
import warnings
from pathlib import Path

from numpy.typing import ArrayLike

from l5kit._types import Config
from l5kit.closedloop.checkpoints import NetworkContext
from l5kit.closedloop.planners import LANE_DRIVERS, RequestedPlanner, open_planner
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.opened import open_map
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.scene_batch import RoadMap
from l5kit.simulation.session.session import Session

_META = "meta.json"


def open_session(
    planner: RequestedPlanner,
    *,
    map_path: str | os.PathLike[str] | None = None,
    meta_path: str | os.PathLike[str] | None = None,
    route: ArrayLike | None = None,
    fallback: str | None = None,
    planner_cfg: Config | None = None,
    facts: LogFacts | None = None,
    past_s: float | None = None,
    longest_gap_s: float = 0.5,
    most_objects: int = 512,
    device: str = "auto",
    allow_pickle: bool = False,
) -> Session:
    """Return a session of a planner.

    Args:
        planner: Who plans, as for :func:`l5kit.closedloop.simulate`: ``rules``, ``idm``, a checkpoint, an ``.onnx``
            file, the name of what ships with l5kit, a policy of ``l5kit train-rl``, ``FILE.py:NAME``, a network of
            torch, or a driver. A policy of controls gives these, and poses that show where they lead.
        map_path: The semantic map; None for driving without one.
        meta_path: Its ``meta.json``; None for the one beside the map, or in the folder above.
        route: Where to drive, (N, 2) or (N, 3); see :class:`~l5kit.simulation.Session`, like the next ones.
        fallback: ``rules``, used when the plan fails its checks; None for no fallback.
        planner_cfg: The configuration of a network that does not have it in its file.
        facts: Size of the AV and time of a step; those of L5Kit 1.5 by default.
        past_s: How far back the planner may look; None for what it takes.
        longest_gap_s: Longest time between two moments.
        most_objects: Most road users in a moment.
        device: Where a network runs: ``auto``, for CUDA where it is there, or a device of torch.
        allow_pickle: Also read whole pickled modules, which can run any code that is in the file.

    Raises:
        InvalidArgumentError: There is no such planner, it replays a log, or an argument is out of its range.
        FileNotFoundError: There is no such checkpoint, map or ``meta.json``.
        L5KitError: A checkpoint cannot be used; see :func:`l5kit.closedloop.checkpoints.open_checkpoint`.
    """
    # the files are those of a dataset that has no log; meta.json lies beside the map, or in the folder above
    files = DatasetFiles(Path(os.devnull), None, None, None, ())
    if map_path is not None:
        semantic_map = Path(map_path)
        beside = [folder / _META for folder in (semantic_map.parent, semantic_map.parent.parent)]
        meta = next((each for each in beside if each.is_file()), beside[0]) if meta_path is None else Path(meta_path)
        for argument, file in (("map_path", semantic_map), ("meta_path", meta)):
            if not file.is_file():
                raise FileNotFoundError(f"{argument}: there is no file {str(file)!r}")
        files = DatasetFiles(semantic_map, semantic_map, meta, None, ())
    known = facts or LogFacts()
    context = NetworkContext(files, known, planner_cfg, device, allow_pickle)
    opened = open_planner(planner, context=context, fallback=fallback)
    if opened.seat is None:
        raise InvalidArgumentError(
            f"planner is {planner!r}, which replays a log, and a session has none; take another one, such as rules"
        )
    map_api = open_map(files)
    for name in (opened.name, opened.fallback):
        if map_api is None and name in LANE_DRIVERS:
            warnings.warn(f"{name!r} drives straight on without a map; name one (map_path)", UserWarning, stacklevel=2)
    return Session(
        opened.seat,
        road=None if map_api is None else RoadMap(map_api),
        facts=known,
        route=route,
        past_s=past_s,
        longest_gap_s=longest_gap_s,
        most_objects=most_objects,
    )
