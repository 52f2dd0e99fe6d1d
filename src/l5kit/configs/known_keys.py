"""The keys that configurations may have: those of l5kit and those of the configurations of L5Kit 1.x."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from l5kit.errors import ConfigError

__all__ = ["LEGACY_KEYS", "check_known_keys"]

_LOADER: Final = (
    "key",
    "batch_size",
    "shuffle",
    "num_workers",
    "threads",
    "perturb_probability",
    "max_scene_id",
    "min_frame_history",
    "min_frame_future",
)

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "": (
        "format_version",
        "workflow",
        "model_params",
        "raster_params",
        "data_generation_params",
        "train_data_loader",
        "val_data_loader",
        "train_params",
        "gym_params",
    ),
    "model_params": (
        "model_architecture",
        "history_num_frames",
        "history_num_frames_ego",
        "history_num_frames_agents",
        "future_num_frames",
        "step_time",
        "render_ego_history",
        "history_step_size",
        "future_step_size",
        "speed_from_history",
        "disable_other_agents",
        "disable_map",
        "disable_lane_boundaries",
        "global_head_dropout",
        "detach_unroll",
        "warmup_num_frames",
        "unroll_num_frames",
        "discount_factor",
        "agent_num_trajectories",
        "cost_prob_coeff",
        "weights_scaling",
        "use_perturbation",
        "perturbation_probability",
        "use_gaussian_perturbation",
        "perturbation_min_displacement_m",
        "use_kinematic",
        "history_num_frames_train",
        "load_pretrained",
        "pretrained",
        "weights_file",
        "num_modes",
        "use_agent_labels",
        "agents_in_own_frame",
        "average_available_only",
        "velocity_residual",
        "criterion",
        "yaw_residual",
        "position_scale_m",
        "apply_weights_scaling",
        "normalize_targets",
        "dropout",
        "dim_local",
        "dim_global",
        "dim_feedforward",
        "nhead",
        "num_local_layers",
        "num_encoder_layers",
        "num_decoder_layers",
    ),
    "raster_params": (
        "raster_size",
        "pixel_size",
        "ego_center",
        "set_origin_to_bottom",
        "map_type",
        "dataset_meta_key",
        "semantic_map_key",
        "satellite_map_key",
        "filter_agents_threshold",
        "disable_traffic_light_faces",
        "solid_boxes",
        "image_dtype",
        "satellite_out_of_bounds",
    ),
    "data_generation_params": (
        "other_agents_num",
        "max_agents_distance",
        "order_agents_by_distance",
        "lane_params",
    ),
    "data_generation_params.lane_params": (
        "max_num_lanes",
        "max_points_per_lane",
        "max_points_per_crosswalk",
        "max_retrieval_distance_m",
        "max_num_crosswalks",
    ),
    "train_data_loader": (*_LOADER, "perturb_std"),
    "val_data_loader": (*_LOADER, "max_num_batches"),
    "train_params": (
        "max_num_steps",
        "num_epochs",
        "checkpoint_every_n_steps",
        "checkpoint_every_n_epochs",
        "eval_every_n_steps",
        "eval_every_n_epochs",
        "output_name",
        "learning_rate",
        "weight_decay",
        "schedule",
        "warmup_num_steps",
        "gradient_clip_norm",
        "seed",
        "accelerator",
        "devices",
        "precision",
        "logger",
        "log_every_n_steps",
        "early_stopping_patience",
        "horizons_s",
    ),
    "gym_params": ("max_scene_id", "max_val_scene_id", "overfit", "overfit_id", "randomize_start_frame"),
}
"""Allowed keys by the path of their section."""

LEGACY_KEYS: Final = tuple(
    f"model_params.{key}"
    for key in (
        "unroll_num_frames",
        "use_perturbation",
        "perturbation_probability",
        "use_gaussian_perturbation",
        "use_kinematic",
        "history_num_frames_train",
        "load_pretrained",
    )
)
"""Keys of configurations of L5Kit 1.x that its own trainings did not read either, and that have no effect."""


def check_known_keys(cfg: Mapping[str, Any]) -> None:
    """Refuse a configuration with a key that neither l5kit nor L5Kit 1.x has.

    Args:
        cfg: The configuration, as it was read.

    Raises:
        ConfigError: There is such a key; the message lists all of them, each with the nearest that is known. Or a
            section is no mapping.
    """
    unknown = list(_unknown_keys(cfg, ""))
    if unknown:
        raise ConfigError("; ".join(_describe(section, key) for section, key in unknown))


def _unknown_keys(values: Any, section: str) -> Iterator[tuple[str, str]]:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{section or 'the configuration'}: expected a mapping of keys, got {values!r}")
    for key, value in values.items():
        path = _joined(section, str(key))
        if key not in _KEYS[section]:
            yield section, str(key)
        elif path in _KEYS:
            yield from _unknown_keys(value, path)


def _describe(section: str, key: str) -> str:
    path = _joined(section, key)
    homes = [home for home, keys in _KEYS.items() if key in keys]
    if homes:
        return f"{path}: there is no such key here; it belongs into {' or '.join(map(_place, homes))}"
    return f"{path}: there is no such key; the nearest is {_nearest(section, key)}"


def _nearest(section: str, key: str) -> str:
    """Return the most similar key, one of the same section if any of them is close."""
    here = difflib.get_close_matches(key, _KEYS[section], n=1)
    if here:
        return _joined(section, here[0])
    everywhere = [(home, known) for home, keys in _KEYS.items() for known in keys]
    return _joined(*max(everywhere, key=lambda place: difflib.SequenceMatcher(None, key, place[1]).ratio()))


def _joined(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _place(section: str) -> str:
    return section or "the top of the file"
