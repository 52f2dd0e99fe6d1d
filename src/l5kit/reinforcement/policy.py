"""Algorithm that trains a driver: PPO of stable-baselines3, and the weights that it starts from."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.vec_env import VecEnv

from l5kit._types import JsonObject
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.environment.feature_extractor import CustomFeatureExtractor
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.policy_file import find_policy_file, read_weights
from l5kit.environment.policy_options import PolicyOptions
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.planning.weights_file import shipped_policies
from l5kit.reinforcement.compact_features import CompactFeatures, measure_scales
from l5kit.reinforcement.near_start import NearStartPolicy

_CONVOLVED_SIDES_PX = (107, 122)
"""Range of image sides for the feature extractor of l5kit; other sizes use that of stable-baselines3."""

_LEAST_SIDE_PX = 36
"""Smallest image side for convolutions of stable-baselines3; smaller images are flattened."""

_NUM_FEATURES = 128

_NUM_HEADS = {"agents": 0, "attention": 4}
"""Attention heads of the networks for compact observations; 0 for max pooling."""

_JUDGING = ("value_net.", "mlp_extractor.value_net.", "vf_features_extractor.", "pi_features_extractor.", "log_std")
"""Prefixes of weights that do not affect actions; shipped policies lack them."""


def make_algorithm(params: ReinforcementParams, env: VecEnv, *, layout: CompactLayout | None = None) -> PPO:
    """Return the algorithm of a new training, with initial weights by its seed.

    Args:
        params: Parameters of the training.
        env: Its environments, which are reset if observations are normalised.
        layout: Layout of compact observations; None for other kinds.

    Raises:
        ConfigError: The network needs compact observations, and these are others.
    """
    space = env.observation_space
    extractor: JsonObject = {}
    if params.network == "layers":
        # convolutions for images, if their size allows
        picture = space.spaces.get("image") if isinstance(space, spaces.Dict) else None
        sides_px = () if picture is None else (picture.shape or ())[1:]
        if picture is not None and min(sides_px) >= _LEAST_SIDE_PX:
            extractor["normalize_images"] = picture.dtype == np.uint8
            if all(_CONVOLVED_SIDES_PX[0] <= side <= _CONVOLVED_SIDES_PX[1] for side in sides_px):
                extractor["features_extractor_class"] = CustomFeatureExtractor
                extractor["features_extractor_kwargs"] = {"features_dim": _NUM_FEATURES}
    elif layout is None:
        raise ConfigError(
            f"rl_params.network: {params.network!r} needs compact observations; set "
            "gym_params.observation to compact, or network to layers"
        )
    else:
        how: JsonObject = {"layout": asdict(layout), "features": params.features, "width": params.agent_width}
        how["scales"] = measure_scales(env, layout, seed=params.seed)
        how["num_heads"] = _NUM_HEADS[params.network]
        extractor = {"features_extractor_class": CompactFeatures, "features_extractor_kwargs": how}
    keeps_near, is_dict = params.near_start > 0, isinstance(space, spaces.Dict)
    return PPO(
        NearStartPolicy if keeps_near else "MultiInputPolicy" if is_dict else "MlpPolicy",
        env,
        learning_rate=params.learning_rate,
        n_steps=params.n_steps,
        batch_size=params.batch_size,
        n_epochs=params.n_epochs,
        gamma=params.gamma,
        gae_lambda=params.gae_lambda,
        clip_range=params.clip_range,
        ent_coef=params.ent_coef,
        policy_kwargs={
            "net_arch": list(params.net_arch),
            "log_std_init": params.log_std_init,
            **({"features_extractor_class": CombinedExtractor} if keeps_near and is_dict else {}),
            **extractor,
        },
        seed=params.seed,
        device="cpu",
    )


def find_beginning(path: str) -> Path:
    """Return the file of the policy that a training starts from.

    Raises:
        FileNotFoundError: It does not exist; the message names the key of the configuration.
        InvalidArgumentError: The folder was changed after its training.
    """
    try:
        return find_policy_file(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"rl_params.init (--init): {error}; or name a shipped policy ({', '.join(shipped_policies())}), rules, "
            "or none"
        ) from error


def take_weights(model: PPO, path: str, options: PolicyOptions) -> None:
    """Load the weights of a policy into an algorithm; weights of the critic that it lacks stay new.

    Args:
        model: The algorithm, updated.
        path: A ``.zip``, the folder of a training, or the name of a shipped policy.
        options: Options of the algorithm's training.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidArgumentError: The file is broken, or the policy was trained with other observations or actions, or has
            another network.
    """
    file = find_beginning(path)
    weights, trained = read_weights(file)
    if trained != options:
        was, has = _options_by_name(trained), _options_by_name(options)
        names = [name for name in has if was.get(name) != has[name]]
        raise InvalidArgumentError(
            f"rl_params.init: {file} was trained with {', '.join(f'{name} {was[name]!r}' for name in names)}; the "
            f"training has {', '.join(f'{name} {has[name]!r}' for name in names)}"
        )
    # damage is reported before a network that does not fit, as it may be the cause
    own = model.policy.state_dict()
    broken = []
    for name, value in weights.items():
        # weights must be finite tensors on the CPU; deviations are divisors, so they must be above 0
        is_usable = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu"
        is_usable = is_usable and bool(value.isfinite().all())
        if not is_usable or (name.endswith(".deviations") and bool((value <= 0).any())):
            broken.append(name)
    if broken:
        raise InvalidArgumentError(
            f"rl_params.init: {file} is broken ({broken[0]} is not a finite tensor, or has deviations of 0); take "
            "another file of the training"
        )
    needed = [name for name in own if not name.startswith(_JUDGING)]
    wrong = [name for name, value in weights.items() if name not in own or own[name].shape != value.shape]
    wrong += [name for name in needed if name not in weights]
    if wrong:
        raise InvalidArgumentError(
            f"rl_params.init: {file} has another network ({wrong[0]} is one of {len(wrong)} that do not fit); set "
            "rl_params.network, net_arch, features and agent_width to those of its training"
        )
    model.policy.load_state_dict(weights, strict=False)


def _options_by_name(options: PolicyOptions) -> dict[str, object]:
    """Return options by name, with those of the layout flattened."""
    by_name = options.as_json()
    return {**by_name, **{f"compact.{name}": value for name, value in by_name.pop("layout").items()}}
