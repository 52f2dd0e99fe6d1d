"""Configuration files and the typed parameters made from them."""

from l5kit.configs.config import load_config_data, save_config_data
from l5kit.configs.overrides import load_training_config, with_overrides

__all__ = ["load_config_data", "load_training_config", "save_config_data", "with_overrides"]
