"""Set-up of environments: what a configuration names, opened."""

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from l5kit._types import JsonObject
from l5kit.configs.config import load_config_data
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.parameters import RasterGeometry
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.environment.episode_choice import EpisodeChoice, frames_of_scenes
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization import Rasterizer, build_rasterizer

__all__ = ["EnvironmentParts"]


@dataclass(frozen=True)
class EnvironmentParts:
    """What all environments of a configuration share.

    Attributes:
        cfg: The configuration.
        params: Its scenes and starts.
        rasterizer: Draws what is seen.
        dataset: Dataset that episodes are of.
    """

    cfg: JsonObject
    params: EnvironmentParams
    rasterizer: Rasterizer
    dataset: EgoDataset

    @classmethod
    def open(cls, env_config_path: str | None, dmg: LocalDataManager | None, *, train: bool) -> "EnvironmentParts":
        """Open what a configuration names.

        Args:
            env_config_path: YAML file.
            dmg: Finds data; None for the folder of ``L5KIT_DATA_FOLDER``.
            train: Whether episodes are of the training data, which they are as well where there is one scene only.

        Raises:
            InvalidArgumentError: There is no configuration.
            ConfigError: A key is missing or wrong.
        """
        if env_config_path is None:
            raise InvalidArgumentError("env_config_path is None; pass the YAML file of the environment")
        cfg: JsonObject = load_config_data(env_config_path)
        params = EnvironmentParams.from_cfg(cfg)
        data_manager = LocalDataManager(None) if dmg is None else dmg
        loader = "train_data_loader" if train or params.overfit else "val_data_loader"
        log = ChunkedDataset(data_manager.require(cfg[loader]["key"])).open()
        rasterizer = build_rasterizer(cfg, data_manager)
        return cls(cfg, params, rasterizer, EgoDataset(cfg, log, rasterizer))

    def episode_choice(self, *, train: bool, randomize_start: bool | None, num_frames: int | None) -> EpisodeChoice:
        """Return what episodes are drawn; arguments as for :meth:`EpisodeChoice.from_params`."""
        lengths = frames_of_scenes(self.dataset.dataset)
        return EpisodeChoice.from_params(
            self.params, lengths, train=train, randomize_start=randomize_start, num_frames=num_frames
        )

    @property
    def step_time_s(self) -> float:
        """Seconds of a step."""
        return float(self.cfg["model_params"]["step_time"])

    @property
    def observation_space(self) -> spaces.Dict:
        """What is seen: ``{"image": (C, H, W)}``, float32 from 0 to 1, or bytes where the raster is made of them."""
        width, height = RasterGeometry.from_cfg(self.cfg).raster_size_px
        shape = (self.rasterizer.num_channels(), height, width)
        if getattr(self.rasterizer, "image_dtype", "float32") == "uint8":
            return spaces.Dict({"image": spaces.Box(0, 255, shape, np.uint8)})
        return spaces.Dict({"image": spaces.Box(0, 1, shape, np.float32)})
