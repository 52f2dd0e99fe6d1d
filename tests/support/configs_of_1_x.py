"""Configurations of L5Kit 1.x, as its examples have them."""

FORMAT_4 = """
format_version: 4
model_params:
  model_architecture: {architecture}
  history_num_frames: {history}
  future_num_frames: {future}
  step_time: 0.1
  render_ego_history: {render_ego_history}
raster_params:
  raster_size: [{size}, {size}]
  pixel_size: [0.5, 0.5]
  ego_center: [0.25, 0.5]
  map_type: py_semantic
  satellite_map_key: aerial_map/aerial_map.png
  semantic_map_key: semantic_map/semantic_map.pb
  dataset_meta_key: meta.json
  filter_agents_threshold: 0.5
  disable_traffic_light_faces: False
  set_origin_to_bottom: True
train_data_loader:
  key: scenes/{train}.zarr
  batch_size: 12
  shuffle: {shuffle}
  num_workers: {workers}
  perturb_probability: {perturb}
val_data_loader:
  key: scenes/sample.zarr
  batch_size: 12
  shuffle: False
  num_workers: {workers}
train_params:
  checkpoint_every_n_steps: 10000
  max_num_steps: {steps}
  eval_every_n_steps: 10000
"""

FORMAT_7 = """
format_version: 7
model_params:
  history_num_frames_ego: {history_ego}
  history_num_frames_agents: {history_agents}
  future_num_frames: {future}
  step_time: 0.1
  render_ego_history: False
  disable_other_agents: False
  disable_map: False
  disable_lane_boundaries: {disable_lane_boundaries}
{extra}
raster_params:
  raster_size: [224, 224]
  pixel_size: [0.5, 0.5]
  ego_center: [0.25, 0.5]
  map_type: py_semantic
  satellite_map_key: aerial_map/aerial_map.png
  semantic_map_key: semantic_map/semantic_map.pb
  dataset_meta_key: meta.json
  filter_agents_threshold: 0.5
  disable_traffic_light_faces: False
  set_origin_to_bottom: False
data_generation_params:
  other_agents_num: {others}
  max_agents_distance: {distance}
  lane_params:
    max_num_lanes: 30
    max_points_per_lane: 20
    max_points_per_crosswalk: 20
    max_retrieval_distance_m: {distance}
    max_num_crosswalks: 20
train_data_loader:
  key: scenes/sample.zarr
  batch_size: {batch}
  shuffle: True
  num_workers: 0
  perturb_probability: {perturb}
val_data_loader:
  key: scenes/sample.zarr
  batch_size: {batch}
  shuffle: False
  num_workers: 0
train_params:
{train_params}
"""

URBAN_DRIVER_EXTRA = """
  global_head_dropout: 0.0
  detach_unroll: True
  warmup_num_frames: 0
  discount_factor: 0.8
"""

SAFEPATHNET_EXTRA = """
  agent_num_trajectories: 20
  cost_prob_coeff: 0.1
  use_perturbation: False
  perturbation_probability: 0.5
  use_gaussian_perturbation: True
  perturbation_min_displacement_m: 0
"""

STEPS = """
  checkpoint_every_n_steps: 10000
  max_num_steps: {steps}
  eval_every_n_steps: 10000
"""

EPOCHS = """
  checkpoint_every_n_epochs: 2
  eval_every_n_epochs: 1
  num_epochs: {epochs}
  max_num_steps: {steps}
"""


def format_4(*, history=0, future=12, perturb=0.0, architecture="resnet50", size=224, workers=16, steps=5, **more):
    values = {"render_ego_history": True, "train": "sample", "shuffle": True} | more
    return FORMAT_4.format(
        architecture=architecture,
        history=history,
        future=future,
        size=size,
        workers=workers,
        perturb=perturb,
        steps=steps,
        **values,
    )


def format_7(kind, *, steps, epochs=1):
    if kind == "safepathnet":
        values = {"history_ego": 19, "history_agents": 19, "future": 30, "others": 50, "distance": 50, "batch": 4}
        extra, train_params = SAFEPATHNET_EXTRA, EPOCHS.format(steps=steps, epochs=epochs)
    else:
        values = {"history_ego": 1, "history_agents": 3, "future": 12, "others": 30, "distance": 35, "batch": 4}
        extra, train_params = URBAN_DRIVER_EXTRA, STEPS.format(steps=steps)
    perturb = 0.5 if kind == "vector_planner" else 0.0
    boundaries = kind != "safepathnet"
    return FORMAT_7.format(
        extra=extra, train_params=train_params, perturb=perturb, disable_lane_boundaries=boundaries, **values
    )
