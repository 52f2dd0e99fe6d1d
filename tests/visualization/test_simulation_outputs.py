"""Outputs of real simulations in the visualizer of 1.5, in addition to the hand-made ones of test_simulated_frames."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from l5kit.data import ChunkedDataset  # noqa: E402
from l5kit.data.dataset_files import find_dataset_files  # noqa: E402
from l5kit.data.map.opened import open_map  # noqa: E402
from l5kit.dataset import EgoDataset  # noqa: E402
from l5kit.simulation.dataset import SimulationConfig  # noqa: E402
from l5kit.simulation.unroll import ClosedLoopSimulator  # noqa: E402
from l5kit.visualization.visualizer.visualizer import visualize  # noqa: E402
from l5kit.visualization.visualizer.zarr_utils import simulation_out_to_visualizer_scene  # noqa: E402
from support.cities import small_city  # noqa: E402
from support.samples import make_cfg, make_stub  # noqa: E402

NUM_STEPS, START = 8, 30


class Ahead(torch.nn.Module):
    """Plans a metre a step, straight ahead, for three steps."""

    def forward(self, batch):
        count = len(batch["target_positions"])
        positions = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]).expand(count, 3, 2)
        return {"positions": positions, "yaws": torch.zeros(count, 3, 1)}


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """A log and its map."""
    files = find_dataset_files(small_city(tmp_path_factory.mktemp("outputs") / "city").path)
    return ChunkedDataset(files.dataset).open(), open_map(files)


def unrolled(log, *, ego, agents):
    cfg = make_cfg(history_num_frames=2, future_num_frames=3, raster_size=[16, 12])
    dataset = EgoDataset(cfg, log, make_stub(cfg))
    sim_cfg = SimulationConfig(
        use_ego_gt=not ego, use_agents_gt=not agents, start_frame_index=START, num_simulation_steps=NUM_STEPS
    )
    model = Ahead().eval()
    simulator = ClosedLoopSimulator(
        sim_cfg, dataset, torch.device("cpu"), model if ego else None, model if agents else None
    )
    return simulator.unroll([1])[0]


@pytest.mark.parametrize(("ego", "agents"), [(True, False), (False, True), (True, True), (False, False)])
def test_an_unrolled_scene_is_shown_with_what_was_simulated(city, ego, agents):
    log, map_api = city
    output = unrolled(log, ego=ego, agents=agents)
    frames = simulation_out_to_visualizer_scene(output, map_api)
    assert len(frames) == NUM_STEPS
    kinds = {line.legend_label for frame in frames for line in frame.trajectories}
    assert kinds == ({"ego_replay", "ego_simulated"} if ego else set()) | (
        {"agent_replay", "agent_simulated"} if agents else set()
    )
    assert all(len(frame.lanes) > 0 and len(frame.agents) > 0 for frame in frames)
    centers_m = np.array([(frame.ego.center_x, frame.ego.center_y) for frame in frames])
    np.testing.assert_allclose(centers_m, output.simulated_ego["ego_translation"][:, :2])
    if ego:
        np.testing.assert_allclose(np.linalg.norm(np.diff(centers_m, axis=0), axis=1), 1.0, atol=1e-5)
        line = next(line for line in frames[0].trajectories if line.legend_label == "ego_simulated")
        np.testing.assert_allclose([line.xs[0], line.ys[0]], centers_m[1], atol=1e-4)


def test_a_page_is_made_of_it(city):
    pytest.importorskip("bokeh")
    log, map_api = city
    assert visualize(1, simulation_out_to_visualizer_scene(unrolled(log, ego=True, agents=True), map_api)) is not None
