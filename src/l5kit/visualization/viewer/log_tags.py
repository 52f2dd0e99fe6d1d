"""Tags of the scenes of a log for the page, found in the background scene by scene, and cached."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from l5kit._files import replaced_when_complete
from l5kit._types import JsonObject
from l5kit.data.map.opened import SceneMaps
from l5kit.data.user_cache import cache_folder
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import L5KitError
from l5kit.evaluation.scene_tags.tag_map import SceneTagMaps, TagMap, as_tag_map
from l5kit.evaluation.scene_tags.tag_scenes import tag_scenes
from l5kit.evaluation.scene_tags.tag_table import TAG_KINDS, TagThresholds

_VERSION: Final = 1
"""Cache version; increase it when the same log gets different tags."""

Events = dict[str, list[list[int]]]
"""First frame and end frame of the events of a scene, by tag."""


class LogTags:
    """The tags of all scenes of a log; thread-safe.

    They are cached in the user's cache folder, under a digest of the log and the map, unless a scene is damaged.

    Args:
        dataset: The opened dataset.
        maps: The maps of its scenes; None for tags without a map.
        require_open: Called before each scene; an l5kit error that it raises stops the search.
    """

    def __init__(self, dataset: ChunkedDataset, maps: SceneMaps | None, require_open: Callable[[], None]) -> None:
        self._dataset, self._maps, self._require_open = dataset, maps, require_open
        self._lock = threading.Lock()
        self._is_begun = False
        self._events: list[Events] = []
        self._error = ""

    def begin(self, threads: Executor) -> None:
        """Start the search for tags in a thread, once."""
        with self._lock:
            is_first, self._is_begun = not self._is_begun, True
        if is_first:
            threads.submit(self.find)

    def find(self) -> None:
        """Find the tags of all scenes; :meth:`since` reports an error that stops the search."""
        num_scenes, is_any_damaged = len(self._dataset.scenes), False
        try:
            # use the cache if it has as many scenes
            file = self._file
            kept = None
            with suppress(OSError, ValueError):
                kept = None if file is None else json.loads(file.read_text("utf-8"))
            if isinstance(kept, list) and len(kept) == num_scenes and all(isinstance(each, dict) for each in kept):
                self._events += kept
                return
            self._require_open()
            tag_map = as_tag_map(self._maps)
            for scene in range(num_scenes):
                self._require_open()
                events, is_damaged = self._tag(scene, tag_map)
                self._events.append(events)
                is_any_damaged |= is_damaged
        except (L5KitError, OSError) as error:
            self._error = str(error)
            return
        # damaged scenes may be repaired, so their tags are not cached; an unwritable cache is ignored
        if file is not None and not is_any_damaged:
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                with replaced_when_complete(file) as temporary:
                    temporary.write_text(json.dumps(self._events), "utf-8")

    def since(self, first: int) -> JsonObject:
        """Return the tags found so far, in the format of the page.

        Args:
            first: First scene to return.
        """
        events = self._events[:]  # a copy, as the list grows
        return self._as_json(dict(enumerate(events[first:], start=first)), done=len(events), error=self._error)

    def of_scene(self, scene_index: int) -> JsonObject:
        """Return the tags of one scene, in the format of the page."""
        tag_map = as_tag_map(self._maps)
        return self._as_json({scene_index: self._tag(scene_index, tag_map)[0]}, done=1, error="")

    def _as_json(self, by_scene: dict[int, Events], *, done: int, error: str) -> JsonObject:
        is_known = {kind.name: self._maps is not None or not kind.needs_map for kind in TAG_KINDS}
        return {
            "tags": [{"name": kind.name, "label": kind.label, "is_known": is_known[kind.name]} for kind in TAG_KINDS],
            "scenes": {str(scene): events for scene, events in by_scene.items() if events},
            "done": done,
            "error": error,
        }

    def _tag(self, scene: int, tag_map: TagMap | SceneTagMaps | None) -> tuple[Events, bool]:
        """Return the events of a scene, and whether it is damaged."""
        tags = tag_scenes(self._dataset, tag_map, scenes=[scene])
        frames = {name: tags.frames_of(0, name).tolist() for name in tags.names}
        return {name: events for name, events in frames.items() if events}, bool(tags.errors)

    @property
    def _file(self) -> Path | None:
        """Path of the cached tags; None if they cannot be cached."""
        fingerprint = self._dataset.fingerprint()
        if fingerprint is None:
            return None
        # everything that tags depend on: version, log, kinds, thresholds, map
        signature: tuple[Any, ...] = (
            _VERSION,
            fingerprint,
            [kind.name for kind in TAG_KINDS],
            astuple(TagThresholds()),
        )
        if self._maps is not None:
            map_file = Path(self._maps.path).resolve()
            try:
                status = map_file.stat()
            except OSError:  # a map that is not on a disk
                return None
            signature += (str(map_file), status.st_size, status.st_mtime_ns)
        return cache_folder() / "scene_tags" / f"{sha256(repr(signature).encode()).hexdigest()}.json"
