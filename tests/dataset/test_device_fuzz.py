"""Samples that a device makes of random logs, sound or not, are those of the processor, and so are the errors."""

from pathlib import Path

import pytest
import torch

from l5kit.device.opening import open_backend
from support.device_cases import DeviceCases

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("device", DEVICES)
def test_random_cases(device: str, tmp_path: Path) -> None:
    cases = DeviceCases(tmp_path, open_backend(device))
    assert [found for found in map(cases.find_difference, range(80)) if found] == []


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
def test_many_random_cases(device: str, tmp_path: Path) -> None:
    cases = DeviceCases(tmp_path, open_backend(device))
    assert [found for found in map(cases.find_difference, range(1000, 11_000)) if found] == []
