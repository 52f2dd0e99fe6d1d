"""The example that trains SafePathNet."""

import re

from PIL import Image

SMALL_NETWORK = (
    "data_generation_params.other_agents_num=5",
    "data_generation_params.lane_params.max_num_lanes=3",
    "model_params.agent_num_trajectories=4",
    "model_params.dim_local=32",
    "model_params.dim_global=32",
    "model_params.dim_feedforward=64",
)


def test_all_agents_and_the_av_are_scored_and_drawn(train_little, split_city, tmp_path):
    printed = train_little("safepathnet.py", "--data", split_city, changes=SMALL_NETWORK)
    everyone, av = printed.split("the AV\n")
    assert "the AV and all agents" in everyone
    for table in (everyone, av):
        errors = dict(re.findall(r"^3\.0 s +(\S.*?) {2,}([\d.]+) m", table, flags=re.MULTILINE))
        assert list(errors) == ["constant velocity", "CTRV", "CTRA", "predicted, likeliest", "predicted, best of 4"]
        assert float(errors["predicted, best of 4"]) <= float(errors["predicted, likeliest"])
    num_agents, num_avs = (int(re.findall(r"^0\.5 s.*?(\d+)$", t, flags=re.MULTILINE)[0]) for t in (everyone, av))
    assert num_agents > num_avs > 0
    assert Image.open(tmp_path / "out" / "safepathnet.png").width > 480
