"""Vector planning model trained in closed loop: Scheel et al., "Urban Driver" (2021)."""

from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import MotionFit, current_velocities, displacements_of_motion, fit_motion
from l5kit.planning.losses import mean_over_steps, missing_criterion
from l5kit.planning.vectorized.common import build_matrix, compose, transform_points, transform_xy
from l5kit.planning.vectorized.elements import SceneElements, collect_elements
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.planning.vectorized.route_elements import RouteElements, positions_on_route

_MAX_YAW_STEP_RAD = 0.3
"""Largest turn in one step when the predicted yaw is limited."""

_STEP_CHANGE = (0.04, 0.01, 0.01)
"""Units of the learned change of a step from the last one: metres ahead, metres to the left, radians."""


class _EgoState(NamedTuple):
    """State of the agent of interest in an unroll: from the frame of the data (t0) to that of the current step (ts)."""

    t0_from_ts: torch.Tensor  # (B, 3, 3)
    ts_from_t0: torch.Tensor  # (B, 3, 3)
    yaw_t0_from_ts: torch.Tensor  # (B, 1), radians
    yaw_ts_from_t0: torch.Tensor  # (B, 1), radians
    polyline: torch.Tensor  # (B, Hn, 3): its last points in t0, newest first
    available: torch.Tensor  # bool, (B, Hn)


class _Unroll(NamedTuple):
    """Results of an unroll for each of F steps."""

    outputs: torch.Tensor  # (B, F, 3): scaled x, y and yaw in the frame of the step
    matrices: torch.Tensor  # (B, F, 3, 3): frame of the step from t0
    yaws: torch.Tensor  # (B, F, 1): offset from yaws in t0 to yaws in the frame of the step
    positions: torch.Tensor  # (B, F, 2): metres, t0
    headings: torch.Tensor  # (B, F, 1): radians, t0
    attention: torch.Tensor  # (B, F, N)


