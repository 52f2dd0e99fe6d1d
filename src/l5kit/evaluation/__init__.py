"""Open-loop evaluation: csv files of true and predicted positions, their metrics, and chopped datasets."""

from l5kit.evaluation.chop_dataset.chopping import create_chopped_dataset
from l5kit.evaluation.csv_utils import read_gt_csv, read_pred_csv, write_gt_csv, write_pred_csv
from l5kit.evaluation.extract_ground_truth import export_zarr_to_csv, world_displacements
from l5kit.evaluation.extract_metrics import compute_metrics_csv
from l5kit.evaluation.selection_parity import Selection, SelectionParity, check_selection_parity

__all__ = [
    "Selection",
    "SelectionParity",
    "check_selection_parity",
    "compute_metrics_csv",
    "create_chopped_dataset",
    "export_zarr_to_csv",
    "read_gt_csv",
    "read_pred_csv",
    "world_displacements",
    "write_gt_csv",
    "write_pred_csv",
]
