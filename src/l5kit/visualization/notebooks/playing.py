"""Interactive scenes in notebooks: the viewer page as one value, without a server or a network."""

import base64
import gzip
import os
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from l5kit._files import replaced_when_complete
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.notebooks.subjects import files_of, log_of

if TYPE_CHECKING:
    from l5kit.visualization.viewer.predictions import Predictions

MAX_BYTES: Final = 8_000_000
"""Default limit of the bytes that a page adds to a notebook, including about 0.35 MB for the viewer itself."""

_SCRIPT: Final = re.compile(r"data:text/javascript;base64,([A-Za-z0-9+/=]+)")
_NO_DRIVE: Final = '"drive": null'
_CURVES: Final = re.compile(r'("uplot": "data:text/javascript;base64,)[A-Za-z0-9+/=]+')
_NO_CURVES: Final = rf"\g<1>{base64.b64encode(b'export default class {}').decode()}"
"""Stub of the curve library for pages of logs, which have no curves of simulations."""

_COMMENT: Final = re.compile(rb"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n", re.DOTALL | re.MULTILINE)
_OWN: Final = b"// @ts-check"
"""First bytes of the viewer's own scripts."""

_SAFE: Final = " !$&'()*+,-./:;=?@[]^_`{|}~"
"""Characters that need no escaping in the data URL of a script."""

_HEIGHTS_PX: Final = (200, 4000)
_LOADER: Final = """<!doctype html><meta charset="utf-8"><title>l5kit view</title><p id="wait">Loading ...</p><script>
(async () => {
  try {
    const bytes = Uint8Array.from(atob("CONTENT"), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const page = await new Response(stream).text();
    document.open();
    document.write(page);
    document.close();
  } catch (error) {
    document.getElementById("wait").textContent = `This browser cannot show the page: ${error}`;
  }
})();
</script>
"""


@dataclass(frozen=True)
class ScenePage:
    """The page of a scene, which a notebook displays as the value of a cell.

    It runs in a sandboxed frame that may only run scripts.

    Attributes:
        html: The self-contained page.
        height_px: Height of the frame.
        title: Title of the frame.
    """

    html: str = field(repr=False)
    height_px: int
    title: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page as a self-contained HTML file, replacing an older one.

        Raises:
            FileNotFoundError: The folder of ``path`` does not exist.
        """
        with replaced_when_complete(path, argument="path") as temporary:
            temporary.write_bytes(self.html.encode("utf-8"))

    def _repr_html_(self) -> str:
        page = _SCRIPT.sub(_as_text, self.html if _NO_DRIVE not in self.html else _CURVES.sub(_NO_CURVES, self.html))
        packed = base64.b64encode(gzip.compress(page.encode("utf-8"), mtime=0)).decode("ascii")
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts" width="100%" height="{self.height_px}" '
            'style="border:1px solid rgba(128,128,128,0.4);border-radius:4px;box-sizing:border-box" allowfullscreen '
            f'srcdoc="{escape(_LOADER.replace("CONTENT", packed))}"></iframe>'
        )


def play(
    dataset: object,
    scene: int = 0,
    *,
    height_px: int = 620,
    data_folder: str | os.PathLike[str] | None = None,
    max_bytes: int = MAX_BYTES,
    predictions: "Predictions | str | os.PathLike[str] | None" = None,
) -> ScenePage:
    """Return a scene as the viewer page, which plays where a notebook displays it.

    It works in Jupyter, VS Code and Colab, and in saved notebooks, since the page is part of the notebook: a scene of
    25 seconds adds about 0.5 to 2 MB. A variable that is not displayed adds nothing.

    Args:
        dataset: A log, a dataset of samples, the path of a log, or the folder or the result of a simulation.
        scene: The scene.
        height_px: Height of the page, 200 to 4000.
        data_folder: Folder with the map and meta.json; None to search in and near the log.
        max_bytes: Limit of the bytes added to the notebook.
        predictions: Predictions of a model over the log, or the path of a file for
            :meth:`l5kit.visualization.viewer.predictions.Predictions.open`; drawn together with the actual future.
            :meth:`l5kit.visualization.viewer.predictions.Predictions.open` takes; drawn beside what came to be.

    Raises:
        InvalidArgumentError: The argument is not a dataset or was not opened, a height is out of range, the page is too
            large, or predictions cannot be read or belong to a simulation.
        IndexOutOfRangeError: There is no such scene.
        CorruptedDataError: The scene cannot be read.
        DatasetNotFoundError: There is nothing at the path.
    """
    if not _HEIGHTS_PX[0] <= height_px <= _HEIGHTS_PX[1]:
        raise InvalidArgumentError(f"height_px is {height_px}; it must be {_HEIGHTS_PX[0]} to {_HEIGHTS_PX[1]}")
    from l5kit.simulation.folder.simulation_folder import find_scene_files
    from l5kit.visualization.viewer.exported_page import exported_page  # imported here since its samples need torch
    from l5kit.visualization.viewer.predictions import Predictions, refuse_predictions
    from l5kit.visualization.viewer.viewed_log import ViewedLog
    from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation

    # a path may be a log or the folder of a simulation
    folder = getattr(dataset, "folder", dataset)
    files, simulation = find_scene_files(folder) if isinstance(folder, (str, Path)) else (None, None)
    if simulation is not None:
        refuse_predictions(predictions, folder)
        log: ViewedLog = ViewedSimulation(simulation, files)
    else:
        opened = log_of(folder)
        if isinstance(predictions, (str, os.PathLike)):
            predictions = Predictions.open(predictions)
        log = ViewedLog(files_of(opened, data_folder), opened, predictions=predictions)
    page = ScenePage(exported_page(log, scene), height_px, f"scene {scene}")
    size = len(page._repr_html_())
    if size > max_bytes:
        raise InvalidArgumentError(
            f"the page of scene {scene} adds {size:,} bytes to the notebook, but max_bytes is {max_bytes:,}; use a "
            "shorter scene, allow more, or write it to a file with l5kit view PATH --export FILE --scene "
            f"{scene}"
        )
    return page


def _as_text(address: re.Match[str]) -> str:
    """Return the data URL of a script as percent-encoded text, smaller than base64 after gzip, without comments."""
    script = base64.b64decode(address[1])
    if script.startswith(_OWN):
        script = _COMMENT.sub(b"", script)
    return f"data:text/javascript;charset=utf-8,{quote(script, safe=_SAFE)}"
