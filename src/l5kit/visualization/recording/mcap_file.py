"""Scenes as MCAP files, which Foxglove opens."""

import io
import os

from l5kit._files import replaced_when_complete
from l5kit.data.map.api import MapAPI
from l5kit.data.progress import Progress
from l5kit.errors import MissingDependencyError, install_command
from l5kit.visualization.recording.form import USUAL_FORM, RecordingForm
from l5kit.visualization.recording.scene_elements import collect_elements
from l5kit.visualization.scene_content import SceneContent


def write_mcap(
    output_filepath: str | os.PathLike[str],
    scene: SceneContent,
    map_api: MapAPI | None,
    *,
    form: RecordingForm = USUAL_FORM,
    progress: Progress | None = None,
) -> None:
    """Write a scene as an MCAP file with the schemas of Foxglove.

    The log times are the times of the frames, in ascending order. Chunks are compressed with zstd and indexed. A
    message of a topic holds all that the topic shows then, so that a jump to any time shows the whole scene. The file
    is made in memory and appears complete or not at all.

    ========================  ==================================================================================
    topic                     content
    ========================  ==================================================================================
    ``/tf_static``            where the frame ``scene`` is in the frame ``world`` of the dataset, once
    ``/tf``                   where the frame ``ego`` is in the frame ``scene``
    ``/map``                  areas and boundaries of lanes, and crosswalks, once
    ``/lights``               the lanes that show a colour, where one changes
    ``/ego``                  box of the AV
    ``/ego/state``            its speed, world position and heading, and the number of agents, as JSON to plot
    ``/ego/trajectory``       where the AV was and will be
    ``/agents``               boxes with heading, class colour and facts; those of agents that leave are deleted
    ``/agents/labels``        track and class above each box
    ``/agents/trajectories``  where the agents were (faint) and will be
    ========================  ==================================================================================

    Metadata records: ``l5kit.scene`` and ``l5kit.classes`` (the name of each class by its column).

    Args:
        output_filepath: The file to write, such as ``scene.mcap``; an older one is replaced.
        scene: The scene; read with the same map, so that its lights are there.
        map_api: The map; None leaves lanes, crosswalks and lights out.
        form: How much is recorded.
        progress: Called with the number of frames done and of all.

    Raises:
        MissingDependencyError: foxglove-sdk is not installed.
        CorruptedDataError: The times of the frames do not ascend, or the map cannot be read.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    try:
        from l5kit.visualization.recording.mcap_messages import write_messages
    except ImportError as error:
        raise MissingDependencyError(
            f"an MCAP file needs foxglove-sdk, which the extra mcap brings: {install_command('mcap')}"
        ) from error
    with replaced_when_complete(output_filepath) as path:
        content = io.BytesIO()  # the library only logs what goes wrong when it writes to a disk
        write_messages(content, collect_elements(scene, map_api, form), progress)
        path.write_bytes(content.getbuffer())
