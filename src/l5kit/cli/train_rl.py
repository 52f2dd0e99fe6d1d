"""``l5kit train-rl``: train a driver by reinforcement learning."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit import __version__
from l5kit._types import JsonObject
from l5kit.cli.artifact import link_used_artifact, parse_used_artifact
from l5kit.cli.logs import require_log_of
from l5kit.cli.options import ChangesOption, DataFolderOption, JsonOption, ResumeOption, UsedArtifactOption
from l5kit.cli.output import print_facts, print_json, print_line, print_table, remark, require_writable_folder
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.overrides import load_driver_config, with_overrides
from l5kit.configs.reinforcement import LogKeys, ReinforcementParams
from l5kit.data.jobs.folder_lock import require_unused
from l5kit.data.loader_folders import log_keys_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.progress import show_progress
from l5kit.data.user_cache import cache_folder, hold_lock
from l5kit.errors import ConfigError, UnsupportedValueError

if TYPE_CHECKING:
    from l5kit.reinforcement.run import DriverTraining

_CITIES = "made_cities"
_TRAINED_SEED, _EVALUATED_SEED = 1, 2
_NUM_SCENES = 40


def train_rl(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]",
            help="YAML file of an environment, with rl_params. Default: a small one, or with --resume that of --out.",
            show_default=False,
        ),
    ] = None,
    data: DataFolderOption = None,
    eval_data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data folder of evaluations. Default: that of --data.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for checkpoints, curves and the driver; new or empty.")
    ] = Path("driver"),
    changes: ChangesOption = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Total steps of all environments; rl_params.total_steps.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Total minutes of training; rl_params.minutes.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of weights, actions and episodes; rl_params.seed.")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Initial policy: a .zip or a folder of l5kit train-rl; route_policy, which ships with l5kit; rules, a "
            "planner to imitate first; or none; rl_params.init.",
        ),
    ] = None,
    resume: ResumeOption = False,
    artifact: UsedArtifactOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a driver by reinforcement learning (PPO), in many environments at once.

    Without CONFIG and --data, it learns in one synthetic city and is evaluated in another; both are generated on first
    use. --steps or --minutes replaces both limits of the configuration.

    Examples:
        l5kit train-rl
        l5kit train-rl gym.yaml --data city --eval-data other-city --out driver --minutes 30
        l5kit train-rl gym.yaml --data city --out driver --resume --steps 5000000
    """
    own = out / "config.yaml"
    named = own if resume and config is None and own.is_file() else config
    # --steps or --minutes alone also removes the other limit of the configuration; --set comes last and wins
    own_changes = [] if seed is None else [f"rl_params.seed={seed}"]
    if init == "none":
        own_changes += ["rl_params.init=null", "rl_params.near_start=0"]  # no policy to stay near
    elif init is not None:
        own_changes.append(f"rl_params.init={init}")
    if steps is not None or minutes is not None:
        ends = {"total_steps": steps, "minutes": minutes}
        own_changes += [f"rl_params.{name}={'null' if value is None else value}" for name, value in ends.items()]
    cfg = with_overrides(load_driver_config(named), [*own_changes, *(changes or [])])
    keys = _check(cfg, out, resume=resume)
    if config is None and data is None:
        data, eval_data = _made_city(_TRAINED_SEED), eval_data or _made_city(_EVALUATED_SEED)
    for key in log_keys_of(keys, LocalDataManager(data)):
        require_log_of("train_data_loader.key", key, LocalDataManager(data))
    if keys.folders is not None and eval_data is None:
        raise ConfigError(
            "train_data_loader.folders: evaluations need one log, but the data folder has several towns; give the "
            "folder of one with --eval-data"
        )
    from l5kit.environment.policy_options import PolicyOptions

    # report a driver that cannot be simulated before hours are spent on its training
    try:
        PolicyOptions.of_cfg(cfg).require_simulated()
    except UnsupportedValueError as error:
        remark(f"note: l5kit simulate will refuse this driver: {error}")
    from l5kit.reinforcement.run import train_driver

    in_use = parse_used_artifact(artifact)
    result = train_driver(cfg, out, data_folder=data, eval_data_folder=eval_data, resume=resume, tell=remark)
    link_used_artifact(in_use, result.folder)
    if as_json:
        print_json(_facts_of(result) | {"before": dict(result.before), "after": dict(result.after)})
        return
    rows = [
        (name, f"{result.before[name]:.3f}" if name in result.before else "", f"{value:.3f}")
        for name, value in result.after.items()
    ]
    print_table("Driving in the scenes of evaluations", ("mean", "before", "after"), rows)
    print_facts("Trained a driver", _facts_of(result))
    print_line(f"curves: tensorboard --logdir {result.folder / 'curves'}")
    # the configuration in the folder includes --set, so the command to continue needs only the data
    folders = {"--data": data, "--eval-data": eval_data}
    named_data = [word for option, folder in folders.items() if folder is not None for word in (option, str(folder))]
    call = ["l5kit", "train-rl", *named_data, "--out", str(out), "--resume", "--minutes", "N"]
    print_line(f"more: {shlex.join(call)}")


def _check(cfg: JsonObject, out: Path, *, resume: bool) -> LogKeys:
    """Check a call before the slow import of torch, and return the keys of the logs."""
    check_known_keys(cfg)
    params = ReinforcementParams.from_cfg(cfg)
    EnvironmentParams.from_cfg(cfg)
    require_writable_folder(out)
    if not resume:
        require_unused(out)
    total, of_update = params.total_steps or 0, params.steps_per_update
    if total % of_update:
        remark(
            f"note: {total:,} steps become {-(-total // of_update) * of_update:,}, as each update takes {of_update:,}: "
            f"rl_params.num_envs {params.num_envs} x n_steps {params.n_steps}"
        )
    return LogKeys.from_cfg(cfg)


def _facts_of(result: "DriverTraining") -> dict[str, object]:
    return {
        "driver": str(result.driver),
        "steps": result.num_steps,
        "minutes": round(result.minutes, 2),
        "steps_per_s": round(result.steps_per_s),
        "environment_share": round(result.environment_share, 3),
    }


def _made_city(seed: int) -> Path:
    """Return the folder of a synthetic city, generated if it does not exist."""
    from l5kit.synthetic.city import make_city  # imported here, as own data does not need it

    folder = cache_folder() / _CITIES / f"{__version__}-{_NUM_SCENES}-scenes-seed-{seed}"
    with hold_lock(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            with show_progress(f"Making the city {folder}", visible=True) as progress:
                make_city(folder, seed=seed, num_scenes=_NUM_SCENES, progress=progress)
    return folder
