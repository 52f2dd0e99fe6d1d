"""A simulation as the page of the viewer asks for it: driven scenes, failed ones, and the log beside them."""

import contextlib
import re
from collections import Counter

from l5kit._types import JsonObject
from l5kit.data.dataset_files import DatasetFiles
from l5kit.errors import CorruptedDataError, L5KitError
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.scene_content import SceneContent
from l5kit.visualization.simulated.scene_drive import DriveReader
from l5kit.visualization.viewer.drive_bytes import drive_bytes
from l5kit.visualization.viewer.viewed_log import Columns, ViewedLog


class ViewedSimulation(ViewedLog):
    """The folder of a simulation with its map and log. May be used from several threads.

    Scenes are numbered as in the dataset of driven scenes; those that could not be driven follow.

    Args:
        folder: The folder.
        files: Its dataset and what belongs to it, by default what :meth:`SimulationFolder.files` finds.
        name: What the page calls it; the name of the folder by default.

    Raises:
        CorruptedDataError: Its tables cannot be read, or do not fit the dataset.
        DatasetFormatError: The dataset cannot be opened; or another error of :meth:`ChunkedDataset.open`.
    """

    def __init__(self, folder: SimulationFolder, files: DatasetFiles | None = None, *, name: str | None = None) -> None:
        super().__init__(files or folder.files())
        self._name = folder.path.resolve().name if name is None else name
        self._folder = folder
        self._drives = DriveReader(folder)
        self._num_driven = sum(result.position is not None for result in folder.scenes)
        if self._num_driven != super().num_scenes:
            raise CorruptedDataError(
                f"{folder.path}: scenes.csv has {self._num_driven} driven scenes, and simulated.zarr "
                f"{super().num_scenes}; simulate them again"
            )
        self.notes += self._drives.notes

    @property
    def num_scenes(self) -> int:
        """Number of scenes, driven or not."""
        return len(self._folder.scenes)

    def facts(self) -> JsonObject:
        """Return what the page says of the simulation."""
        scores = self._folder.scores
        run = {name: scores.get(name, self._folder.run.get(name)) for name in ("planner", "agents", "score", "metrics")}
        # pages are passed on: of a file they have the name, not the folders that lead to it
        named = {name: text for name, text in run.items() if name in ("planner", "agents") and isinstance(text, str)}
        run |= {name: re.split(r"[/\\]", text.rstrip("/\\"))[-1] for name, text in named.items()}
        run["num_scored"] = scores.get("scenes")
        run["num_failed"] = self.num_scenes - self._num_driven
        return super().facts() | {"name": self._name, "run": run}

    def scene_row(self, scene_index: int) -> Columns:
        """Return the table with one scene alone; see :meth:`scene`."""
        self._require_driven(scene_index)
        row = super().scene_row(scene_index)
        return row | {name: [values[scene_index]] for name, values in self._result_columns().items()}

    def require_scene(self, scene_index: int) -> None:
        """Refuse a scene that the simulation does not have.

        Raises:
            IndexOutOfRangeError: There is no such scene.
        """
        self._folder.result(scene_index)

    def scene(self, scene_index: int) -> SceneContent:
        """Return one driven scene.

        Raises:
            IndexOutOfRangeError: There is no such scene.
            CorruptedDataError: The scene was not driven to its end, or cannot be read.
        """
        self._require_driven(scene_index)
        return super().scene(scene_index)

    def drive_bytes(self, scene_index: int) -> bytes:
        """Return the drive of a scene for the page; see :meth:`scene`."""
        scene = self.scene(scene_index)
        return drive_bytes(self._drives.read(scene_index, scene), scene)

    def read_ahead(self) -> None:
        """Read what the page asks for first; errors are left to whoever asks."""
        super().read_ahead()
        with contextlib.suppress(L5KitError, OSError):
            if self._num_driven:
                self.drive_bytes(0)

    def _make_columns(self) -> Columns:
        columns = super()._make_columns()
        results = self._folder.scenes
        missing: list[None] = [None] * (len(results) - self._num_driven)
        whole = {name: values + missing for name, values in columns.items() if isinstance(values, list)}
        errors = {str(index): result.error for index, result in enumerate(results) if result.error}
        return columns | whole | {"error": columns["error"] | errors} | self._result_columns()

    def _result_columns(self) -> Columns:
        """Return what the table of scenes has besides that of any dataset."""
        results = self._folder.scenes
        several = len(Counter(result.log for result in results)) > 1
        return {
            "score": [result.score for result in results],
            "failed": [[metric.failure for metric in result.failed] for result in results],
            "log_scene": [f"{result.log} {result.scene}" if several else result.scene for result in results],
        }

    def _require_driven(self, scene_index: int) -> None:
        result = self._folder.result(scene_index)
        if result.position is None:
            raise CorruptedDataError(f"scene {result.scene} of {result.log or 'the log'} was {result.error}")
