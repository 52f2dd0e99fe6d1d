"""Configuration files and the typed parameters made from them."""

from l5kit.configs.config import load_config_data, save_config_data

__all__ = ["load_config_data", "save_config_data"]
