"""The example that trains motion prediction and scores it as the competition does."""

import re

from PIL import Image

from l5kit.evaluation import read_gt_csv, read_pred_csv

SMALL_NETWORK = ("model_params.model_architecture=simple_cnn", "raster_params.raster_size=[112, 112]")


def test_a_test_set_is_predicted_and_scored(train_little, split_city, tmp_path):
    printed = train_little("motion_prediction.py", "--data", split_city, changes=SMALL_NETWORK)
    truth = list(read_gt_csv(tmp_path / "out" / "test-set" / "gt.csv"))
    predicted = list(read_pred_csv(tmp_path / "out" / "pred.csv", 3))
    keys = [{(row["track_id"], row["timestamp"]) for row in rows} for rows in (truth, predicted)]
    assert keys[0] == keys[1]
    assert f"{len(truth)} agents" in printed
    names = re.findall(r"^(\w+)(?: +-?[\d.]+){4}$", printed, flags=re.MULTILINE)
    assert names[0] == "neg_multi_log_likelihood"
    assert "miss_rate" in names
    assert Image.open(tmp_path / "out" / "motion-prediction.png").width > 480
