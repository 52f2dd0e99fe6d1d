"""Setup of a closed-loop simulation: resolves log, map and drivers, and computes their digests."""

import contextlib
import hashlib
import json
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from l5kit import __version__
from l5kit._types import Config, Int64Array, JsonObject
from l5kit.closedloop.checkpoints import NetworkContext
from l5kit.closedloop.measured import Measured, RequestedMetric, find_scores, open_metrics
from l5kit.closedloop.options import ClosedLoopOptions, with_option
from l5kit.closedloop.planners import (
    LANE_DRIVERS,
    Planner,
    RequestedPlanner,
    RequestedTraffic,
    Traffic,
    open_planner,
    open_traffic,
    with_whole_path,
)
from l5kit.closedloop.scenes import TrueLog, open_truth
from l5kit.configs.own_code import is_own, with_whole_file
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.dataset_summary import find_other_step_time
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.map.opened import open_maps
from l5kit.data.progress import Progress
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.stores.store import file_name_of, path_of, whole_path_of
from l5kit.data.texts import as_unicode
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, EngineError, InvalidArgumentError, without_secrets
from l5kit.evaluation.driving.metric import NUPLAN
from l5kit.evaluation.epdms.plan_windows import STEP_S
from l5kit.simulation.engine.scene_batch import SceneRoads
from l5kit.simulation.folder.simulation_folder import find_scene_files

_CACHE_BYTES = 2**27
"""Cache of decoded chunks of the log; small, as scenes are read once, one after the other."""


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    """The arguments of :func:`l5kit.closedloop.simulate` except the folder; see there.

    ``planner`` and ``agents`` keep the user's spelling, for reports.
    """

    path: str | os.PathLike[str]
    planner: RequestedPlanner
    agents: RequestedTraffic
    planner_cfg: Config | None
    agents_cfg: Config | None
    map_path: str | os.PathLike[str] | None
    meta_path: str | os.PathLike[str] | None
    truth: str | os.PathLike[str] | None
    fallback: str | None
    metrics: Sequence[RequestedMetric]
    score: str | Sequence[str]
    options: ClosedLoopOptions

    def with_whole_paths(self) -> "SimulationRequest":
        """Return the arguments with absolute paths or URLs, valid on every machine."""
        moves = self.options.moves
        metrics = [self.metrics] if isinstance(self.metrics, RequestedMetric) else self.metrics
        return replace(
            self,
            path=Path(whole_path_of(self.path)),
            map_path=_whole(self.map_path),
            meta_path=_whole(self.meta_path),
            truth=_whole(self.truth),
            # names of user files are resolved from any working directory
            metrics=tuple(
                with_whole_file(each) if isinstance(each, str) and is_own(each) else each for each in metrics
            ),
            score=find_scores(self.score),
            options=replace(
                self.options,
                moves=with_whole_file(moves) if moves is not None and is_own(moves) else moves,
                workers=1,
                show_bar=False,
            ),
        )

    def elsewhere(self) -> "SimulationRequest":
        """Return the arguments for a process with another working directory."""
        planner = with_whole_path(self.planner) if isinstance(self.planner, str) else self.planner
        agents = with_whole_path(self.agents) if isinstance(self.agents, str) else self.agents
        return replace(self, planner=planner, agents=agents)


