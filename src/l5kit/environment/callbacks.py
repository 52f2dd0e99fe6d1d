"""Evaluation callback: closed-loop metrics of a policy in training, logged by stable-baselines3."""

import math

from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from l5kit.cle.composite_metrics import CompositeMetricAggregator
from l5kit.cle.metric_set import L5MetricSet
from l5kit.cle.scene_type_agg import compute_cle_scene_type_aggregations, read_scene_types
from l5kit.cle.validators import ValidationCountingAggregator
from l5kit.environment.gym_metric_set import CLEMetricSet
from l5kit.errors import EvaluationPlanError, InvalidArgumentError

__all__ = ["L5KitEvalCallback"]

_DISPLACEMENT = "displacement_error_l2"
_COLLISIONS = ("collision_front", "collision_rear", "collision_side")


class L5KitEvalCallback(EvalCallback):
    """Callback that periodically drives scenes with the policy and logs closed-loop metrics.

    Args:
        eval_env: Environments made with ``return_info=True``; each takes a share of the scenes.
        eval_freq: Calls between two evaluations.
        n_eval_episodes: Number of scenes to drive; all if the environments have fewer.
        n_eval_envs: Number of environments.
        metric_set: Metrics; None for :class:`~l5kit.environment.gym_metric_set.CLEMetricSet`.
        enable_scene_type_aggregation: Whether failures are also counted by scene type.
        scene_id_to_type_path: CSV file without a header: scene id and type.
        prefix: Prefix of the names in the log.
        verbose: As in stable-baselines3.

    Attributes:
        metric_set: Metrics.

    Raises:
        EvaluationPlanError: The metric set lacks the displacement or a collision (a ``RuntimeError``).
        InvalidArgumentError: Types are to be counted, but their file is missing (an ``AssertionError``); or a number is
            below 1.
    """

    def __init__(
        self,
        eval_env: VecEnv,
        eval_freq: int = 10000,
        n_eval_episodes: int = 10,
        n_eval_envs: int = 4,
        metric_set: L5MetricSet | None = None,
        enable_scene_type_aggregation: bool = False,
        scene_id_to_type_path: str | None = None,
        prefix: str = "eval",
        verbose: int = 0,
    ) -> None:
        super().__init__(eval_env, n_eval_episodes=n_eval_episodes, eval_freq=eval_freq, verbose=verbose)
        for name, value in (
            ("eval_freq", eval_freq),
            ("n_eval_episodes", n_eval_episodes),
            ("n_eval_envs", n_eval_envs),
        ):
            if value < 1:
                raise InvalidArgumentError(f"{name} is {value}; it must be 1 or more")
        if n_eval_envs != self.eval_env.num_envs:
            raise InvalidArgumentError(f"n_eval_envs is {n_eval_envs}, but eval_env has {self.eval_env.num_envs}")
        self.n_eval_envs, self.prefix = n_eval_envs, prefix
        self.metric_set = CLEMetricSet() if metric_set is None else metric_set
        known = {metric.metric_name for metric in self.metric_set.evaluation_plan.metrics}
        lacking = [name for name in (_DISPLACEMENT, *_COLLISIONS) if name not in known]
        if lacking:
            raise EvaluationPlanError(
                f"metric_set lacks {', '.join(lacking)}; it has {', '.join(sorted(known)) or 'none'}"
            )
        if enable_scene_type_aggregation and scene_id_to_type_path is None:
            raise InvalidArgumentError("scene_id_to_type_path is None; pass the CSV file of scene types")
        self.enable_scene_type_aggregation = enable_scene_type_aggregation
        self.scene_id_to_type_path = scene_id_to_type_path

    def _init_callback(self) -> None:
        """Do nothing: training and evaluation environments may differ in kind, and no file is written."""

    def _on_step(self) -> bool:
        if self.eval_freq > 0 and self.n_calls % self.eval_freq == 0:
            self.evaluate_scenes()
            self._log()
            self.metric_set.reset()
        return True

    def evaluate_scenes(self) -> None:
        """Drive scenes with the policy, without noise, and pass the results to the metric set.

        Environment i starts at scene i times the share of each. The loop ends after enough different scenes.

        Raises:
            InvalidArgumentError: The environments do not return their outputs.
        """
        # number of different scenes that are wanted and available
        num_wanted = 1
        if not any(self.eval_env.get_attr("overfit")):
            num_wanted = min(self.n_eval_episodes, *map(int, self.eval_env.get_attr("max_scene_id")))
        share = math.ceil(num_wanted / self.n_eval_envs)
        for index in range(self.n_eval_envs):
            self.eval_env.env_method("set_reset_id", index * share, indices=[index])
        seen: set[int] = set()
        observations = self.eval_env.reset()
        while len(seen) < num_wanted:
            actions, _ = self.model.predict(observations, deterministic=True)  # type: ignore[arg-type]
            observations, _, dones, infos = self.eval_env.step(actions)
            for index in dones.nonzero()[0].tolist():
                if "sim_outs" not in infos[index]:
                    raise InvalidArgumentError(
                        "eval_env returns no outputs of episodes; make its environments with return_info=True"
                    )
                output = infos[index]["sim_outs"][0]
                # an environment that has driven its share continues into that of the next one
                if output.get_scene_id() not in seen and len(seen) < num_wanted:
                    seen.add(output.get_scene_id())
                    self.metric_set.evaluate([output])

    @staticmethod
    def compute_ade_fde(metric_set: L5MetricSet) -> tuple[float, float]:
        """Return the means over scenes of the average displacement from the second frame on, and of the final one.

        Both are 0 if no scene was evaluated.
        """
        results = metric_set.evaluator.metric_results().values()
        errors_m = [metrics[_DISPLACEMENT] for metrics in results]
        if not errors_m:
            return 0.0, 0.0
        means_m = [float(each[1:].mean()) for each in errors_m]
        last_m = [float(each[-1]) for each in errors_m]
        return sum(means_m) / len(means_m), sum(last_m) / len(last_m)

    @staticmethod
    def get_scene_types(scene_id_to_type_path: str) -> list[list[str]]:
        """Return the types of each scene, by scene id, from a CSV file without a header: scene id and type."""
        return read_scene_types(scene_id_to_type_path)

    def _log(self) -> None:
        """Log errors, counts of failed scenes and sums of composite metrics."""
        evaluator, logger = self.metric_set.evaluator, self.logger
        ade_m, fde_m = self.compute_ade_fde(self.metric_set)
        logger.record(f"{self.prefix}/ade", ade_m)
        logger.record(f"{self.prefix}/fde", fde_m)
        failed = ValidationCountingAggregator().aggregate(evaluator.validation_results())
        for name, count in failed.items():
            logger.record(f"{self.prefix}/{name}", count.item())
        collisions = sum(int(failed[name].item()) for name in _COLLISIONS if name in failed)
        logger.record(f"{self.prefix}/total_collision", collisions)
        for name, value in CompositeMetricAggregator().aggregate(evaluator.composite_metric_results()).items():
            logger.record(f"{self.prefix}/{name}", value.item())
        if self.enable_scene_type_aggregation and self.scene_id_to_type_path is not None:
            types = self.get_scene_types(self.scene_id_to_type_path)
            for name, number in compute_cle_scene_type_aggregations(self.metric_set, types, []).items():
                logger.record(name, number)
        logger.record("time/total timesteps", self.num_timesteps, exclude="tensorboard")
        logger.dump(self.num_timesteps)
