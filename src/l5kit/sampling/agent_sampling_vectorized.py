"""Vector sample of the AV or of an agent: past and future, and polylines of its surroundings."""

from l5kit._types import Records, Sample
from l5kit.configs.parameters import VectorSamplingParams
from l5kit.kinematic.perturbation import Perturbation
from l5kit.sampling.agent_sampling import as_count, checked_step_time
from l5kit.sampling.samplers import VectorSampler
from l5kit.vectorization.vectorizer import Vectorizer


def generate_agent_sample_vectorized(
    state_index: int,
    frames: Records,
    agents: Records,
    tl_faces: Records | None,
    selected_track_id: int | None,
    history_num_frames_ego: int,
    history_num_frames_agents: int,
    future_num_frames: int,
    step_time: float,
    filter_agents_threshold: float,
    vectorizer: Vectorizer,
    perturbation: Perturbation | None = None,
    history_step_size: int = 1,
    future_step_size: int = 1,
) -> Sample:
    """Return the vector sample of the AV or of an agent in one frame.

    Args:
        state_index: The current frame, counted in ``frames``.
        frames: Frames of one scene.
        agents: All agents that the intervals of ``frames`` point to.
        tl_faces: All traffic light faces that they point to; may be empty, or None for none.
        selected_track_id: The agent of interest; None for the AV.
        history_num_frames_ego: Past steps of the AV or agent of interest that are kept.
        history_num_frames_agents: Past steps of other agents; all arrays have h steps, the larger of the two.
        future_num_frames: Future steps F.
        step_time: Seconds between two recorded frames.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.
        vectorizer: Vectorizes other agents and the map.
        perturbation: Moves the AV's frames, if all future frames exist.
        history_step_size: Recorded frames per past step.
        future_step_size: Recorded frames per future step.

    Returns:
        ``extent`` (3,) m; ``type``, a label, an int for the AV; ``agent_from_world``, ``world_from_agent``, float64
        (3, 3); ``target_positions`` (F, 2) m, ``target_yaws`` (F, 1) rad, ``target_extents`` (F, 2) m,
        ``history_positions`` (h + 1, 2), ``history_yaws`` (h + 1, 1), ``history_extents`` (h + 1, 2), float32, in the
        frame of the AV or agent of interest; ``target_availabilities`` (F,) and ``history_availabilities`` (h + 1,),
        bool; ``centroid`` (2,) m and ``yaw`` rad in the world; ``speed`` m/s, that of the next step (0 if it is
        missing), or of the last one if F is 0; and the keys of
        :meth:`l5kit.vectorization.vectorizer.Vectorizer.vectorize_windows`.

    Raises:
        TrackNotFoundError: The agent is not in the current frame or does not pass the label filter.
        IndexError: ``state_index`` is not a frame of the scene, or the vectorizer is for fewer frames.
        InvalidArgumentError: ``step_time`` is not positive, or a number of frames is negative.
    """
    params = VectorSamplingParams(
        history_num_frames_ego=as_count("history_num_frames_ego", history_num_frames_ego),
        history_num_frames_agents=as_count("history_num_frames_agents", history_num_frames_agents),
        future_num_frames=as_count("future_num_frames", future_num_frames),
        step_time_s=checked_step_time(step_time),
        history_step_size=history_step_size,
        future_step_size=future_step_size,
        filter_agents_threshold=filter_agents_threshold,
    )
    sampler = VectorSampler(params, vectorizer, perturbation)
    return sampler(state_index, frames, agents, tl_faces, selected_track_id)
