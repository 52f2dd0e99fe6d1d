"""Recordings of scenes: MCAP files for Foxglove, and Rerun recordings."""

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

    Log times are the times of the frames, ascending. Chunks are compressed with zstd and indexed. A message holds the
    complete content of its topic, so that seeking to any time shows the whole scene. The file is made in memory and
    appears complete or not at all.

    ========================  ==================================================================================
    topic                     content
    ========================  ==================================================================================
    ``/tf_static``            transform of the frame ``scene`` in the frame ``world`` of the dataset, once
    ``/tf``                   transform of the frame ``ego`` in the frame ``scene``
    ``/map``                  areas and boundaries of lanes, and crosswalks, once
    ``/lights``               lanes with a lit colour, whenever one changes
    ``/ego``                  box of the AV
    ``/ego/state``            its speed, world position and heading, and the number of agents, as JSON to plot
    ``/ego/trajectory``       past and future of the AV
    ``/agents``               boxes with heading, class colour and facts; agents that leave are deleted
    ``/agents/labels``        track and class above each box
    ``/agents/trajectories``  past (faint) and future of the agents
    ========================  ==================================================================================

    Metadata records: ``l5kit.scene`` and ``l5kit.classes`` (the name of each class by its column).

    Args:
        output_filepath: The file to write, such as ``scene.mcap``; an older one is replaced.
        scene: The scene; read with the same map, which its lights need.
        map_api: The map; None for no lanes, crosswalks and lights.
        form: Extent of the recording.
        progress: Called with the numbers of finished and of all frames.

    Raises:
        MissingDependencyError: foxglove-sdk is not installed.
        CorruptedDataError: The times of the frames are not ascending, or the map cannot be read.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    try:
        from l5kit.visualization.recording.mcap_messages import write_messages
    except ImportError as error:
        raise MissingDependencyError(
            f"an MCAP file needs foxglove-sdk, which is part of the extra mcap: {install_command('mcap')}"
        ) from error
    with replaced_when_complete(output_filepath) as path:
        content = io.BytesIO()  # the library only logs errors of writing to a disk
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

    The timelines are ``time``, the times of the frames, and ``frame``, their indices. Positions are in the frame of the
    scene, whose origin in the world is a property of the recording. No viewer is started and nothing is sent. The file
    is made in memory and appears complete or not at all.

    ==============================  =================================================================================
    entity                          content
    ==============================  =================================================================================
    ``/scene``                      names and colours of the classes, by their number
    ``/scene/map/lanes``            areas of lanes, static; likewise ``lane_boundaries`` and ``crosswalks``
    ``/scene/map/lights``           areas of lanes with a lit colour, whenever one changes
    ``/scene/ego``                  transform of the AV, with its box ``/scene/ego/box``
    ``/scene/ego_trajectory/past``  past of the AV; ``future``: its future
    ``/scene/agents``               boxes with class, label, track, probability, speed and membership in the mask
    ``/scene/agents/headings``      a line on the roof to the front
    ``/scene/agents/past``          past of the agents; ``future``: their future
    ``/state/speed_mps``            speed of the AV
    ==============================  =================================================================================

    Args:
        output_filepath: The file to write, such as ``scene.rrd``; an older one is replaced.
        scene: The scene; read with the same map, which its lights need.
        map_api: The map; None for no lanes, crosswalks and lights.
        form: Extent of the recording.
        progress: Called with the numbers of finished and of all frames.

    Raises:
        MissingDependencyError: rerun-sdk is not installed.
        UnsupportedValueError: The environment variable ``RERUN`` turns recordings off.
        CorruptedDataError: The times of the frames are not ascending, or the map cannot be read.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    try:
        from l5kit.visualization.recording.rerun_columns import encode_recording
    except ImportError as error:
        raise MissingDependencyError(
            f"a Rerun recording needs rerun-sdk, which is part of the extra rerun: {install_command('rerun')}"
        ) from error
    with replaced_when_complete(output_filepath) as path:
        # the library hangs when it cannot write to a disk
        path.write_bytes(encode_recording(collect_elements(scene, map_api, form), progress))
