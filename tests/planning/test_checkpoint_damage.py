"""A damaged checkpoint is an error that names it, or it still gives what was saved; never something else in silence."""

import collections
import itertools
import os
import stat
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.checkpoint import CheckpointMismatchError, load_checkpoint, read_checkpoint, save_checkpoint
from l5kit.planning.checkpoint_files import CHECKSUM_KEY
from l5kit.planning.torch_files import CheckpointError
from l5kit.training.state_file import StateFiles
from support.checkpoint_damage import damaged_checkpoints, small_network


def other_network():
    """The network with other weights."""
    network = small_network()
    with torch.no_grad():
        for value in network.state_dict().values():
            value.fill_(9)
    return network


def outcome_of(path, allow_pickle):
    """Load a file; an error that is none of checkpoints or does not name the file comes through."""
    network = other_network()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_checkpoint(network, path, allow_pickle=allow_pickle)
    except (CheckpointError, CheckpointMismatchError) as error:
        return "named" if str(path) in str(error) else "vague"
    clean = small_network().state_dict()
    return "right" if all(torch.equal(value, clean[name]) for name, value in network.state_dict().items()) else "other"


def assert_all_told(seed, folder):
    outcomes = collections.Counter()
    for said, path in damaged_checkpoints(Random(seed), folder):
        for allow_pickle in (False, True):
            try:
                outcome = outcome_of(path, allow_pickle)
            except Exception as error:
                raise AssertionError(f"seed {seed}, {path.name}: {said}, allow_pickle={allow_pickle}") from error
            outcomes[outcome] += 1
            assert outcome != "vague"
            assert outcome != "other" or not said.startswith("exact:"), f"seed {seed}, {path.name}: {said}"
    assert outcomes["named"] > 900
    assert outcomes["right"] > 50  # whoever refuses everything has not proved anything
    assert outcomes["other"] < 60  # of forms without a checksum only


