"""Checkpoint writer of a training: its weights, its state, and its best weights, safe against any interruption.

Files of a step are written in this order: weights of the step, state before its evaluation, best weights, state after
the evaluation. Each is written atomically. Wherever a process ends, resuming from the stored state repeats the same
steps and evaluations, and the best weights contain their score, so that worse ones never replace them.
"""

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from l5kit.planning.checkpoint import Checkpoint, read_checkpoint, save_checkpoint
from l5kit.planning.torch_files import CheckpointError
from l5kit.training.batches import EvaluationBatches
from l5kit.training.best import BestScore, TopWeights, evaluation_digest
from l5kit.training.folder import training_digest
from l5kit.training.lightning_module import TrainingModule
from l5kit.training.lightning_parts import TrainerFn, pl
from l5kit.training.progress import TrainingClock
from l5kit.training.setup import TrainingSetup
from l5kit.training.sharding import is_sharded
from l5kit.training.state_file import LAST_CHECKPOINT, LightningState, StateFiles
from l5kit.workflows.driving_scores import DRIVING_SCORE
from l5kit.workflows.trajectories import score_name

_EVALUATION = "evaluation"
_EARLY_STOPPING = "EarlyStopping"
"""Lightning callback that counted evaluations in the states of earlier versions."""


@dataclass(frozen=True)
class _BestRule:
    """Rule for the best weights: the smallest ADE at the last horizon, or the largest score of driving.

    Attributes:
        score: Name of the score.
        patience: Evaluations without improvement after which a training ends; None for no limit.
        digest: Digest of the evaluation; scores with the same digest are comparable.
        batches: Batches of an evaluation, for weights without a comparable score.
    """

    score: str
    patience: int | None
    digest: str
    batches: EvaluationBatches

    @classmethod
    def of(cls, setup: TrainingSetup) -> "_BestRule | None":
        """Return the rule of a training; None if it has no evaluations."""
        if setup.evaluation is None:
            return None
        params = setup.config.params
        if params.run.best_by == "closed_loop":
            score, section = DRIVING_SCORE, "val_driving"
        else:
            score, section = score_name("val", "ade_m", params.horizons_s[-1]), "val_data_loader"
        digest = evaluation_digest(setup.config.mapping, score=score, section=section)
        return cls(score, params.run.early_stopping_patience, digest, setup.evaluation)

    @property
    def is_of_driving(self) -> bool:
        """Whether the score is that of driving, which is better if larger."""
        return self.score == DRIVING_SCORE

    def after(self, before: BestScore, score: float, step: int) -> BestScore:
        """Return the best score after one more."""
        return before.after(score, step, is_largest_best=self.is_of_driving)

    def facts_of(self, best: BestScore) -> dict[str, object]:
        """Return the facts about a score that are stored with its weights."""
        return {"score": best.score, "step": best.step, "score_name": self.score, _EVALUATION: self.digest}


