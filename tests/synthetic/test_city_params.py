"""Parameters of a synthetic city: allowed values, and errors."""

import dataclasses

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.synthetic import CityParams


def test_defaults_are_those_of_the_real_recordings() -> None:
    params = CityParams()
    assert (params.num_frames, params.traffic_density) == (248, 1.0)


def test_parameters_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CityParams().seed = 1  # type: ignore[misc]


@pytest.mark.parametrize("value", [np.int64(3), 3], ids=["numpy", "python"])
def test_numpy_integers_count_as_integers(value: int) -> None:
    assert CityParams(seed=value).seed == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 1.5),
        ("seed", True),
        ("num_scenes", 0),
        ("num_scenes", "3"),
        ("num_train_scenes", -1),
        ("num_validate_scenes", 2.0),
        ("town_size", 10.0),
        ("town_size", float("nan")),
        ("town_size", 1e6),
        ("traffic_density", -0.1),
        ("traffic_density", "high"),
        ("num_frames", 0),
        ("aerial_resolution_m", 0.0),
    ],
)
def test_error_names_argument_value_and_range(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        CityParams(**{name: value})  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"{name} must be")
    assert repr(value) in message
    assert " from " in message
