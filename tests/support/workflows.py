"""Small configurations of every workflow, for a synthetic city of three scenes."""

import copy

RASTER = {
    "format_version": 4,
    "model_params": {
        "model_architecture": "simple_cnn",
        "history_num_frames": 2,
        "future_num_frames": 12,
        "step_time": 0.1,
        "render_ego_history": True,
        "pretrained": False,
    },
    "raster_params": {
        "raster_size": [120, 108],
        "pixel_size": [0.5, 0.5],
        "ego_center": [0.25, 0.5],
        "set_origin_to_bottom": True,
        "map_type": "py_semantic",
        "semantic_map_key": "semantic_map/semantic_map.pb",
        "dataset_meta_key": "meta.json",
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": False,
    },
}

VECTOR = {
    "format_version": 7,
    "model_params": {
        "history_num_frames_ego": 1,
        "history_num_frames_agents": 3,
        "future_num_frames": 4,
        "step_time": 0.1,
        "disable_lane_boundaries": True,
    },
    "raster_params": {
        "semantic_map_key": "semantic_map/semantic_map.pb",
        "dataset_meta_key": "meta.json",
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": False,
    },
    "data_generation_params": {
        "other_agents_num": 3,
        "max_agents_distance": 35,
        "lane_params": {
            "max_num_lanes": 3,
            "max_points_per_lane": 12,
            "max_points_per_crosswalk": 5,
            "max_retrieval_distance_m": 35,
            "max_num_crosswalks": 2,
        },
    },
}

LOADERS = {
    "train_data_loader": {"key": "scenes/sample.zarr", "batch_size": 8, "max_scene_id": 2, "threads": 0},
    "val_data_loader": {"key": "scenes/sample.zarr", "batch_size": 8, "max_num_batches": 2, "threads": 0},
    "train_params": {"max_num_steps": 20, "log_every_n_steps": 1, "accelerator": "cpu"},
}

CHANGES = {
    "raster_planner": {"train_data_loader": {"perturb_probability": 0.5}},
    "vector_planner": {},
    "urban_driver": {"model_params": {"detach_unroll": False, "warmup_num_frames": 1}},
    "agent_motion": {},
    "agent_motion_multimodal": {"model_params": {"num_modes": 3}, "train_params": {"gradient_clip_norm": 10.0}},
    "safepathnet": {
        "model_params": {
            "history_num_frames_ego": 10,
            "history_num_frames_agents": 10,
            "agent_num_trajectories": 3,
            "cost_prob_coeff": 0.1,
            "dim_local": 32,
            "dim_global": 32,
            "dim_feedforward": 64,
            "yaw_residual": "single",
        }
    },
    "motion_tokens": {
        "model_params": {
            "history_num_frames_ego": 10,
            "history_num_frames_agents": 10,
            "token_num_steps": 2,
            "num_tokens": 16,
            "num_rollouts": 3,
            "dim_tokens": 64,
            "num_token_layers": 1,
            "num_token_heads": 4,
            "token_dropout": 0.0,
        }
    },
    "query_centric": {
        "model_params": {
            "history_num_frames_ego": 10,
            "history_num_frames_agents": 10,
            "dim_queries": 64,
            "num_query_layers": 1,
            "num_query_heads": 4,
            "query_dropout": 0.0,
        }
    },
    "route_planner": {"model_params": {"dim_features": 64, "modes_weight": 0.0, "decoder": "poses"}},
    "simnet": {
        "model_params": {"model_architecture": "resnet18"},
        "raster_params": {"raster_size": [40, 32], "pixel_size": [1.0, 1.0]},
    },
}
"""Settings of each workflow, in addition to those of all with rasters, or with vectors."""

VECTOR_WORKFLOWS = ("vector_planner", "urban_driver", "safepathnet", "motion_tokens", "query_centric", "route_planner")


def small_config(workflow, **changes):
    """The configuration of a workflow, with further values by section."""
    cfg = copy.deepcopy({**(VECTOR if workflow in VECTOR_WORKFLOWS else RASTER), **LOADERS, "workflow": workflow})
    for sections in (CHANGES[workflow], changes):
        for section, values in sections.items():
            cfg[section] = {**cfg.get(section, {}), **values}
    return cfg