class CheckpointWriter(pl.Callback):
    """Callback that writes weights and state of a training at intervals, and the weights with the best score.

    It also ends a training that no longer improves, and runs an evaluation that was missed before a resume.

    Args:
        setup: The training.
        folder: Folder of the training.
        facts: Facts of the training that are stored with all weights, such as its data.
        resumed: Whether the training is resumed.
        clock: Clock of the training.
        tell: Function called with each human-readable line of progress.

    Attributes:
        best: Score of the best weights in the folder.
        best_by: Name of this score; None without evaluations.
        evaluated_step: Step of the last evaluation; None before the first.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        folder: Path,
        *,
        facts: Mapping[str, object],
        resumed: bool = False,
        clock: TrainingClock | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.best = BestScore()
        self.evaluated_step: int | None = None
        self._folder = folder
        self._name = setup.config.params.run.output_name
        self._module = setup.module
        self._every = setup.schedule.checkpoint_every
        self._eval_every = setup.schedule.eval_every
        self._config = setup.config.mapping
        self._facts = facts
        self._rule = _BestRule.of(setup)
        self.best_by = None if self._rule is None else self._rule.score
        is_of_driving = self._rule is not None and self._rule.is_of_driving
        top_k = setup.config.params.scaling.save_top_k
        self._top = TopWeights(folder, self._name, top_k, is_largest_best=is_of_driving)
        self._resumed = resumed
        self._clock = clock or TrainingClock()
        self._tell = tell
        self._course = BestScore()
        """Best score up to the current step; the file of the best weights may be of a later step."""
        self._scores: dict[str, float] = {}
        self._digest: str | None = None
        self._loops: LightningState = {}
        self._loops_step: int | None = None
        self._is_due = False
        self._is_warned = False
        self._is_restored = False

    @property
    def best_weights(self) -> Path:
        """File of the best weights."""
        return self._folder / f"{self._name}_best.safetensors"

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the best weights of a resumed training, and stop it if its patience was exhausted."""
        rule = self._rule
        if not self._resumed or not isinstance(pl_module, TrainingModule) or rule is None:
            return
        # strategies with sharded weights restore states only after this, but their content is needed here
        if trainer.strategy.restore_checkpoint_after_setup and (self._folder / LAST_CHECKPOINT).is_file():
            state = StateFiles().load_checkpoint(self._folder / LAST_CHECKPOINT)
            self.on_load_checkpoint(self._module.trainer, self._module, copy.deepcopy(state))
            self.load_state_dict(state["callbacks"].get(type(self).__name__, {}))
            self._is_restored = True
        self._take_up_best(pl_module, rule)

        # Best weights in their own files are read by the main process, and all processes act on the result, as all are
        # needed to evaluate files of other evaluations again.
        stored = self._top.stored(_EVALUATION) if trainer.is_global_zero else ()
        stored = trainer.strategy.broadcast(stored)
        comparable = [file for file in stored if file.digest == rule.digest]
        self._top.keep(*comparable, is_main=trainer.is_global_zero)
        for file in stored:
            if file.digest != rule.digest:
                if file.step not in {other.step for other in comparable}:
                    again = read_checkpoint(self._folder / file.name)
                    self._judge(again, pl_module, rule, lambda best: self._save_top(pl_module, best, rule))
                self._top.remove(file, is_main=trainer.is_global_zero)
        if self.evaluated_step == self._loops_step:  # the step of the trainer is only restored later
            pl_module.scores = dict(self._scores)
            self._stop_if_out_of_patience(trainer, self._loops_step)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Run the evaluation that was pending when the process ended."""
        step = trainer.global_step
        if self._rule is not None and step > 0 and step % self._eval_every == 0 and self.evaluated_step != step:
            # run Lightning's evaluation loop before the first step, as it would run after a step
            loop = trainer.fit_loop.epoch_loop.val_loop
            loop.restarting = False
            trainer.validating = True
            loop.run()
            trainer.training = True

    def on_train_batch_start(self, trainer: pl.Trainer, *_: object, **__: object) -> None:
        """Write the pending state of the previous step, whose curves are complete now."""
        self._write_due(trainer)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,  # noqa: ARG002
        batch: object,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Write the weights at each interval, and remember the positions of Lightning's loops."""
        step = trainer.global_step
        if self._module.ends_step(batch_idx) and step % self._every == 0:
            self._save_weights(trainer, pl_module, f"{self._name}_{step}_steps", {"step": step})
            self._loops, self._loops_step = copy.deepcopy(trainer.fit_loop.state_dict()), step
            self._is_due = True

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Write the pending state before the evaluation, which can take long."""
        self._write_due(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the weights if they are the best so far, and the state with the score."""
        if trainer.sanity_checking or not isinstance(pl_module, TrainingModule) or self._rule is None:
            return
        step, value = trainer.global_step, pl_module.scores.get(self._rule.score, math.nan)
        # without this score in evaluations, no weights can be the best
        if self._rule.score not in pl_module.scores and not self._is_warned:
            self._is_warned = True
            why = "the AV does not move in any val_driving scene"
            if not self._rule.is_of_driving:
                why = "no sample that val_data_loader takes has a future that is long enough"
            warnings.warn(
                f"no evaluation has {self._rule.score}, which defines the best weights: {why}; name another log or "
                "other scenes there, or leave it out",
                RuntimeWarning,
                stacklevel=1,
            )
        self.evaluated_step, self._scores, self._digest = step, dict(pl_module.scores), self._rule.digest
        # The course counts evaluations since its own best. The file may hold later and better weights, if the training
        # was resumed from an earlier step; only better ones replace it.
        self._course = self._rule.after(self._course, value, step)
        if self._rule.after(self.best, value, step).num_worse == 0:
            self._save_best(trainer, pl_module, BestScore(value, step), self._rule)
        self._save_top(pl_module, BestScore(value, step), self._rule)
        self._stop_if_out_of_patience(trainer, step)
        # write a state only for the step whose loop positions were noted with the weights of the checkpoint
        if self._loops_step != step:
            return
        if trainer.state.fn == TrainerFn.FITTING:
            self._save_state(trainer)
        elif trainer.is_global_zero:  # evaluation after the training, when Lightning no longer has its state
            files, path = StateFiles(), self._folder / LAST_CHECKPOINT
            state = files.load_checkpoint(path)
            callbacks = {**state["callbacks"], type(self).__name__: self.state_dict()}
            files.save_checkpoint({**state, "callbacks": callbacks}, path)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Write the state of the last step."""
        self._write_due(trainer)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Write a pending state; with several processes that could hang, as they may not all get here."""
        if trainer.world_size == 1:
            self._write_due(trainer)

    def on_save_checkpoint(
        self,
        trainer: pl.Trainer,  # noqa: ARG002
        pl_module: pl.LightningModule,  # noqa: ARG002
        checkpoint: LightningState,
    ) -> None:
        """Store Lightning's loops as they were at the end of the step, as its evaluation is tracked here."""
        if self._loops_step == checkpoint["global_step"]:
            checkpoint["loops"]["fit_loop"] = self._loops

    def on_load_checkpoint(
        self,
        trainer: pl.Trainer,  # noqa: ARG002
        pl_module: pl.LightningModule,  # noqa: ARG002
        checkpoint: LightningState,
    ) -> None:
        """Remember the loops, and convert counters in states of earlier versions."""
        if self._is_restored:
            return
        self._loops, self._loops_step = copy.deepcopy(checkpoint["loops"]["fit_loop"]), checkpoint["global_step"]
        for key in [key for key in checkpoint["callbacks"] if key.startswith(_EARLY_STOPPING)]:
            counted = checkpoint["callbacks"].pop(key)
            self._course = BestScore(float(counted["best_score"]), None, int(counted["wait_count"]))

    def state_dict(self) -> LightningState:
        """Return the state of this callback: the best score and the last evaluation, among others."""
        return {
            "best": self._course.as_dict(),
            "scores": self._scores,
            "evaluated_step": self.evaluated_step,
            _EVALUATION: self._digest,
            "minutes": self._clock.minutes,
            "training": training_digest(self._config),
            "data": {name: record for name, record in self._facts.items() if name != "l5kit"},
        }

    def load_state_dict(self, state_dict: LightningState) -> None:
        """Restore the state of this callback."""
        if self._is_restored:
            return
        if isinstance(state_dict.get("best"), dict):
            self._course = BestScore.of(state_dict["best"]) or BestScore()
        self._scores = dict(state_dict.get("scores", {}))
        self.evaluated_step = state_dict.get("evaluated_step")
        self._digest = state_dict.get(_EVALUATION)

    def save_final_weights(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> Path:
        """Write the weights at the end of a training, and return their file."""
        self._save_weights(trainer, pl_module, self._name, {"step": trainer.global_step})
        return self._folder / f"{self._name}.safetensors"

    def _take_up_best(self, module: TrainingModule, rule: _BestRule) -> None:
        """Find the score of the best weights in the folder; weights without a comparable score are evaluated again."""
        stored = None
        if self.best_weights.is_file():
            try:
                stored = read_checkpoint(self.best_weights)
            except CheckpointError as error:
                warnings.warn(f"{error}; the next evaluation writes new best weights", UserWarning, stacklevel=1)
        elif self._course.step is not None:
            warnings.warn(
                f"the best weights, {self.best_weights}, are gone; the next evaluation writes new ones",
                UserWarning,
                stacklevel=1,
            )
        is_comparable = stored is not None and stored.facts.get(_EVALUATION) == rule.digest
        noted = BestScore.of(stored.facts) if stored is not None and is_comparable else None
        if noted is not None:
            self.best = noted
        elif stored is not None:
            if module.trainer.is_global_zero:
                self._tell(f"evaluating {stored.path.name} again, as its score is not known")
            self._judge(stored, module, rule, lambda best: self._save_best(module.trainer, module, best, rule))
        if self._digest != rule.digest:  # other or no scores, or a state of an earlier version
            num_worse = self._course.num_worse if self._digest is None else 0
            is_past = (self.best.step or 0) <= (self._loops_step or 0)
            self._course = BestScore(self.best.score, self.best.step, num_worse) if is_past else BestScore()
            self.evaluated_step = None

    def _judge(
        self, stored: Checkpoint, module: TrainingModule, rule: _BestRule, save: Callable[[BestScore], None]
    ) -> None:
        """Evaluate weights, and save them with their score if it is finite."""
        # keep a copy of the current weights, and restore them afterwards
        current = {name: value.detach().clone() for name, value in module.model.state_dict().items()}
        if is_sharded(module.model):
            from torch.distributed.checkpoint import state_dict

            values: dict[str, Any] = dict(stored.state_dict)
            whole = state_dict.StateDictOptions(full_state_dict=True)
            state_dict.set_model_state_dict(module.model, values, options=whole)
        else:
            stored.load_into(module.model)
        step = stored.facts.get("step")
        score = module.scores_over(rule.batches).get(rule.score, math.nan)
        if math.isfinite(score):
            save(BestScore(score, step if isinstance(step, int) else None))
        module.model.load_state_dict(current)

    def _stop_if_out_of_patience(self, trainer: pl.Trainer, step: int | None) -> None:
        """Stop the training after a step if there was no improvement; must be called in all processes."""
        rule = self._rule
        if rule is None or rule.patience is None or trainer.should_stop or self._course.num_worse < rule.patience:
            return
        trainer.should_stop = True
        if trainer.is_global_zero:
            self._tell(
                f"step {step or 0:,}: stopping, as {self._course.num_worse} evaluations were not better than the best, "
                f"{rule.score} {self._course.score:.3f}"
            )

    def _write_due(self, trainer: pl.Trainer) -> None:
        if self._is_due:
            self._save_state(trainer)

    def _save_state(self, trainer: pl.Trainer) -> None:
        """Write the state for resuming the training; must be called in all processes."""
        self._is_due = False
        trainer.save_checkpoint(self._folder / LAST_CHECKPOINT)

    def _save_best(self, trainer: pl.Trainer, module: TrainingModule, best: BestScore, rule: _BestRule) -> None:
        self.best = best
        self._save_weights(trainer, module, self.best_weights.stem, rule.facts_of(best))

    def _save_top(self, module: TrainingModule, best: BestScore, rule: _BestRule) -> None:
        """Write weights if they are among the best, and remove the worst of these."""
        file = None
        if math.isfinite(best.score) and best.step is not None:
            file = self._top.file_for(best.score, best.step, rule.digest)
        if file is not None:
            self._save_weights(module.trainer, module, Path(file.name).stem, rule.facts_of(best))
            self._top.keep(file, is_main=module.trainer.is_global_zero)

    def _save_weights(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, name: str, facts: Mapping[str, object]
    ) -> None:
        if not isinstance(pl_module, TrainingModule):
            return
        # gather sharded weights in all processes, and keep them in the main one, on the CPU
        weights: dict[str, torch.Tensor] | None = None
        if is_sharded(pl_module.model):
            weights = {}
            for weight, value in pl_module.model.state_dict().items():
                gathered = value.full_tensor() if hasattr(value, "full_tensor") else value
                if torch.distributed.get_rank() == 0:
                    weights[weight] = gathered.detach().cpu().clone()
        if trainer.is_global_zero:
            path = self._folder / f"{name}.safetensors"
            with pl_module.with_judged_weights():
                all_facts = {**facts, **self._facts}
                save_checkpoint(path, pl_module.model, config=self._config, facts=all_facts, weights=weights)