class VectorizedUnrollModel(VectorizedModel):
    """Vector model that predicts one step of the agent of interest, takes it, observes again, and so on.

    Its past follows its own steps, other agents follow the log, and positions on the route are those of each step. The
    loss compares each step with the log in the current frame of the agent, and is backpropagated through all steps,
    unless the gradient is cut.

    Args:
        history_num_frames_ego: Past frames of the agent of interest that it sees.
        history_num_frames_agents: Past frames of the other agents that it sees.
        num_targets: Ignored, as in L5Kit 1.5: the number of steps follows from the targets of a batch.
        weights_scaling: Weights of the errors of x, y and yaw in the loss.
        criterion: Element-wise loss, such as ``torch.nn.L1Loss(reduction="none")``; None for a model that only
            predicts.
        global_head_dropout: Probability with which attention to an element is dropped in training.
        disable_other_agents: Ignore other agents.
        disable_map: Ignore lanes, crosswalks and boundaries.
        disable_lane_boundaries: Ignore lane boundaries.
        detach_unroll: Cut the gradient after each step.
        warmup_num_frames: First steps that are taken without gradient and do not count in the loss.
        discount_factor: Weight of the loss of a step after the warm-up, relative to the step before.
        limit_predicted_yaw: Turn at most 0.3 rad in a step.
        use_agent_labels: Embed cars, cyclists and pedestrians separately, for new trainings; L5Kit 1.5 does not.
        agents_in_own_frame: Also embed the past of other agents in their own frames, for new trainings; L5Kit 1.5 does
            not.
        motion_step_time_s: Duration of past steps, to also embed speeds, accelerations and turn rates of agents, for
            new trainings; None to disable it, as in L5Kit 1.5.
        use_route: Also embed the route, the goal and the positions of agents on the route, for new trainings; L5Kit 1.5
            does not. Samples need the keys of ``model_params.route``.
        average_available_only: Average the loss over the steps that count, instead of over all as L5Kit 1.5 does.
        dim_features: Features of an element; weights of L5Kit 1.5 have 256.
        velocity_residual: Predict the difference of a step and its turn to the last one, for new trainings: a new
            network then continues at about constant speed and turn rate. It needs a past frame of the agent of
            interest, and past steps as long as future ones.
        motion_residual: Predict the difference of a step and its turn to constant turn rate and velocity (``ctrv``) or
            acceleration (``ctra``), fitted to the initial past, for new trainings: a new network then drives like that
            baseline. Changes are kept: later steps differ from the last one as those of the baseline do.
        past_step_time_s: Duration of past steps in seconds, for the fit and for positions along the route.
        step_time_s: Duration of future steps in seconds.
        num_unroll_steps: Number of steps in eval mode, for any batch; missing futures of other agents are not seen.
            None for the number of targets of the batch.

    Raises:
        InvalidArgumentError: A count is negative, a residual has no past, both residuals are requested, or
            ``weights_scaling`` does not fit three values a step.
    """

    def __init__(
        self,
        history_num_frames_ego: int,
        history_num_frames_agents: int,
        num_targets: int,  # noqa: ARG002 - a parameter of L5Kit 1.x
        weights_scaling: list[float],
        criterion: nn.Module | None,
        global_head_dropout: float,
        disable_other_agents: bool,
        disable_map: bool,
        disable_lane_boundaries: bool,
        detach_unroll: bool,
        warmup_num_frames: int,
        discount_factor: float,
        limit_predicted_yaw: bool = True,
        *,
        use_agent_labels: bool = False,
        agents_in_own_frame: bool = False,
        motion_step_time_s: float | None = None,
        use_route: bool = False,
        average_available_only: bool = False,
        dim_features: int = 256,
        velocity_residual: bool = False,
        motion_residual: Literal["ctrv", "ctra"] | None = None,
        past_step_time_s: float = 0.1,
        step_time_s: float = 0.1,
        num_unroll_steps: int | None = None,
    ) -> None:
        if warmup_num_frames < 0:
            raise InvalidArgumentError(f"warmup_num_frames is {warmup_num_frames}; give 0 or more")
        if motion_residual not in (None, "ctrv", "ctra"):
            raise InvalidArgumentError(f"motion_residual is {motion_residual!r}; give 'ctrv', 'ctra' or None")
        if velocity_residual and motion_residual is not None:
            raise InvalidArgumentError(
                f"velocity_residual is set and motion_residual is {motion_residual!r}; choose one of them"
            )
        if (velocity_residual or motion_residual is not None or use_route) and history_num_frames_ego < 1:
            raise InvalidArgumentError(
                f"history_num_frames_ego is {history_num_frames_ego}; give at least 1 with a residual or a route,"
                " which start from the past"
            )
        if not (past_step_time_s > 0 and step_time_s > 0):
            raise InvalidArgumentError(
                f"past_step_time_s is {past_step_time_s!r} and step_time_s {step_time_s!r}; give seconds above 0"
            )
        if num_unroll_steps is not None and num_unroll_steps < 1:
            raise InvalidArgumentError(f"num_unroll_steps is {num_unroll_steps}; give at least 1, or None")
        super().__init__(
            history_num_frames_ego,
            history_num_frames_agents,
            len(weights_scaling),
            weights_scaling,
            criterion,
            global_head_dropout,
            disable_other_agents,
            disable_map,
            disable_lane_boundaries,
            use_agent_labels=use_agent_labels,
            agents_in_own_frame=agents_in_own_frame,
            motion_step_time_s=motion_step_time_s,
            use_route=use_route,
            average_available_only=average_available_only,
            dim_features=dim_features,
        )
        self.detach_unroll = detach_unroll
        self.warmup_num_frames = warmup_num_frames
        self.discount_factor = discount_factor
        self.limit_predicted_yaw = limit_predicted_yaw
        self.is_residual = velocity_residual or motion_residual is not None
        self.fits_motion = motion_residual is not None
        self.fits_acceleration = motion_residual == "ctra"
        self.past_step_time_s = float(past_step_time_s)
        self.step_time_s = float(step_time_s)
        self.step_change = list(_STEP_CHANGE)
        self.num_unroll_steps = num_unroll_steps
        self.max_yaw_step_rad = _MAX_YAW_STEP_RAD

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, the driven trajectory in eval mode; the batch is not changed.

        Args:
            data_batch: As for :meth:`VectorizedModel.forward`, and ``all_other_agents_future_positions`` (B, A, F, 2),
                ``all_other_agents_future_yaws`` (B, A, F, 1) and ``all_other_agents_future_availability`` (B, A, F) in
                the agent frame. The targets are needed in eval mode too, for their number F, unless
                ``num_unroll_steps`` is set; then the futures may be missing as well.

        Returns:
            In train mode ``loss``, a scalar. In eval mode ``positions`` (B, F, 2) and ``yaws`` (B, F, 1), in the agent
            frame at the start, and ``attention_weights`` (B, F, N) over the elements.

        Raises:
            NotImplementedError: In train mode without a criterion.
            InvalidArgumentError: In eval mode, if the number of steps is unknown.
        """
        # number of steps
        num_steps = self.num_unroll_steps
        if num_steps is None or self.training:
            if "target_availabilities" not in data_batch:
                raise InvalidArgumentError(
                    "the batch has no target_availabilities, which give the number of steps; make the model with"
                    " num_unroll_steps=..., or use samples with targets"
                )
            num_steps = data_batch["target_availabilities"].shape[1]
        unroll = self._unroll(data_batch, num_steps)
        if not self.training:
            return {"positions": unroll.positions, "yaws": unroll.headings, "attention_weights": unroll.attention}
        if self.criterion is None:
            raise NotImplementedError(missing_criterion("VectorizedUnrollModel"))
        xy = transform_xy(data_batch["target_positions"], unroll.matrices) / self.xy_scale[0]
        targets = torch.cat((xy, data_batch["target_yaws"] + unroll.yaws), dim=-1)
        available = data_batch["target_availabilities"]
        # no loss in the warm-up, and a discount from the first step that counts
        step = torch.arange(available.shape[1], device=available.device) - self.warmup_num_frames
        counted = (available > 0) & (step >= 0)
        discount = torch.pow(self.discount_factor, step.clamp(min=0).to(targets.dtype))
        weights = (available * (step >= 0) * discount).unsqueeze(-1) * self.weights_scaling
        errors = self.criterion(unroll.outputs, targets) * weights
        return {"loss": mean_over_steps(errors, counted, self.average_available_only)}

    def update_transformation_matrices(
        self,
        pred_xy_step_unnorm: torch.Tensor,
        pred_yaw_step: torch.Tensor,
        t0_from_ts: torch.Tensor,
        ts_from_t0: torch.Tensor,
        yaw_t0_from_ts: torch.Tensor,
        yaw_ts_from_t0: torch.Tensor,
        zero: torch.Tensor,  # noqa: ARG002 - a parameter of L5Kit 1.x
        one: torch.Tensor,  # noqa: ARG002
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the pose of the agent of interest after one more step.

        Args:
            pred_xy_step_unnorm: The step in metres, in the current frame, shape (B, 2).
            pred_yaw_step: Its turn in radians, shape (B, 1).
            t0_from_ts: From the current frame to that of the data, shape (B, 3, 3).
            ts_from_t0: From the frame of the data to the current one, shape (B, 3, 3).
            yaw_t0_from_ts: Heading of the current frame in that of the data in radians, shape (B, 1).
            yaw_ts_from_t0: The inverse, shape (B, 1).
            zero: Unused; in L5Kit 1.5, zeros of shape (B, 1) for building matrices.
            one: Unused; in L5Kit 1.5, ones of the same shape.

        Returns:
            The four transforms, for the next frame instead of the current one.
        """
        ts_from_next, next_from_ts = build_matrix(pred_xy_step_unnorm, pred_yaw_step[:, 0])
        return (
            compose(t0_from_ts, ts_from_next),
            compose(next_from_ts, ts_from_t0),
            yaw_t0_from_ts + pred_yaw_step,
            yaw_ts_from_t0 - pred_yaw_step,
        )

    def _unroll(self, data_batch: dict[str, torch.Tensor], num_steps: int) -> _Unroll:
        """Unroll the model for a number of steps."""
        elements = collect_elements(data_batch, not self.disable_lane_boundaries)
        timeline, timeline_available = _timeline_of_others(data_batch, elements, num_steps)
        types = self.type_embedding(data_batch).transpose(0, 1)
        num_boundaries = data_batch["lanes"].shape[1]
        route = self.route_of(data_batch)
        # the frame of the data is that of the agent of interest at the start
        polyline = elements.agents[:, 0]
        identity = torch.eye(3, dtype=polyline.dtype, device=polyline.device).expand(polyline.shape[0], 3, 3)
        no_turn = torch.zeros_like(polyline[:, 0, :1])
        state = _EgoState(identity, identity, no_turn, no_turn, polyline, elements.agents_available[:, 0])
        fitted = self._fitted_steps(state, num_steps)
        outputs: list[torch.Tensor] = []
        matrices: list[torch.Tensor] = []
        yaws: list[torch.Tensor] = []
        positions: list[torch.Tensor] = []
        headings: list[torch.Tensor] = []
        attentions: list[torch.Tensor] = []
        num_points = elements.agents.shape[2]
        for step in range(num_steps):
            window = timeline[:, :, step : step + num_points].flip(2)
            window_available = timeline_available[:, :, step : step + num_points].flip(2)
            output, attention = self._look(elements, state, window, window_available, types, num_boundaries, route)
            if self.is_residual:
                # The last step, from the last pose to the origin, plus the growth of the baseline and the output. The
                # growth of the first fitted step is the whole step.
                growth = fitted[:, step] - fitted[:, step - 1] if step > 0 else fitted[:, 0]
                last_pose = torch.zeros_like(growth)
                if step > 0 or not self.fits_motion:
                    pose, known = state.polyline[:, 1:2].unsqueeze(1), state.available[:, 1:2].unsqueeze(1)
                    last_pose = transform_points(pose, state.ts_from_t0, known, state.yaw_ts_from_t0)[:, 0, 0]
                _, last_from_now = build_matrix(last_pose[:, :2], last_pose[:, 2])
                last_step = torch.cat((last_from_now[:, :2, 2], -last_pose[:, 2:3]), dim=1) + growth
                changed = last_step + output * torch.tensor(self.step_change, dtype=output.dtype, device=output.device)
                output = torch.cat((changed[:, :2] / self.xy_scale[0], changed[:, 2:3]), dim=1)
            if self.limit_predicted_yaw:
                turn, most = output[:, 2:3], self.max_yaw_step_rad
                turn = turn.clamp(-most, most) if self.is_residual else most * torch.tanh(turn)
                output = torch.cat((output[:, :2], turn), dim=1)
            matrices.append(state.ts_from_t0)
            yaws.append(state.yaw_ts_from_t0)
            state = self._drive(state, output[:, :2] * self.xy_scale[0], output[:, 2:3])
            outputs.append(output)
            positions.append(state.polyline[:, 0, :2])
            headings.append(state.polyline[:, 0, 2:3])
            attentions.append(attention)
            if self.detach_unroll or step < self.warmup_num_frames:
                state = _detached(state)
        return _Unroll(
            torch.stack(outputs, dim=1),
            torch.stack(matrices, dim=1),
            torch.stack(yaws, dim=1),
            torch.stack(positions, dim=1),
            torch.stack(headings, dim=1),
            torch.cat(attentions, dim=1),
        )

    def _look(
        self,
        elements: SceneElements,
        state: _EgoState,
        others: torch.Tensor,
        others_available: torch.Tensor,
        types: torch.Tensor,
        num_boundaries: int,
        route: RouteElements | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the next step, scaled and in the frame of the current one, (B, 3), and the attention (B, 1, N)."""
        agents = torch.cat((state.polyline.unsqueeze(1), others), dim=1)
        available = torch.cat(
            (
                _latest(state.available, self.history_num_frames_ego).unsqueeze(1),
                _latest(others_available, self.history_num_frames_agents),
            ),
            dim=1,
        )
        if route is not None:
            # Agents and edges are still in the frame of the data, in which positions along the route are the same. Only
            # the polylines of the route are transformed to the current one.
            velocities_mps = current_velocities(agents[..., :2], available, self.past_step_time_s)
            positions, has_position = positions_on_route(route, agents[:, :, 0], velocities_mps, available[:, :, 0])
            polylines = transform_points(route.polylines, state.ts_from_t0, route.available)
            route = RouteElements(
                polylines, route.available, route.features, route.edges_m, route.sizes_m, positions, has_position
            )
        agents = transform_points(agents, state.ts_from_t0, available, state.yaw_ts_from_t0)
        static = transform_points(elements.static, state.ts_from_t0, elements.static_available)
        seen = SceneElements(agents, available, static, elements.static_available)
        outputs, attention = self.call_with(seen, types, num_boundaries, route)
        output = outputs[:, 0].to(self.xy_scale.dtype)  # compose poses in full precision, also under autocast
        return output, attention

    def _fitted_steps(self, state: _EgoState, num_steps: int) -> torch.Tensor:
        """Return the steps and turns of the baseline, each in the frame of its start in metres and radians, (B, F, 3).

        They are 0 if no baseline is fitted.
        """
        past = state.polyline
        if not self.fits_motion:
            return torch.zeros_like(past[:, :1]).expand(-1, num_steps, -1)
        known = _latest(state.available, self.history_num_frames_ego)
        motion = fit_motion(past[..., :2], past[..., 2], known, self.past_step_time_s, self.fits_acceleration)
        # the length of each step is that of straight driving; the chord of an arc points half the turn away from its
        # start
        straight = MotionFit(
            motion.speed_mps,
            motion.acceleration_mps2,
            torch.zeros_like(motion.yaw_rad),
            torch.zeros_like(motion.yaw_rate_rad_s),
        )
        distances_m = displacements_of_motion(straight, num_steps, self.step_time_s)[..., 0]
        lengths_m = torch.diff(distances_m, dim=-1, prepend=torch.zeros_like(distances_m[:, :1]))
        turns = (motion.yaw_rate_rad_s * self.step_time_s).unsqueeze(-1).expand_as(lengths_m)
        return torch.stack((lengths_m * torch.cos(turns / 2), lengths_m * torch.sin(turns / 2), turns), dim=-1)

    def _drive(self, state: _EgoState, xy_m: torch.Tensor, yaw_rad: torch.Tensor) -> _EgoState:
        """Return the state after a step (B, 2) and a turn (B, 1) in the current frame."""
        # the past is kept in the frame of the data, so a step only adds one point
        position = transform_xy(xy_m, state.t0_from_ts)
        point = torch.cat((position, yaw_rad + state.yaw_t0_from_ts), dim=-1).unsqueeze(1)
        unused = torch.zeros_like(yaw_rad)
        t0_from_ts, ts_from_t0, yaw_t0_from_ts, yaw_ts_from_t0 = self.update_transformation_matrices(
            xy_m,
            yaw_rad,
            state.t0_from_ts,
            state.ts_from_t0,
            state.yaw_t0_from_ts,
            state.yaw_ts_from_t0,
            unused,
            unused,
        )
        return _EgoState(
            t0_from_ts,
            ts_from_t0,
            yaw_t0_from_ts,
            yaw_ts_from_t0,
            torch.cat((point, state.polyline[:, :-1]), dim=1),
            torch.cat((torch.ones_like(state.available[:, :1]), state.available[:, :-1]), dim=1),
        )


def _detached(state: _EgoState) -> _EgoState:
    """Return a state without gradients; TorchScript needs the fields by name."""
    return _EgoState(
        state.t0_from_ts.detach(),
        state.ts_from_t0.detach(),
        state.yaw_t0_from_ts.detach(),
        state.yaw_ts_from_t0.detach(),
        state.polyline.detach(),
        state.available,
    )


def _latest(available: torch.Tensor, num_past: int) -> torch.Tensor:
    """Return availabilities (..., Hn), newest first, without those more than ``num_past`` frames back."""
    return available & (torch.arange(available.shape[-1], device=available.device) <= num_past)


def _timeline_of_others(
    data_batch: dict[str, torch.Tensor], elements: SceneElements, num_steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log of the other agents, oldest first: their past, and their future as far as the steps need it.

    Returns:
        Polylines (B, A, Hn + num_steps, 3), and whether each point is available.
    """
    past, past_available = elements.agents[:, 1:].flip(2), elements.agents_available[:, 1:].flip(2)
    num_future = num_steps
    if "all_other_agents_future_availability" in data_batch:
        positions = data_batch["all_other_agents_future_positions"][:, :, :num_steps]
        yaws = data_batch["all_other_agents_future_yaws"][:, :, :num_steps]
        available = data_batch["all_other_agents_future_availability"][:, :, :num_steps].to(torch.bool)
        past = torch.cat((past, torch.cat((positions, yaws), dim=-1)), dim=2)
        past_available = torch.cat((past_available, available), dim=2)
        num_future = num_steps - available.shape[2]
    return F.pad(past, [0, 0, 0, num_future]), F.pad(past_available, [0, num_future])
