"""Scenes as MCAP files, which Foxglove opens, and as recordings for Rerun."""

import io
import os

from l5kit._files import replaced_when_complete
from l5kit.data.map.api import MapAPI
from l5kit.data.progress import Progress
from l5kit.errors import MissingDependencyError, install_command
from l5kit.visualization.recording.scene_elements import USUAL_FORM, RecordingForm, collect_elements
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


def write_rerun(
    output_filepath: str | os.PathLike[str],
    scene: SceneContent,
    map_api: MapAPI | None,
    *,
    form: RecordingForm = USUAL_FORM,
    progress: Progress | None = None,
) -> None:
    """Write a scene as a Rerun recording.

    The time lines are ``time``, the times of the frames, and ``frame``, their numbers. Positions are those in the frame
    of the scene, whose origin in the world is a property of the recording. No viewer is started and nothing is sent.
    The file is made in memory and appears complete or not at all.

    ==============================  =================================================================================
    entity                          content
    ==============================  =================================================================================
    ``/scene``                      names and colours of the classes, by the number that boxes have
    ``/scene/map/lanes``            areas of lanes, static; likewise ``lane_boundaries`` and ``crosswalks``
    ``/scene/map/lights``           areas of the lanes that show a colour, where one changes
    ``/scene/ego``                  transform of the AV, with its box ``/scene/ego/box``
    ``/scene/ego_trajectory/past``  where the AV was; ``future``: where it will be
    ``/scene/agents``               boxes with class, label, track, probability, speed and whether the mask takes them
    ``/scene/agents/headings``      a line on the roof to the front
    ``/scene/agents/past``          where they were; ``future``: where they will be
    ``/state/speed_mps``            speed of the AV
    ==============================  =================================================================================

    Args:
        output_filepath: The file to write, such as ``scene.rrd``; an older one is replaced.
        scene: The scene; read with the same map, so that its lights are there.
        map_api: The map; None leaves lanes, crosswalks and lights out.
        form: How much is recorded.
        progress: Called with the number of frames done and of all.

    Raises:
        MissingDependencyError: rerun-sdk is not installed.
        UnsupportedValueError: The environment variable ``RERUN`` turns recordings off.
        CorruptedDataError: The times of the frames do not ascend, or the map cannot be read.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    try:
        from l5kit.visualization.recording.rerun_columns import encode_recording
    except ImportError as error:
        raise MissingDependencyError(
            f"a Rerun recording needs rerun-sdk, which the extra rerun brings: {install_command('rerun')}"
        ) from error
    with replaced_when_complete(output_filepath) as path:
        # the library waits for ever when it cannot write to a disk
        path.write_bytes(encode_recording(collect_elements(scene, map_api, form), progress))
