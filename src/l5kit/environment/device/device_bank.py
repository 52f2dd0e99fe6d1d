"""Device bank: the scenes of a bank in the memory of a device, as kernels read them."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Int64Array, NumericArray
from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.errors import InvalidArgumentError

__all__ = ["DeviceBank"]

_NUM_ROWS, _NUM_PATHS = 9, 8


@dataclass(frozen=True, eq=False)
class DeviceBank:
    """The S scenes of a bank on a device, all arrays as in :class:`~l5kit.environment.traffic.scene_bank.SceneBank`.

    Attributes:
        backend: The device.
        num_scenes: S.
        most_rows: Agent rows of the frame that has most of them.
        most_seats: Vehicles of the scene that has most paths, at least 1.
        scenes: ``frame_starts`` and ``routes``.
        rows: ``rows``.
        paths: ``paths``, but that ``line_lanes`` holds numbers of the lights of the scene, -1 for none.
        path_tracks: ``path_tracks``.
        path_last_frames: ``path_last_frames``.
        ego: ``ego_poses`` and ``ego_motion``.
        expert_arcs_m: ``expert_arcs_m``.
        lights: First of the ranks of each frame and the end of the last one, int64 (F + 1,), and the ranks of all
            lights of the scene, 0 for one that is neither yellow nor red, int8. A light is a lane that is so in some
            frame of the scene.
        light_lanes: First light of each scene and the end of the last one, int64 (S + 1,), and the lane of each,
            ascending in a scene, int64.
    """

    backend: Backend
    num_scenes: int
    most_rows: int
    most_seats: int
    scenes: tuple[DeviceArray, DeviceArray]
    rows: tuple[DeviceArray, ...]
    paths: tuple[DeviceArray, ...]
    path_tracks: DeviceArray
    path_last_frames: DeviceArray
    ego: tuple[DeviceArray, DeviceArray]
    expert_arcs_m: DeviceArray
    lights: tuple[DeviceArray, DeviceArray]
    light_lanes: tuple[DeviceArray, DeviceArray]

    @classmethod
    def upload(cls, bank: SceneBank, backend: Backend) -> "DeviceBank":
        """Return copies of all scenes that are prepared.

        Raises:
            InvalidArgumentError: No scene is prepared.
        """
        if len(bank) == 0:
            raise InvalidArgumentError("bank has no scenes; call bank.prepare() with all scenes that are to be driven")
        line_lanes, *lights = _lights_of(bank)
        paths = bank.paths._replace(line_lanes=line_lanes)
        others = (bank.path_tracks, bank.path_last_frames, bank.ego_poses, bank.ego_motion, bank.expert_arcs_m)
        sent = backend.upload([*bank.rows, *paths, bank.frame_starts, bank.routes, *others, *lights])
        rows, sent = tuple(sent[:_NUM_ROWS]), sent[_NUM_ROWS:]
        on_device, sent = tuple(sent[:_NUM_PATHS]), sent[_NUM_PATHS:]
        return cls(
            backend=backend,
            num_scenes=len(bank),
            most_rows=int(np.diff(bank.rows.starts).max(initial=0)),
            most_seats=max(int(np.diff(bank.routes).max()) - 1, 1),
            scenes=(sent[0], sent[1]),
            rows=rows,
            paths=on_device,
            path_tracks=sent[2],
            path_last_frames=sent[3],
            ego=(sent[4], sent[5]),
            expert_arcs_m=sent[6],
            lights=(sent[7], sent[8]),
            light_lanes=(sent[9], sent[10]),
        )

    def require_same(self, bank: SceneBank) -> None:
        """Refuse a bank that has got more scenes since it was uploaded.

        Raises:
            InvalidArgumentError: It has.
        """
        if len(bank) != self.num_scenes:
            raise InvalidArgumentError(
                f"bank has {len(bank)} scenes, but {self.num_scenes} are on {self.backend.device}; prepare all scenes "
                "before they are uploaded"
            )


def _lights_of(bank: SceneBank) -> tuple[Int64Array, Int64Array, NumericArray, Int64Array, Int64Array]:
    """Return the light of each line, (Q, 2), first rank of each frame, ranks, first light of each scene, and lanes.

    Lights are counted in their scene, so that a frame has as many ranks as its scene has lights, not as the map has
    lanes.
    """
    starts, lanes, values = bank.colors
    num_frames = np.diff(bank.frame_starts)
    frames = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    keys = np.repeat(np.arange(len(bank)), num_frames)[frames] * bank.num_lanes + lanes
    lights, of_rows = np.unique(keys, return_inverse=True)
    firsts = np.searchsorted(lights, np.arange(len(bank) + 1) * bank.num_lanes)
    light_starts = np.concatenate([[0], np.cumsum(np.repeat(np.diff(firsts), num_frames))]).astype(np.int64)
    ranks = np.zeros(int(light_starts[-1]), np.int8)
    places = light_starts[frames] + of_rows - firsts[keys // bank.num_lanes]
    np.maximum.at(ranks, places, values.astype(np.int8))
    return _lights_of_lines(bank, lights, firsts), light_starts, ranks, firsts, lights % bank.num_lanes


def _lights_of_lines(bank: SceneBank, lights: Int64Array, firsts: Int64Array) -> Int64Array:
    """Return the light of each line, counted in its scene, -1 for none, (Q, 2).

    Args:
        bank: The scenes.
        lights: Scene times lanes of the map, plus lane, of each light, ascending, (L,).
        firsts: First light of each scene and the end of the last one, (S + 1,).
    """
    line_lanes = bank.paths.line_lanes
    pieces_of_scenes = np.diff(bank.paths.piece_starts[bank.routes])
    scenes = np.repeat(np.arange(len(bank)), pieces_of_scenes)[:, None]
    keys = scenes * bank.num_lanes + line_lanes
    places = np.searchsorted(lights, keys)
    is_light = (line_lanes >= 0) & (np.append(lights, -1)[places] == keys)
    return np.where(is_light, places - firsts[scenes], -1).astype(np.int64)
