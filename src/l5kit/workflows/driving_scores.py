"""Driving scores of a network in training, in scenes of a held-out log."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from l5kit._types import Float64Array
from l5kit.configs.runs import DrivingParams
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.opened import open_maps
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import ConfigError
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.simulation.drivers.intelligent import POPULATIONS, intelligent_traffic
from l5kit.simulation.drivers.network import NetworkDriver
from l5kit.simulation.engine.driven_scenes import DrivenScenes, score_drives
from l5kit.simulation.engine.scene_batch import SceneBatch, SceneRoads
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation
from l5kit.workflows.drivers import samples_to_drive
from l5kit.workflows.samples import spread_indices, with_files_of
from l5kit.workflows.workflow import TrainingConfig, make_model

DRIVING_SCORE: Final = "driving/score"
"""Name of the mean score of scenes, 0 to 1; larger is better."""

_FAILED: Final = "driving/failed_scenes"
_NAMES: Final = (DRIVING_SCORE, *(f"driving/{metric.name}" for metric in METRICS))
_MOST_SCENES: Final = 32
"""Scenes that step together, which bounds memory."""


class DrivingEvaluation:
    """Closed-loop evaluation of a network in training on scenes of a log, scored like ``l5kit simulate``.

    The driving network is a copy in eval mode, as if loaded from a file, so neither the precision of the training nor
    compilation changes the result, and the random state of the training is unaffected.

    Args:
        config: The configuration of the training.
        params: Selection of the scenes.
        data_manager: Data manager of the data folder.

    Raises:
        FileNotFoundError: There is no such log or map.
        ConfigError: The network cannot drive the AV, or no scene has the first frame and one more.
        UnsupportedValueError: The configuration does not support batches of samples.
    """

    def __init__(self, config: TrainingConfig, params: DrivingParams, data_manager: LocalDataManager) -> None:
        if config.params.is_of_agents:
            raise ConfigError(
                f"val_driving: a network of {config.params.workflow} does not drive the AV; leave this section out"
            )
        folder = LocalDataManager(data_manager.root_folder / (params.folder or "."))
        files = find_dataset_files(folder.require(params.key))
        self._params = params
        self._batches: list[SceneBatch] | None = None
        self._log = ChunkedDataset(files.dataset).open()
        # scenes that end with the first frame or earlier have nothing to drive
        lengths = np.diff(self._log.scenes[FRAME_INTERVAL], axis=1)[:, 0]
        is_long = lengths > params.start_frame + 1
        if not is_long.any():
            raise ConfigError(
                f"val_driving.start_frame: {params.start_frame}, but no scene of {params.key} has two frames from "
                "there on; choose an earlier frame, or another log"
            )
        long = np.flatnonzero(is_long)
        self._scenes = long[spread_indices(len(long), params.num_scenes)]
        maps = open_maps(files)
        self._roads = None if maps is None else SceneRoads(maps)
        here = TrainingConfig.from_cfg(with_files_of(config.mapping, files))
        self._samples = samples_to_drive(here, folder, self._log.facts)
        with torch.random.fork_rng():
            self._network = make_model(here.without_own_loss().from_scratch(), self._samples).eval()
        self._driver_on(torch.device("cpu"))  # raises for configurations without batches before the training starts

    def sums_of(
        self, weights: Mapping[str, torch.Tensor], device: torch.device, *, rank: int = 0, world_size: int = 1
    ) -> Float64Array:
        """Drive the scenes of this process, and return sums that add up over processes: see :func:`means_of_driving`.

        A scene that the network cannot drive to its end, for example because of a non-finite plan, has the score 0.

        Args:
            weights: Weights of the network, by name.
            device: Device of the network.
            rank: Rank of this process.
            world_size: Number of processes that share the scenes.
        """
        own = self._network.state_dict()
        self._network.load_state_dict({name: weights[name] for name in own})  # without the weights of a loss
        driver = self._driver_on(device)
        sums = np.zeros((len(_NAMES) + 1, 2))
        if self._batches is None:  # read once, as they are immutable
            scenes = self._scenes[rank::world_size]
            self._batches = [
                SceneBatch.of_scenes(
                    [SceneRecords.read(self._log, scene) for scene in together],
                    scene_indices=together,
                    start=self._params.start_frame,
                    num_frames=self._params.num_frames,
                    facts=self._log.facts,
                    road=None if self._roads is None else self._roads.of_scenes(self._log, together),
                )
                for first in range(0, len(scenes), _MOST_SCENES)
                for together in [scenes[first : first + _MOST_SCENES].tolist()]
            ]
        for batch in self._batches:
            traffic = self._params.agents
            agents = None if traffic == "replay" else intelligent_traffic(POPULATIONS[traffic])
            sums += _sums_of(SceneSimulation(batch, ego=EgoSeat(driver), agents=agents).run())
        return sums

    def _driver_on(self, device: torch.device) -> NetworkDriver:
        return NetworkDriver(self._network, self._samples, device=device)


def means_of_driving(sums: Float64Array) -> dict[str, float]:
    """Return mean score and metrics by name, each over the scenes it applies to, and the number of failed scenes.

    Args:
        sums: Sums over all processes, (len(METRICS) + 2, 2): for the score and each metric the sum and the number of
            scenes, then the numbers of failed and of all scenes.
    """
    means = {name: float(total / count) for name, (total, count) in zip(_NAMES, sums, strict=False) if count > 0}
    return means | {_FAILED: float(sums[-1, 0])}


def _sums_of(driven: DrivenScenes) -> Float64Array:
    """Return the sums of a batch, in the form of :func:`means_of_driving`."""
    sums = np.zeros((len(_NAMES) + 1, 2))
    num_failed = len(driven.faults)
    sums[0, 1] = num_failed  # each scores 0
    sums[-1] = num_failed, len(driven.batch)
    with np.errstate(over="ignore"):  # an infinite value is a failure
        for drives in score_drives(driven):
            scores = drives.details.scores
            names = ("score", *(metric.name for metric in METRICS))
            values = np.stack([getattr(scores, name) for name in names])[:, drives.has_score]
            # ignore NaN, a metric that does not apply; a missing score counts as 0
            values[0] = np.where(np.isfinite(values[0]), values[0], 0.0)
            sums[:-1, 0] += np.nansum(values, axis=1)
            sums[:-1, 1] += np.count_nonzero(~np.isnan(values), axis=1)
    return sums