@dataclass(frozen=True)
class ClosedLoopSetup:
    """Resolved inputs of a simulation: log, map, drivers, options.

    Attributes:
        files: Paths of log and map.
        log: The log.
        roads: The maps of the scenes; None without any.
        scenes: The simulated scenes, ascending, (S,).
        planner: Driver of the AVs.
        agents: Driver of the other agents.
        options: Options of the simulation.
        data: Data record of the log.
        digests: SHA-256 of ``data``, ``map``, ``planner``, ``agents`` and ``configuration``, and of ``truth`` and
            ``metrics`` where there is a true log and metrics of the user.
        truth: Log with the true boxes, used for scoring; None for the log itself.
        measured: The metrics.
        request: Arguments from which a pickled setup is rebuilt; None to pickle the setup as it is.
    """

    files: DatasetFiles
    log: ChunkedDataset = field(repr=False)
    roads: SceneRoads | None = field(repr=False)
    scenes: Int64Array = field(repr=False)
    planner: Planner
    agents: Traffic
    options: ClosedLoopOptions
    data: DataRecord
    digests: Mapping[str, str | None]
    truth: TrueLog | None = None
    measured: Measured = field(default=Measured(), repr=False)
    request: SimulationRequest | None = field(default=None, repr=False)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle the request only; the other process reads log, map and networks from their files."""
        if self.request is None:
            return super().__reduce__()
        torch = sys.modules.get("torch")  # not imported: no network drives
        num_threads = None if torch is None else int(torch.get_num_threads())
        request = self.request.elsewhere()
        return _set_up_elsewhere, (request, self.scenes, self.data, dict(self.digests), num_threads)

    @property
    def log_name(self) -> str:
        """Name of the log in tables."""
        return as_unicode(file_name_of(self.files.dataset))

    @property
    def facts(self) -> JsonObject:
        """Description of the run, as JSON."""
        files = {"log": self.files.dataset, "map": self.files.semantic_map, "meta": self.files.meta}
        if self.truth is not None:
            files["truth"] = self.truth.path
        return {
            "l5kit": __version__,
            "data": self.data.as_dict(),
            "files": {name: file and without_secrets(whole_path_of(file)) for name, file in files.items()},
            "planner": self.planner.name,
            **({} if self.planner.fallback is None else {"fallback": self.planner.fallback}),
            "agents": self.agents.name,
            **({} if self.measured.scores == (NUPLAN,) else {"scored_by": list(self.measured.scores)}),
            **({"added_metrics": list(self.measured.added)} if self.measured.added else {}),
            "options": self.options.as_facts(self.scenes),
            "digests": dict(self.digests),
        }


def set_up(request: SimulationRequest, *, progress: Progress | None = None) -> ClosedLoopSetup:
    """Open log, map and drivers, and compute the digests, without simulating.

    Args:
        request: Arguments of the simulation.
        progress: Called with the number of bytes of the log read for its digest, and their total.

    Raises:
        InvalidArgumentError: Traffic cannot drive without a map, or an argument is wrong.
    """
    options, whole = request.options, request.with_whole_paths()
    opened = _open(whole)
    # Traffic needs lanes, so it is refused without a map. Planners fall back to driving straight, with a warning.
    if opened.roads is None:
        where = "a semantic map and a meta.json, and they were not found in or near the log; name them (--map, --meta)"
        if opened.agents.needs_map:
            raise InvalidArgumentError(f"agents is {opened.agents.name!r}, which needs {where}, or choose other agents")
        for role, name in (("planner", opened.planner.name), ("fallback", opened.planner.fallback)):
            if name in LANE_DRIVERS:
                text = f"{role} {name!r} drives straight on, as it needs {where}"
                warnings.warn(text, RuntimeWarning, stacklevel=3)
    other_step = None
    with contextlib.suppress(CorruptedDataError):  # scenes that need damaged data fail later
        step_time_s = opened.log.facts.step_time_s
        other_step = find_other_step_time(opened.log.scenes, opened.log.frames, step_time_s=step_time_s)
    if other_step is not None:
        warnings.warn(f"{path_of(opened.files.dataset)}: {other_step}", RuntimeWarning, stacklevel=3)
    data = DataRecord.of(opened.files.dataset, num_scenes=len(opened.log.scenes), progress=progress)
    digests = _digests_of(opened, data, options)
    return replace(opened, options=options, data=data, digests=digests, request=whole)


def _open(request: SimulationRequest) -> ClosedLoopSetup:
    """Open log, map and drivers, without data record and digests."""
    options = request.options
    files, _ = find_scene_files(request.path, map_path=request.map_path, meta_path=request.meta_path)
    log = ChunkedDataset(files.dataset).open(cache_size_bytes=_CACHE_BYTES)
    scenes = options.scenes_of(len(log.scenes))
    # Refuse a first frame beyond the longest scene. Unreadable scenes are reported later, one by one.
    if options.start_frame != 0:
        with contextlib.suppress(CorruptedDataError):
            intervals = log.scenes[scenes][FRAME_INTERVAL]
            longest = int((intervals[:, 1] - intervals[:, 0]).max())
            if longest <= options.start_frame:
                raise InvalidArgumentError(
                    f"{with_option('start_frame')} is {options.start_frame}, but the longest scene has {longest} "
                    "frames, counted from 0; choose an earlier frame"
                )
    of_ego, of_agents = (
        NetworkContext(files, log.facts, cfg, options.device, options.allow_pickle)
        for cfg in (request.planner_cfg, request.agents_cfg)
    )
    ego = open_planner(request.planner, moves=options.moves, context=of_ego, fallback=request.fallback)
    others = open_traffic(request.agents, context=of_agents)
    true_log = None
    if request.truth is not None:
        if others.seat is not None:
            raise InvalidArgumentError(
                f"truth (--truth) is {str(request.truth)!r}, which has the true boxes as recorded, but agents "
                f"(--agents) is {others.name!r}, which moves them; replay the agents, or drop truth"
            )
        true_log = open_truth(request.truth, log, scenes)
    maps = open_maps(files)
    roads = None if maps is None else SceneRoads(maps)
    if roads is not None and roads.maps.is_single:
        _ = roads.of_scenes(log, scenes[:1]).driving  # read once, before threads share it
    unknown = DataRecord(without_secrets(whole_path_of(files.dataset)), None, len(log.scenes))
    measured = open_metrics(request.metrics, find_scores(request.score))
    if measured.needs_windows and not math.isclose(log.facts.step_time_s, STEP_S):
        raise InvalidArgumentError(
            f"score (--score) is {', '.join(measured.scores)}, whose windows have a frame every {STEP_S} s, but the "
            f"frames of {path_of(files.dataset)} are {log.facts.step_time_s} s apart; resample the log "
            f"(l5kit resample), or score by {NUPLAN} alone"
        )
    return ClosedLoopSetup(files, log, roads, scenes, ego, others, options, unknown, {}, true_log, measured)


def _digests_of(setup: ClosedLoopSetup, data: DataRecord, options: ClosedLoopOptions) -> dict[str, str | None]:
    """Return the digests of the inputs of a simulation."""
    of_map = None
    if setup.roads is not None:
        of_files = hashlib.sha256()
        for path in (setup.files.semantic_map, setup.files.meta):
            if path is not None:
                of_files.update(hashlib.sha256(path.read_bytes()).digest())
        of_map = of_files.hexdigest()
    chosen = {
        "planner": setup.planner.digest,
        "agents": setup.agents.digest,
        "options": options.as_facts(setup.scenes),
    }
    digests = {
        "data": data.digest,
        "map": of_map,
        "planner": setup.planner.digest,
        "agents": setup.agents.digest,
        "configuration": hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest(),
    }
    if setup.truth is not None:
        digests["truth"] = setup.truth.data.digest
    if setup.measured.digest is not None:
        digests["metrics"] = setup.measured.digest
    return digests


def _set_up_elsewhere(
    request: SimulationRequest,
    scenes: Int64Array,
    data: DataRecord,
    digests: dict[str, str | None],
    num_threads: int | None,
) -> ClosedLoopSetup:
    """Rebuild a pickled setup in another process, with the same number of torch threads, as rounding depends on it.

    Raises:
        EngineError: Log, map or drivers differ here.
    """
    if num_threads is not None:
        import torch

        torch.set_num_threads(num_threads)
    setup = _open(request)
    digests_here = _digests_of(setup, data, request.options)
    names = ["map", *(name for name in ("planner", "agents") if isinstance(getattr(request, name), str))]
    different = [name for name in names if digests_here[name] != digests[name]]
    if len(setup.log.scenes) != data.num_scenes:
        different.insert(0, "number of scenes")
    if different:
        raise EngineError(
            f"the {' and the '.join(different)} of {path_of(setup.files.dataset)} differ between a worker and the "
            "calling process; all machines must see the same files under the same paths"
        )
    return replace(setup, scenes=scenes, data=data, digests=digests, request=request)


def _whole(path: str | os.PathLike[str] | None) -> Path | None:
    return None if path is None else Path(whole_path_of(path))