@pytest.mark.slow
def test_damaged_checkpoints_are_told(tmp_path):
    assert_all_told(0, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_damaged_checkpoints_are_told(tmp_path):
    for seed in range(1, 40):
        assert_all_told(seed, tmp_path)


def test_a_part_without_a_name_is_told_or_harmless(tmp_path):
    """Python 3.11 asks for the last letter of its name."""
    path = tmp_path / "a.pt"
    torch.save(small_network().state_dict(), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(""), b"")
    with zipfile.ZipFile(path) as archive:
        assert "" in archive.namelist()
    assert outcome_of(path, allow_pickle=False) in ("named", "right")


@pytest.mark.parametrize("is_module", [True, False])
def test_a_tensor_that_is_marked_as_a_folder_is_told(tmp_path, is_module):
    """Torch would return uninitialized memory for it."""
    path = tmp_path / "a.pt"
    torch.save(small_network() if is_module else small_network().state_dict(), path)
    assert outcome_of(path, is_module) == "right"
    content = bytearray(path.read_bytes())
    in_directory = content.rindex(b"a/data/7") - 46
    content[in_directory + 38] |= 0x10  # its attributes outside
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with pytest.raises(CheckpointError, match="data/7' is marked as a folder"):
        load_checkpoint(other_network(), path, allow_pickle=is_module)


def test_folders_of_an_archive_that_another_tool_wrote_are_no_damage(tmp_path):
    torch.save(small_network().state_dict(), tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as before, zipfile.ZipFile(tmp_path / "b.pt", "w") as after:
        after.mkdir("a")
        after.mkdir("a/data")
        for part in before.infolist():
            after.writestr(part.filename, before.read(part))
    assert outcome_of(tmp_path / "b.pt", False) == "right"


def test_damage_comes_of_its_seed_and_each_file_is_there_when_it_is_its_turn(tmp_path):
    def contents(seed):
        made = damaged_checkpoints(Random(seed), tmp_path)
        return [(said, path.read_bytes()) for said, path in itertools.islice(made, 0, None, 40)]

    assert contents(3) == contents(3)
    assert contents(3) != contents(4)


def test_a_broken_state_of_a_training_is_told(tmp_path):
    seen = 0
    for said, path in damaged_checkpoints(Random(1), tmp_path):
        if "Lightning" in said or path.suffix == ".ckpt":
            seen += 1
            try:
                told = str(StateFiles().load_checkpoint(path)["global_step"])
            except CheckpointError as error:
                told = str(error)
            assert told == "3" or (str(path) in told and "The training cannot be resumed from it" in told)
    assert seen > 50


def test_every_turned_bit_of_a_file_of_ours_is_seen(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, small_network(), config={"a": 1}, facts={"step": 3})
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match=r"a\.safetensors"):
            read_checkpoint(path)


def test_facts_come_back_and_equal_checkpoints_are_equal_files(tmp_path):
    config = {"x": 'grün "\\/\x01\x1f\n\x7f\u2028😀', "y": 1}
    for name in ("a", "b", "unsorted"):
        save_checkpoint(tmp_path / name, small_network(), config=config, facts={"step": 3, "score": 0.5})
        assert (tmp_path / "a").read_bytes() == (tmp_path / name).read_bytes()
    assert read_checkpoint(tmp_path / "unsorted").config == config
    assert read_checkpoint(tmp_path / "a").facts == {"step": 3, "score": 0.5}
    reordered = {"y": 1, "x": config["x"]}
    save_checkpoint(tmp_path / "b", small_network(), config=reordered, facts={"score": 0.5, "step": 3})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(InvalidArgumentError, match="facts cannot be saved as JSON"):
        save_checkpoint(tmp_path / "a", small_network(), facts={"step": object()})


def test_names_of_weights_may_be_any_text(tmp_path):
    network = nn.Module()
    for name in ("plain", "grün", '"', "\\", "\x01\x1f", "\n\t", "\x7f\u2028", "😀"):
        network.register_parameter(name, nn.Parameter(torch.ones(3)))
    save_checkpoint(tmp_path / "a", network)
    assert read_checkpoint(tmp_path / "a").state_dict.keys() == network.state_dict().keys()


def test_a_number_in_a_pickle_takes_no_memory(tmp_path):
    """A pickle that stores an object under the memo key 2**24 would create a table of that size."""
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}r\x00\x00\x00\x01.")
        archive.writestr("a/version", b"3\n")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"a\.pt"):
            read_checkpoint(tmp_path / "a.pt")
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_files_from_before_the_checksum_are_read(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    save_checkpoint(tmp_path / "a", small_network(), config={"a": 1})
    with safe_open(tmp_path / "a", framework="pt") as file:
        metadata = {key: value for key, value in file.metadata().items() if key not in (CHECKSUM_KEY, "l5kit_facts")}
    save_file(dict(small_network().state_dict()), tmp_path / "b", metadata)
    found = read_checkpoint(tmp_path / "b")
    assert (found.config, found.facts) == ({"a": 1}, {})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_warned_of(value, tmp_path):
    network = small_network()
    with torch.no_grad():
        network[0].weight[0, 0] = value
    save_checkpoint(tmp_path / "a", network)
    with pytest.warns(UserWarning, match=r"a: NaN or infinite values in 0\.weight"):
        load_checkpoint(small_network(), tmp_path / "a")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_files_have_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "any").touch()
    wanted = stat.S_IMODE((tmp_path / "any").stat().st_mode)
    save_checkpoint(tmp_path / "a", small_network())
    StateFiles().save_checkpoint({"a": 1}, tmp_path / "b")
    assert [stat.S_IMODE(Path(tmp_path / name).stat().st_mode) for name in "ab"] == [wanted, wanted]


def test_a_state_that_could_not_be_read_again_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match=r"Linear.*could not be read again"):
        StateFiles().save_checkpoint({"callbacks": small_network()[0]}, tmp_path / "a")
