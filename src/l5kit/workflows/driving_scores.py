"""Scores of the driving of a network in training, in scenes of a log that it is not trained on."""

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
"""Name of the mean score of scenes, 0 to 1, of which the largest is the best."""

_FAILED: Final = "driving/failed_scenes"
_NAMES: Final = (DRIVING_SCORE, *(f"driving/{metric.name}" for metric in METRICS))
_MOST_SCENES: Final = 32
"""Scenes that step at once, which bounds memory."""


class DrivingEvaluation:
    """Lets a network in training drive scenes of a log, and scores it as ``l5kit simulate`` does.

    The network that drives is a copy in eval mode, as it is loaded from a file, so that neither the precision of the
    training nor a compiler changes what it does, and the training draws nothing else for it.

    Args:
        config: The configuration of the training.
        params: Which scenes are driven.
        data_manager: Finds the data folder.

    Raises:
        FileNotFoundError: There is no such log or map.
        ConfigError: The network drives others than the AV, or no scene has the first frame and one more.
        UnsupportedValueError: Samples of the configuration can be made one by one only.
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
        # scenes that end before or with the first frame have nothing to drive
        lengths = np.diff(self._log.scenes[FRAME_INTERVAL], axis=1)[:, 0]
        is_long = lengths > params.start_frame + 1
        if not is_long.any():
            raise ConfigError(
                f"val_driving.start_frame: {params.start_frame}, but no scene of {params.key} has two frames from "
                "there on; name an earlier one, or another log"
            )
        long = np.flatnonzero(is_long)
        self._scenes = long[spread_indices(len(long), params.num_scenes)]
        maps = open_maps(files)
        self._roads = None if maps is None else SceneRoads(maps)
        here = TrainingConfig.from_cfg(with_files_of(config.mapping, files))
        self._samples = samples_to_drive(here, folder, self._log.facts)
        with torch.random.fork_rng():
            self._network = make_model(here.without_own_loss().from_scratch(), self._samples).eval()
        self._driver_on(torch.device("cpu"))  # refuses samples that are made one by one before the training starts

    def sums_of(
        self, weights: Mapping[str, torch.Tensor], device: torch.device, *, rank: int = 0, world_size: int = 1
    ) -> Float64Array:
        """Drive the scenes of this process, and return what adds up over processes: see :func:`means_of_driving`.

        A scene that the network cannot drive to its end, as where its plans are not finite, has the score 0.

        Args:
            weights: Those of the network, by name.
            device: Where it runs.
            rank: Number of this process.
            world_size: How many processes share the scenes.
        """
        own = self._network.state_dict()
        self._network.load_state_dict({name: weights[name] for name in own})  # a loss with weights is left out
        driver = self._driver_on(device)
        sums = np.zeros((len(_NAMES) + 1, 2))
        if self._batches is None:  # nothing changes them, so that they are read once
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
            who = self._params.agents
            agents = None if who == "replay" else intelligent_traffic(POPULATIONS[who])
            sums += _sums_of(SceneSimulation(batch, ego=EgoSeat(driver), agents=agents).run())
        return sums

    def _driver_on(self, device: torch.device) -> NetworkDriver:
        return NetworkDriver(self._network, self._samples, device=device)


def means_of_driving(sums: Float64Array) -> dict[str, float]:
    """Return the mean score of scenes, and of each metric where it applies, by name, and how many scenes failed.

    Args:
        sums: Of all processes, (len(METRICS) + 2, 2): for the score and each metric the sum and the number of scenes,
            and for scenes that failed how many there were, and how many in all.
    """
    means = {name: float(total / count) for name, (total, count) in zip(_NAMES, sums, strict=False) if count > 0}
    return means | {_FAILED: float(sums[-1, 0])}


def _sums_of(driven: DrivenScenes) -> Float64Array:
    """Return the sums of a batch, as :func:`means_of_driving` takes them."""
    sums = np.zeros((len(_NAMES) + 1, 2))
    num_failed = len(driven.faults)
    sums[0, 1] = num_failed  # each has 0
    sums[-1] = num_failed, len(driven.batch)
    with np.errstate(over="ignore"):  # what is infinite is a failure
        for drives in score_drives(driven):
            scores = drives.details.scores
            names = ("score", *(metric.name for metric in METRICS))
            values = np.stack([getattr(scores, name) for name in names])[:, drives.has_score]
            # NaN is a metric that does not apply, and counts for nothing; a score that is none counts as 0
            values[0] = np.where(np.isfinite(values[0]), values[0], 0.0)
            sums[:-1, 0] += np.nansum(values, axis=1)
            sums[:-1, 1] += np.count_nonzero(~np.isnan(values), axis=1)
    return sums
