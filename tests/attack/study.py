"""Study of stored rows: where their structure is broken, what was changed, and what is lost."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attack.clean_sets import NUM_FUTURE, NUM_HISTORY
from attack.record_files import Records

_INTERVAL_FIELDS = {
    "agents": "agent_index_interval",
    "traffic_light_faces": "traffic_light_faces_index_interval",
}
_FLOATS = {
    "frames": ("ego_translation", "ego_rotation"),
    "agents": ("centroid", "extent", "yaw", "velocity", "label_probabilities"),
    "traffic_light_faces": ("traffic_light_face_status",),
}


def suspects(bounds: np.ndarray, length: int) -> np.ndarray:
    """Return which intervals (N, 2) are wrong or next to a break, where one does not start at the end of the previous.

    A break does not show which side is wrong. Empty intervals after a suspect one are suspect as well, since any
    position would fit. So are those before a gap, any of which may have lost the rows in it, unless the rows after the
    gap do not fit to their successors either, and so are shifted ones. Rows after the last interval are not a break.
    """
    starts, stops = bounds[:, 0], bounds[:, 1]
    is_wrong = (starts < 0) | (stops < starts) | (stops > length)
    is_break = starts != np.concatenate([[0], stops[:-1]])
    found: np.ndarray = is_wrong | is_break
    found[:-1] |= is_break[1:]
    for row in range(1, len(found)):
        found[row] |= found[row - 1] and starts[row] == stops[row]
    is_before_gap = np.append((starts[1:] > stops[:-1]) & ~np.append(is_break[2:], False), False)
    for row in range(len(found) - 2, -1, -1):
        is_twin = starts[row] == stops[row] == starts[row + 1] == stops[row + 1]
        is_before_gap[row] |= is_before_gap[row + 1] and is_twin
        found[row] |= is_before_gap[row] and is_twin
    return found


def blamed(bounds: np.ndarray, length: int) -> np.ndarray:
    """Return which intervals (N, 2) cannot be trusted: wrong ones, and both sides of a break.

    A break says nothing about one side if the other one fits on neither of its sides, and so is wrong itself.
    """
    starts, stops = bounds[:, 0], bounds[:, 1]
    breaks_before = starts != np.concatenate([[0], stops[:-1]])
    breaks_after = stops != np.concatenate([starts[1:], [length]])
    is_wrong = (starts < 0) | (stops < starts) | (stops > length) | (breaks_before & breaks_after)
    found: np.ndarray = is_wrong | (breaks_before & ~np.concatenate([[False], is_wrong[:-1]]))
    found[:-1] |= breaks_after[:-1] & ~is_wrong[1:]
    return found


def disputed(bounds: np.ndarray, length: int) -> np.ndarray:
    """Return which intervals (N, 2) share rows with another one that may be right.

    One that lies outside of the rows, or fits on neither side, cannot be.
    """
    starts, stops = bounds[:, 0], bounds[:, 1]
    fits_before = starts == np.concatenate([[0], stops[:-1]])
    fits_after = stops == np.concatenate([starts[1:], [length]])
    others = np.flatnonzero((starts >= 0) & (stops > starts) & (stops <= length) & (fits_before | fits_after))
    shares = (starts[:, None] < stops[others]) & (starts[others] < stops[:, None])
    shares[others, np.arange(len(others))] = False
    found: np.ndarray = shares.any(axis=1)
    return found


@dataclass(frozen=True)
class Study:
    """Rows of an undamaged log next to the stored ones.

    Attributes:
        clean: The undamaged rows.
        stored: The stored rows.
    """

    clean: Records
    stored: Records

    @cached_property
    def is_suspect_scene(self) -> np.ndarray:
        """Scenes of the clean log whose stored interval is wrong, next to a break, or missing."""
        num_frames = len(self.stored["frames"])
        return self._over_clean(suspects(self._bounds("scenes", "frame_index_interval"), num_frames), "scenes")

    @cached_property
    def is_suspect_frame(self) -> dict[str, np.ndarray]:
        """Frames of the clean log whose stored interval is wrong or next to a break, for agents and for faces."""
        return {
            key: self._over_clean(suspects(self._bounds("frames", field), len(self.stored[key])), "frames")
            for key, field in _INTERVAL_FIELDS.items()
        }

    @cached_property
    def _is_blamed_scene(self) -> np.ndarray:
        bounds = self._bounds("scenes", "frame_index_interval")
        return self._over_clean(blamed(bounds, len(self.stored["frames"])), "scenes")

    @cached_property
    def _is_blamed_frame(self) -> dict[str, np.ndarray]:
        return {
            key: self._over_clean(blamed(self._bounds("frames", field), len(self.stored[key])), "frames")
            for key, field in _INTERVAL_FIELDS.items()
        }

    @cached_property
    def lacks_faces(self) -> bool:
        """Whether the log has lost all its faces, or the end of them."""
        return len(self.stored["traffic_light_faces"]) < len(self.clean["traffic_light_faces"])

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def _keep(self, key: Any, find: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = find()
        return self._kept[key]

    def is_changed(self, key: str) -> np.ndarray:
        """Return which rows of the clean log are stored with other bytes, are lost, or are not there at all."""
        changed: np.ndarray = self._keep(("changed", key), lambda: self._find_changed(key))
        return changed

    def _find_changed(self, key: str) -> np.ndarray:
        clean, stored = self.clean[key], self.stored[key]
        length = min(len(clean), len(stored))
        changed = np.ones(len(clean), np.bool_)
        width = clean.dtype.itemsize
        before = clean[:length].view(np.uint8).reshape(length, width)
        after = np.ascontiguousarray(stored[:length]).view(np.uint8).reshape(length, width)
        changed[:length] = (before != after).any(axis=1) | self.stored.is_lost(key)[:length]
        return changed

    @cached_property
    def is_same(self) -> bool:
        """Whether every row is stored as it was."""
        return all(
            len(self.clean[key]) == len(self.stored[key]) and not self.is_changed(key).any()
            for key in self.clean.arrays
        )

    def place_of_frame(self, frame: int) -> tuple[int, int]:
        """Return scene and frame in the scene of a frame of the clean log."""
        bounds = self.clean.bounds("scenes", "frame_index_interval")
        scene = int(np.flatnonzero((bounds[:, 0] <= frame) & (frame < bounds[:, 1]))[0])
        return scene, frame - int(bounds[scene, 0])

    def frame_of_agent(self, row: int) -> int:
        """Return the frame of an agent row of the clean log."""
        bounds = self.clean.bounds("frames", "agent_index_interval")
        return int(np.flatnonzero((bounds[:, 0] <= row) & (row < bounds[:, 1]))[0])

    def stored_place(self, frame: int) -> tuple[int, int] | None:
        """Return scene and frame in the scene where the stored intervals hold a frame of the log, if one alone does."""
        bounds = self._bounds("scenes", "frame_index_interval")
        scenes = np.flatnonzero((bounds[:, 0] <= frame) & (frame < bounds[:, 1]))
        return (int(scenes[0]), frame - int(bounds[scenes[0], 0])) if len(scenes) == 1 else None

    def stored_frame_of_agent(self, row: int) -> int | None:
        """Return the frame of the log whose stored interval holds an agent row, if one alone does.

        An interval that does not lie within the rows holds none.
        """
        bounds, num_rows = self._bounds("frames", "agent_index_interval"), len(self.stored["agents"])
        is_possible = (bounds[:, 0] >= 0) & (bounds[:, 1] <= num_rows)
        frames = np.flatnonzero(is_possible & (bounds[:, 0] <= row) & (row < bounds[:, 1]))
        return int(frames[0]) if len(frames) == 1 else None

    def may_be_as_stored(self, frame: int, place: tuple[int, int] | None) -> bool:
        """Whether what is stored at a place of the log may pass for the sample of a frame of the clean log."""
        if place is None:
            return False
        scene = self.place_of_frame(frame)[0]
        if place[0] == scene and self.is_visibly_broken(scene, self.window(frame)):
            return False
        start, stop = self._bounds("scenes", "frame_index_interval")[place[0]].tolist()
        current = start + place[1]
        used = slice(max(start, current - NUM_HISTORY), min(stop, current + NUM_FUTURE + 1))
        return place[0] >= len(self.clean["scenes"]) or not self.is_visibly_broken(place[0], used)

    def frames_of_scene(self, scene: int) -> slice:
        start, stop = self.clean.bounds("scenes", "frame_index_interval")[scene].tolist()
        return slice(start, stop)

    def window(self, frame: int) -> slice:
        """Return the frames that the sample of a frame uses."""
        frames = self.frames_of_scene(self.place_of_frame(frame)[0])
        return slice(max(frames.start, frame - NUM_HISTORY), min(frames.stop, frame + NUM_FUTURE + 1))

    def rows_of_frames(self, frames: slice, key: str) -> slice:
        """Return the agents or faces of frames of the clean log."""
        bounds = self.clean.bounds("frames", _INTERVAL_FIELDS[key])[frames]
        return slice(int(bounds[0, 0]), int(bounds[-1, 1])) if len(bounds) else slice(0, 0)

    def is_sound(self, scene: int) -> bool:
        """Whether nothing of a scene was changed or is suspect, so that reading it must work."""
        return bool(self._keep(("sound", scene), lambda: self._find_sound(scene)))

    @cached_property
    def _is_disputed(self) -> dict[str, np.ndarray]:
        """Scenes and frames of the clean log that share rows with others."""
        scenes = disputed(self._bounds("scenes", "frame_index_interval"), len(self.stored["frames"]))
        frames = [
            disputed(self._bounds("frames", field), len(self.stored[key])) for key, field in _INTERVAL_FIELDS.items()
        ]
        return {
            "scenes": self._over_clean(scenes, "scenes"),
            "frames": self._over_clean(frames[0] | frames[1], "frames"),
        }

    def _find_sound(self, scene: int) -> bool:
        frames = self.frames_of_scene(scene)
        if self._is_disputed["scenes"][scene] or self._is_disputed["frames"][frames].any():
            return False
        if self.is_suspect_scene[scene] or self.is_changed("scenes")[scene] or self.is_changed("frames")[frames].any():
            return False
        return not any(
            self.is_suspect_frame[key][frames].any() or self.is_changed(key)[self.rows_of_frames(frames, key)].any()
            for key in _INTERVAL_FIELDS
        )

    def is_same_extent(self, scene: int) -> bool:
        """Whether a scene is stored with the frames and agent rows that it had."""
        frames = self.frames_of_scene(scene)
        if self._differs("scenes", "frame_index_interval")[scene]:
            return False
        return not self._differs("frames", _INTERVAL_FIELDS["agents"])[frames].any()

    def is_visibly_broken(self, scene: int, frames: slice, *, with_faces: bool = True) -> bool:
        """Whether it is detectable that stored frames of a scene are not the recorded ones.

        Args:
            scene: The scene.
            frames: Frames of the clean log.
            with_faces: Whether the reader looks at traffic light faces.
        """
        if self._is_blamed_scene[scene] and self.is_changed("scenes")[scene]:
            return True
        lost_scenes = self.stored.is_lost("scenes")
        if scene >= len(lost_scenes) or lost_scenes[scene] or self._any_lost("frames", frames):
            return True
        for key in ("agents", "traffic_light_faces") if with_faces else ("agents",):
            field = _INTERVAL_FIELDS[key]
            is_broken = self._is_blamed_frame[key] & self._differs("frames", field)
            if is_broken[frames].any() and not (key == "traffic_light_faces" and self.lacks_faces):
                return True
        if self._any_lost("agents", self.rows_of_frames(frames, "agents")):
            return True
        return with_faces and self._any_unreadable_face(frames)

    def _any_lost(self, key: str, rows: slice) -> bool:
        is_lost = np.ones(len(self.clean[key]), np.bool_)
        length = min(len(is_lost), len(self.stored[key]))
        is_lost[:length] = self.stored.is_lost(key)[:length]
        return bool(is_lost[rows].any())

    def _any_unreadable_face(self, frames: slice) -> bool:
        rows = self.rows_of_frames(frames, "traffic_light_faces")
        return bool(self.stored.is_unreadable["traffic_light_faces"][rows].any())

    def _differs(self, key: str, field: str) -> np.ndarray:
        differs: np.ndarray = self._keep(("differs", key, field), lambda: self._find_differing(key, field))
        return differs

    def _find_differing(self, key: str, field: str) -> np.ndarray:
        length = min(len(self.clean[key]), len(self.stored[key]))
        differs = np.ones(len(self.clean[key]), np.bool_)
        before, after = self.clean[key][field][:length], self.stored[key][field][:length]
        differs[:length] = (before != after).reshape(length, -1).any(axis=1)
        return differs

    def _bounds(self, key: str, field: str) -> np.ndarray:
        return self.stored.bounds(key, field)

    def _over_clean(self, flags: np.ndarray, key: str) -> np.ndarray:
        whole = np.ones(len(self.clean[key]), np.bool_)
        length = min(len(whole), len(flags))
        whole[:length] = flags[:length]
        return whole

    def problems(self) -> list[str]:
        """Return what a validation has to report as errors, from the stored rows alone."""
        stored, found = self.stored, []
        scenes = stored.bounds("scenes", "frame_index_interval")
        if suspects(scenes, len(stored["frames"])).any():
            found.append("an interval of scenes breaks the run")
        for key, field in _INTERVAL_FIELDS.items():
            if key == "traffic_light_faces" and len(stored[key]) == 0:
                continue
            if suspects(stored.bounds("frames", field), len(stored[key])).any():
                found.append(f"{field} of a frame breaks the run")
        used = {key: self._used(key) for key in stored.arrays}
        for key, is_used in used.items():
            if (stored.is_unreadable[key] & is_used).any():
                found.append(f"rows of {key} are used and cannot be read")
            if key != "traffic_light_faces" and (stored.is_missing[key] & is_used).any():
                found.append(f"rows of {key} are used and their chunk is missing")
        return found + self._problems_of_values({key: used[key] & ~stored.is_lost(key) for key in used})

    def _problems_of_values(self, used: dict[str, np.ndarray]) -> list[str]:
        found = []
        for key, fields in _FLOATS.items():
            for field in fields:
                values = self.stored[key][field][used[key]]
                if not np.isfinite(values).all():
                    found.append(f"{field} of {key} is not finite")
        agents, frames = self.stored["agents"][used["agents"]], self.stored["frames"][used["frames"]]
        if (agents["track_id"] >= np.uint64(2**63)).any():
            found.append("a track id is 2^63 or more")
        if (frames["timestamp"] <= 0).any():
            found.append("a timestamp is not positive")
        with np.errstate(all="ignore"):
            rotations = frames["ego_rotation"]
            off = np.abs(rotations @ rotations.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2), initial=0)
            if not (off < 0.01).all() or not (np.linalg.det(rotations) > 0).all():
                found.append("a rotation is none")
        for key, field in (("scenes", "host"), ("traffic_light_faces", "face_id")):
            texts = np.ascontiguousarray(self.stored[key][used[key]][field])
            if (texts.view(np.uint32) > 0x10FFFF).any():
                found.append(f"{field} is no text")
        return found

    def impossible_values(self) -> list[str]:
        """Return what cannot be true of a car, judged by limits far beyond those that a validation might take."""
        frames, found = self.stored["frames"], []
        is_used = self._used("frames") & ~self.stored.is_lost("frames")
        for start, stop in self._bounds("scenes", "frame_index_interval").tolist():
            if not 0 <= start < stop <= len(frames) or not is_used[start:stop].all():
                continue
            rows = frames[start:stop]
            with np.errstate(all="ignore"):
                if (np.linalg.norm(np.diff(rows["ego_translation"][:, :2], axis=0), axis=1) > 100).any():
                    found.append("the AV jumps by more than 100 m from frame to frame")
                if (rows["ego_rotation"][:, 2, 2] < 0.1).any():
                    found.append("the AV lies on its side or its roof")
            if (np.diff(rows["timestamp"]) < 1000).any():
                found.append("frames are less than a microsecond apart")
        return found

    def _used(self, key: str) -> np.ndarray:
        """Return which stored rows of an array are referenced by the array above it."""
        used = np.zeros(len(self.stored[key]), np.bool_)
        if key == "scenes":
            used[:] = True
            return used
        parents = "scenes" if key == "frames" else "frames"
        field = "frame_index_interval" if key == "frames" else _INTERVAL_FIELDS[key]
        for start, stop in self._bounds(parents, field).tolist():
            if 0 <= start <= stop <= len(used):
                used[start:stop] = True
        return used
