"""Windows, contexts and slow reference drawings that the raster tests share."""

import zlib

import cv2
import numpy as np
import numpy.typing as npt

from l5kit.data.filter import filter_agents_by_labels
from l5kit.data.index.windows import Targets, WindowRows, Windows
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE
from l5kit.rasterization.box_rasterizer import draw_boxes, get_ego_as_agent
from l5kit.rasterization.planar_rasterizer import LogWindow
from l5kit.rasterization.render_context import RenderContext
from support.fixture_s import make_fixture_s_arrays
from support.logs import make_frames

HISTORY_NUM_FRAMES = 3
THRESHOLD = 0.5

Window = tuple[np.ndarray, list[np.ndarray], list[np.ndarray], np.void | None]


def make_context(set_origin_to_bottom: bool = True, raster_size: tuple[int, int] = (224, 112)) -> RenderContext:
    return RenderContext(
        np.array(raster_size), np.array([0.25, 0.25]), np.array([0.25, 0.5]), set_origin_to_bottom=set_origin_to_bottom
    )


def make_window(
    frame_index: int, track_id: int | None = None, *, with_lights: bool = True, num_history: int = HISTORY_NUM_FRAMES
) -> Window:
    """Return frames (newest first), agents, faces and the agent of interest of fixture S."""
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    history = frames[max(0, frame_index - num_history) : frame_index + 1][::-1]
    history_agents = [agents[slice(*frame["agent_index_interval"])] for frame in history]
    faces = [tl_faces[slice(*frame["traffic_light_faces_index_interval"])] for frame in history]
    if not with_lights:
        faces = [face[:0] for face in faces]
    agent = None if track_id is None else history_agents[0][history_agents[0]["track_id"] == track_id][0]
    return history, history_agents, faces, agent


def to_bytes(image: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    return np.round(image * 255).astype(np.uint8)


def crc(pixels: npt.NDArray[np.uint8]) -> int:
    assert pixels.dtype == np.uint8
    return zlib.crc32(np.ascontiguousarray(pixels).tobytes())


def is_opencv_5() -> bool:
    return int(cv2.__version__.split(".")[0]) >= 5


def draw_boxes_slowly(
    window: Window, context: RenderContext, *, threshold: float, num_history: int, render_ego_history: bool
) -> npt.NDArray[np.uint8]:
    """Return the box channels (C, H, W) frame by frame, every box of a channel handed to one call of OpenCV."""
    frames, history_agents, _, agent = window
    if agent is None:
        ego = get_ego_as_agent(frames[0])[0]
        matrix = context.raster_from_world(ego["centroid"], float(np.arctan2(*frames[0]["ego_rotation"][[1, 0], 0])))
    else:
        matrix = context.raster_from_world(agent["centroid"], agent["yaw"])
    width, height = context.raster_size_px
    planes = np.zeros((2 * (num_history + 1), height, width), np.uint8)
    for index, (frame, rows) in enumerate(zip(frames, history_agents, strict=True)):
        agents, ego = filter_agents_by_labels(rows, threshold), get_ego_as_agent(frame)
        if agent is not None:
            is_ego = agents["track_id"] == agent["track_id"]
            agents, ego = np.concatenate([agents[~is_ego], ego]), agents[is_ego]
        planes[index] = draw_boxes(context.raster_size_px, matrix, agents, 255)
        if render_ego_history or index == 0:
            planes[num_history + 1 + index] = draw_boxes(context.raster_size_px, matrix, ego, 255)
    return planes


def make_random_window(seed: int, *, num_frames: int, num_agents: int, spread_m: float) -> Window:
    """Return a window of random boxes, some far outside any picture, the selected agent among them."""
    rng = np.random.default_rng(seed)
    positions_m = rng.uniform(-3, 3, (num_frames, 2)) + 1000
    frames, *_ = make_frames(num_frames, positions_m=positions_m, yaws_rad=rng.uniform(-np.pi, np.pi, num_frames))
    history_agents = []
    for _ in range(num_frames):
        agents = np.zeros(num_agents, AGENT_DTYPE)
        agents["centroid"] = rng.uniform(-spread_m, spread_m, (num_agents, 2)) + 1000
        agents["yaw"] = rng.uniform(-4, 4, num_agents)
        agents["extent"] = rng.uniform(0.1, 9, (num_agents, 3))
        agents["track_id"] = rng.permutation(num_agents)
        agents["label_probabilities"][:, rng.integers(0, 17)] = rng.uniform(0, 1, num_agents)
        agents["label_probabilities"][:1, 3] = 1.0
        history_agents.append(agents)
    agent = history_agents[0][0] if num_agents and seed % 2 else None
    return frames, history_agents, [], agent


def join_windows(windows: list[Window], *, one_array: bool) -> tuple[Windows, Targets]:
    """Return windows and their targets as a batch; missing frames are padded with invalid ones.

    ``one_array`` puts the rows of all windows into one array, otherwise each window has its own array.
    """
    most_frames = max(len(frames) for frames, _, _, _ in windows)
    padded = np.full((len(windows), most_frames, np.dtype(FRAME_DTYPE).itemsize), 255, np.uint8)
    joined_frames = padded.view(FRAME_DTYPE)[..., 0]
    for row, (frames, _, _, _) in zip(joined_frames, windows, strict=True):
        row[: len(frames)] = frames
    singles, targets = zip(*(LogWindow(*window).as_batch() for window in windows), strict=True)
    num_frames = [len(frames) for frames, _, _, _ in windows]
    joined = Windows(
        frames=joined_frames,
        counts=np.array([num_frames, [0] * len(windows)]),
        agents=_join_rows([single.agents for single in singles], most_frames, one_array=one_array),
        tl_faces=_join_rows([single.tl_faces for single in singles], most_frames, one_array=one_array),
        num_history=most_frames,
    )
    fields = ("centroids_m", "yaws_rad", "extents_m")
    track_ids = None if windows[0][3] is None else np.concatenate([target.track_ids for target in targets])
    states = {name: np.concatenate([getattr(target, name) for target in targets]) for name in fields}
    return joined, Targets(track_ids=track_ids, rows=None, **states)


def _join_rows(parts: list[WindowRows], num_frames: int, *, one_array: bool) -> WindowRows:
    arrays = [part.arrays[0] for part in parts]
    offsets = np.cumsum([0, *(len(array) for array in arrays)])[:-1] if one_array else np.zeros(len(parts), np.int64)
    starts, stops = np.zeros((2, len(parts), num_frames), np.int64)
    for window, (part, offset) in enumerate(zip(parts, offsets, strict=True)):
        starts[window, : part.starts.shape[1]] = part.starts + offset
        stops[window, : part.stops.shape[1]] = part.stops + offset
    return WindowRows([np.concatenate(arrays)] if one_array else arrays, starts, stops)
