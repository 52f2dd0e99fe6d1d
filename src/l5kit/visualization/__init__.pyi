from .annotations import draw_box_labels as draw_box_labels, draw_box_outlines as draw_box_outlines
from .contact_sheet import contact_sheet as contact_sheet
from .gif import write_gif as write_gif
from .images import write_png as write_png
from .notebooks import describe as describe, play as play, show as show
from .recording.recording_files import write_mcap as write_mcap, write_rerun as write_rerun
from .recording.scene_elements import RecordingForm as RecordingForm
from .scene_content import read_scene_content as read_scene_content
from .scene_pictures import ScenePainter as ScenePainter
from .utils import (
    PREDICTED_POINTS_COLOR as PREDICTED_POINTS_COLOR,
    REFERENCE_TRAJ_COLOR as REFERENCE_TRAJ_COLOR,
    TARGET_POINTS_COLOR as TARGET_POINTS_COLOR,
    draw_reference_trajectory as draw_reference_trajectory,
    draw_trajectory as draw_trajectory,
)
from .video import write_video as write_video
from .viewer.exported_page import write_exported_page as write_exported_page
from .viewer.predictions import Predictions as Predictions
from .viewer.viewed_log import ViewedLog as ViewedLog
from .visualizer.common import TrajectoryVisualization as TrajectoryVisualization
from .visualizer.visualizer import visualize as visualize, write_scene_page as write_scene_page
from .visualizer.zarr_utils import (
    episode_out_to_visualizer_scene_gym_cle as episode_out_to_visualizer_scene_gym_cle,
    simulation_out_to_visualizer_scene as simulation_out_to_visualizer_scene,
    zarr_to_visualizer_scene as zarr_to_visualizer_scene,
)
