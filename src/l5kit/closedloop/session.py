"""Sessions of planners by name: any planner of simulations, called step by step without a dataset."""

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
    """Open a session of a planner.

    Args:
        planner: A planner as for :func:`l5kit.closedloop.simulate`: ``rules``, ``idm``, a checkpoint, an ``.onnx``
            file, the name of a network or policy that ships with l5kit, a policy of ``l5kit train-rl``,
            ``FILE.py:NAME``, a torch network, or a driver. A policy with controls returns these, and the poses that
            they lead to.
        map_path: The semantic map; None to drive without one.
        meta_path: Its ``meta.json``; None for the one next to the map, or in the folder above.
        route: Route to drive, (N, 2) or (N, 3); see :class:`~l5kit.simulation.Session`, also for the next arguments.
        fallback: ``rules``, used when a plan fails its checks; None for no fallback.
        planner_cfg: Training configuration of a network whose file has none.
        facts: Size of the AV and time of a step; those of L5Kit 1.5 by default.
        past_s: How far back the planner may look; None for what it uses.
        longest_gap_s: Longest time between two moments.
        most_objects: Most road users in a moment.
        device: Device of networks: ``auto`` for CUDA if available, or a torch device.
        allow_pickle: Also read whole pickled modules, which can run any code in the file.

    Raises:
        InvalidArgumentError: The planner is unknown or replays a log, or an argument is out of range.
        FileNotFoundError: The checkpoint, map or ``meta.json`` does not exist.
        L5KitError: The checkpoint cannot be used; see :func:`l5kit.closedloop.checkpoints.open_checkpoint`.
    """
    # the files of a dataset without a log; meta.json is next to the map, or in the folder above
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
            f"planner is {planner!r}, which replays a log, but a session has none; use another planner, such as rules"
        )
    map_api = open_map(files)
    for name in (opened.name, opened.fallback):
        if map_api is None and name in LANE_DRIVERS:
            warnings.warn(f"{name!r} drives straight on without a map; pass one (map_path)", UserWarning, stacklevel=2)
    return Session(
        opened.seat,
        road=None if map_api is None else RoadMap(map_api),
        facts=known,
        route=route,
        past_s=past_s,
        longest_gap_s=longest_gap_s,
        most_objects=most_objects,
    )
