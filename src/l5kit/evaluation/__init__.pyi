from .chop_dataset.chopping import create_chopped_dataset as create_chopped_dataset
from .csv_utils import (
    read_gt_csv as read_gt_csv,
    read_pred_csv as read_pred_csv,
    write_gt_csv as write_gt_csv,
    write_pred_csv as write_pred_csv,
)
from .driving.metric import Fault as Fault, Metric as Metric, MetricFacts as MetricFacts
from .driving.scene_score import (
    SceneScores as SceneScores,
    detail_scenes as detail_scenes,
    score_scenes as score_scenes,
)
from .driving.scene_states import read_ego_states as read_ego_states, read_road_users as read_road_users
from .epdms.terms import EPDMS as EPDMS
from .extract_ground_truth import export_zarr_to_csv as export_zarr_to_csv, world_displacements as world_displacements
from .extract_metrics import compute_metrics_csv as compute_metrics_csv
from .horizon_scores import (
    HorizonScores as HorizonScores,
    constant_velocity_positions as constant_velocity_positions,
    score_baselines as score_baselines,
)
from .metrics import (
    average_displacement_error_mean as average_displacement_error_mean,
    average_displacement_error_oracle as average_displacement_error_oracle,
    displacements as displacements,
    final_displacement_error_mean as final_displacement_error_mean,
    final_displacement_error_oracle as final_displacement_error_oracle,
    miss_rate as miss_rate,
    neg_multi_log_likelihood as neg_multi_log_likelihood,
    prob_true_mode as prob_true_mode,
    rmse as rmse,
    time_displace as time_displace,
)
from .realism.report import RealismReport as RealismReport, compare_traffic as compare_traffic
from .realism.road_edges import find_road_edges as find_road_edges
from .scene_tags.tag_scenes import tag_scenes as tag_scenes
from .selection_parity import (
    Selection as Selection,
    SelectionParity as SelectionParity,
    check_selection_parity as check_selection_parity,
)
