"""Weights in files of torch, read without torch: as torch reads them, and nothing in them is called."""

import contextlib
import io
import pickle
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from l5kit.environment.policy_arrays import read_arrays  # noqa: E402


def saved(content):
    written = io.BytesIO()
    torch.save(content, written)
    return written.getvalue()


BASE = torch.arange(24, dtype=torch.float32).reshape(4, 6)


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(BASE, id="plain"),
        pytest.param(BASE.T, id="transposed"),
        pytest.param(BASE[1:3, ::2], id="part"),
        pytest.param(torch.zeros(0, 3), id="empty"),
        pytest.param(torch.tensor(2.5), id="number"),
        pytest.param(torch.nn.Parameter(BASE)[2:], id="of a parameter"),
    ],
)
def test_tensors_are_read_as_torch_reads_them(tensor):
    content = read_arrays(saved({"a": tensor.detach(), "b": {"c": BASE}}))
    np.testing.assert_array_equal(content["a"], tensor.detach().numpy())
    assert content["a"].dtype == np.float32
    np.testing.assert_array_equal(content["b"]["c"], BASE.numpy())


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(BASE.double(), id="other numbers"),
        pytest.param(BASE.to("meta"), id="without values"),
        pytest.param(torch.zeros(1, 1).expand(10**6, 10**6), id="one number that is said to be many"),
    ],
)
def test_what_is_no_weight_is_none(tensor):
    with contextlib.suppress(pickle.UnpicklingError):  # torch has its own functions for some of them
        assert read_arrays(saved({"a": tensor}))["a"] is None


class Payload:
    """Calls a function when it is unpickled."""

    def __reduce__(self):
        return print, ("called",)


def test_nothing_in_the_file_is_called(capsys):
    with pytest.raises(pickle.UnpicklingError, match="which is not a weight"):
        read_arrays(saved({"a": Payload()}))
    assert capsys.readouterr().out == ""


def test_an_archive_that_torch_did_not_write_is_refused():
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(zipfile.BadZipFile, match=r"data\.pkl"):
        read_arrays(written.getvalue())
