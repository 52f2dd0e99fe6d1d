"""Weights on disk: round trips, the files of 1.5, and explanations of what does not fit."""

import io
import json
import os
import pickle
import subprocess
import sys
import types
import warnings
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning import checkpoint_files
from l5kit.planning.checkpoint import (
    Checkpoint,
    CheckpointMismatchError,
    export_torchscript,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from l5kit.planning.rasterized import backbones
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.torch_files import CheckpointError
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from support.models import vector_batch

CONFIG = {"format_version": 4, "model_params": {"future_num_frames": 4, "name": "grün"}, "list": [1.5, None, True]}


def small(num_channels=2, num_targets=6):
    torch.manual_seed(num_channels)
    return RasterizedPlanningModel("simple_cnn", num_channels, num_targets, [1.0, 1.0, 1.0], None, False)


def other():
    """A small model with other weights than those of :func:`small`."""
    model = small()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    return model


def compiled(model):
    return torch.compile(model, backend="eager")


def assert_equal_weights(ours, theirs):
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


def script(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(model)


def save_script(model, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script(model).save(str(path))


class Unwritable:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


WRITERS = {
    "safetensors": lambda model, path: save_checkpoint(path, model),
    "state dict": lambda model, path: torch.save(model.state_dict(), path),
    "legacy state dict": lambda model, path: torch.save(model.state_dict(), path, _use_new_zipfile_serialization=False),
    "module": lambda model, path: torch.save(model, path),
    "legacy module": lambda model, path: torch.save(model, path, _use_new_zipfile_serialization=False),
    "TorchScript": save_script,
    "training": lambda model, path: torch.save({"epoch": 3, "state_dict": model.state_dict()}, path),
    "DataParallel": lambda model, path: torch.save(nn.DataParallel(model).state_dict(), path),
    "Lightning": lambda model, path: torch.save(
        {"state_dict": {f"model.{name}": value for name, value in model.state_dict().items()}}, path
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_weights_of_every_kind_of_file_are_loaded(writer, tmp_path):
    theirs, ours = small(), other()
    WRITERS[writer](theirs, tmp_path / "weights.pt")
    mismatch = load_checkpoint(ours, tmp_path / "weights.pt", allow_pickle="module" in writer)
    assert not mismatch
    assert_equal_weights(ours, theirs)


@pytest.mark.parametrize(
    ("writer", "kind"),
    [
        ("safetensors", "safetensors"),
        ("state dict", "state dict"),
        ("TorchScript", "TorchScript"),
        ("module", "module"),
    ],
)
def test_the_kind_of_a_file_is_known(writer, kind, tmp_path):
    WRITERS[writer](small(), tmp_path / "weights")
    found = read_checkpoint(tmp_path / "weights", allow_pickle=True)
    assert found.kind == kind
    names = {"safetensors", "module"}
    wanted = "l5kit.planning.rasterized.model.RasterizedPlanningModel" if kind in names else None
    assert found.model_class == wanted


def test_the_configuration_comes_back(tmp_path):
    save_checkpoint(tmp_path / "a.safetensors", small(), config=CONFIG)
    found = read_checkpoint(tmp_path / "a.safetensors")
    assert found.config == CONFIG
    assert not found.load_into(other())


def test_a_vector_model_predicts_the_same_after_a_round_trip(tmp_path):
    arguments = (1, 3, 12, [1.0] * 3, None, 0.0, False, False, False)
    theirs, ours = VectorizedModel(*arguments).eval(), VectorizedModel(*arguments).eval()
    save_checkpoint(tmp_path / "a.safetensors", theirs)
    load_checkpoint(ours, tmp_path / "a.safetensors")
    assert torch.equal(ours(vector_batch())["positions"], theirs(vector_batch())["positions"])


def test_equal_weights_are_equal_files_whatever_the_order_of_keys(tmp_path):
    model = small()
    config, facts = {"b": {"y": [1, 2.5], "x": None}, "a": "text"}, {"step": 3, "data": {"key": "k", "digest": "d"}}
    save_checkpoint(tmp_path / "a", model, config=config, facts=facts)
    save_checkpoint(tmp_path / "again", model, config=config, facts=facts)
    turned = {key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in config.items()}
    turned, facts = dict(reversed(turned.items())), dict(reversed(facts.items()))
    weights = dict(reversed(model.state_dict().items()))
    save_checkpoint(tmp_path / "turned", model, config=turned, facts=facts, weights=weights)
    whole = (tmp_path / "a").read_bytes()
    assert (tmp_path / "again").read_bytes() == whole
    assert (tmp_path / "turned").read_bytes() == whole
    save_checkpoint(tmp_path / "other", model, config=config | {"a": "texts"}, facts=facts)
    assert (tmp_path / "other").read_bytes() != whole


SAVING = """
import sys, torch
from l5kit.planning.checkpoint import save_checkpoint
from l5kit.planning.rasterized.model import RasterizedPlanningModel

torch.manual_seed(1)
model = RasterizedPlanningModel("simple_cnn", 3, 12, [1.0] * 3, torch.nn.L1Loss(reduction="none"), False)
names = {"lion", "adam", "sgd", "rprop", "muon", "nadam", "radam"}  # in another order for each seed of hashes
print(*names)
save_checkpoint(sys.argv[1], model, config={name: {"name": name} for name in names}, facts=dict.fromkeys(names, 1.5))
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_equal_weights_are_equal_files_of_every_process(tmp_path):
    orders, files = set(), set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        call = [sys.executable, "-c", SAVING, str(tmp_path / seed)]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        orders.add(done.stdout)
        files.add((tmp_path / seed).read_bytes())
    assert len(orders) > 1
    assert len(files) == 1


def test_a_configuration_that_json_cannot_hold_leaves_no_file(tmp_path):
    with pytest.raises(InvalidArgumentError, match="JSON"):
        save_checkpoint(tmp_path / "a.safetensors", small(), config={"model": small})
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, small(), config={"run": 1})

    def fail(tensors, filename, metadata):
        filename.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("l5kit.planning.checkpoint.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, other(), config={"run": 2})
    assert list(tmp_path.iterdir()) == [path]
    assert read_checkpoint(path).config == {"run": 1}


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save_checkpoint(tmp_path / "no" / "a.safetensors", small())
    with pytest.raises(FileNotFoundError, match="not a file"):
        read_checkpoint(tmp_path / "no.pt")


def test_weights_that_share_memory_or_are_strided_are_saved(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[0].bias.data = torch.arange(6.0)[::2]
    save_checkpoint(tmp_path / "a.safetensors", model)
    weights = read_checkpoint(tmp_path / "a.safetensors").state_dict
    assert torch.equal(weights["0.weight"], weights["1.weight"])
    assert weights["0.bias"].tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("wrap", [nn.DataParallel, compiled], ids=["DataParallel", "compiled"])
def test_wrapped_models_are_saved_and_loaded_as_what_they_wrap(wrap, tmp_path):
    theirs, ours = small(), other()
    save_checkpoint(tmp_path / "a.safetensors", wrap(theirs))
    assert set(read_checkpoint(tmp_path / "a.safetensors").state_dict) == set(theirs.state_dict())
    load_checkpoint(wrap(ours), tmp_path / "a.safetensors")
    assert_equal_weights(ours, theirs)


def test_weights_of_a_compiled_model_are_loaded_by_their_own_names(tmp_path):
    theirs, ours = small(), other()
    torch.save(compiled(theirs).state_dict(), tmp_path / "a.pt")
    load_checkpoint(ours, tmp_path / "a.pt")
    assert_equal_weights(ours, theirs)


# --- what does not fit ---


class Nested(nn.Module):
    """A network with attributes that are named like those of wrappers."""

    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        self.head = nn.ModuleDict({"module": nn.Linear(1, 1)})
        self.register_buffer("scale", torch.ones(2))


def wrapped_part(model, path):
    """Wrap the submodule of a model at a path, like ``torch.compile`` (``_orig_mod``) and other wrappers."""
    *parents, name = path.split(".")
    parent = model.get_submodule(".".join(parents))
    setattr(parent, name, compiled(parent.get_submodule(name)))


NETWORKS = {"nested": Nested, "raster": small, "flat": lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))}
PARTS = {"nested": ["model", "model.2", "head.module"], "raster": ["model", "model.0", "model.4"], "flat": ["0", "1"]}


@pytest.mark.parametrize("network", NETWORKS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_wrappers_in_any_nesting_are_seen_through(network, data):
    """Of the whole model or of its parts, in the file and in the model that is loaded into."""
    ours, theirs = NETWORKS[network](), NETWORKS[network]()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    for model in (ours, theirs):
        for path in data.draw(st.lists(st.sampled_from(PARTS[network]), unique=True, max_size=2)):
            if "_orig_mod" not in path and path in dict(model.named_modules()):
                wrapped_part(model, path)
    prefixes = st.sampled_from(["_orig_mod.", "module.", "model.", "_forward_module.", "_fsdp_wrapped_module."])
    prefix = "".join(data.draw(st.lists(prefixes, max_size=3)))
    stored = {f"{prefix}{name}": value for name, value in theirs.state_dict().items()}
    checkpoint = Checkpoint(path=None, kind="state dict", state_dict=stored)
    assert not checkpoint.mismatch_with(ours)
    assert not checkpoint.load_into(ours)
    for mine, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("prefix", ["", "module.", "model._orig_mod.", "_orig_mod.module."])
@pytest.mark.parametrize("part", ["model", "model.4"])
def test_parts_for_several_devices_are_seen_through(prefix, part):
    ours, theirs = small(), other()
    weights = theirs.state_dict().items()
    stored = {prefix + name.replace(f"{part}.", f"{part}.module.", 1): value for name, value in weights}
    assert not Checkpoint(path=None, kind="state dict", state_dict=stored).load_into(ours)
    assert_equal_weights(ours, theirs)


def test_a_backbone_alone_fits_with_any_prefix():
    weights = {name.removeprefix("model."): value for name, value in small().state_dict().items() if "." in name}
    for prefix in ("", "module.", "model._orig_mod."):
        stored = {prefix + name: value for name, value in weights.items()}
        mismatch = Checkpoint(path=None, kind="state dict", state_dict=stored).mismatch_with(small())
        assert mismatch.missing == ("weights_scaling",)
        assert not mismatch.unexpected


def test_names_of_other_networks_stay_as_they_are():
    stored = {f"module.{name}": value for name, value in nn.LSTM(2, 2).state_dict().items()}
    mismatch = Checkpoint(path=None, kind="state dict", state_dict=stored).mismatch_with(small())
    assert set(mismatch.unexpected) == set(stored)


def test_other_shapes_are_listed_and_nothing_is_loaded(tmp_path):
    save_checkpoint(tmp_path / "a.safetensors", small(num_channels=5))
    ours = other()
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(CheckpointMismatchError) as found:
        load_checkpoint(ours, tmp_path / "a.safetensors")
    assert "other shape (1):\n  model.0.weight: (64, 5, 7, 7) in the file, (64, 2, 7, 7) in the model" in str(
        found.value
    )
    assert "strict=False" in str(found.value)
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())


def test_a_mismatch_is_a_runtime_error_like_that_of_torch(tmp_path):
    save_checkpoint(tmp_path / "a.safetensors", nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="does not fit RasterizedPlanningModel"):
        load_checkpoint(small(), tmp_path / "a.safetensors")


def test_missing_and_unexpected_names_come_with_the_nearest(tmp_path):
    weights = small().state_dict()
    weights["model.9.weights"] = weights.pop("model.9.weight")
    weights["zzzz"] = torch.zeros(1)
    torch.save(weights, tmp_path / "a.pt")
    with pytest.raises(CheckpointMismatchError) as found:
        load_checkpoint(small(), tmp_path / "a.pt")
    assert "missing in the file (1):\n  model.9.weight (nearest: model.9.weights)" in str(found.value)
    assert "not in the model (2):\n  model.9.weights (nearest: model.9.weight)\n  zzzz\n" in str(found.value)


def test_what_fits_is_loaded_when_not_strict(tmp_path):
    theirs, ours = small(num_channels=5), other()
    save_checkpoint(tmp_path / "a.safetensors", theirs)
    mismatch = load_checkpoint(ours, tmp_path / "a.safetensors", strict=False)
    assert bool(mismatch)
    assert mismatch.reshaped == (("model.0.weight", (64, 5, 7, 7), (64, 2, 7, 7)),)
    assert (mismatch.missing, mismatch.unexpected) == ((), ())
    assert torch.equal(ours.model[9].weight, theirs.model[9].weight)
    assert (ours.model[0].weight == 0.5).all()


def test_long_lists_are_cut(tmp_path):
    torch.save({f"weight{number}": torch.zeros(1) for number in range(25)}, tmp_path / "a.pt")
    with pytest.raises(CheckpointMismatchError, match=r"not in the model \(25\):(\n  .*){10}\n  \.\.\. and 15 more"):
        load_checkpoint(nn.Linear(1, 1), tmp_path / "a.pt")


# --- files that are no checkpoints, and pickles ---


def test_pickled_code_does_not_run_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": small().state_dict(), "hook": Unwritable()}, "a.pt")
    with pytest.raises(CheckpointError, match=r"pass allow_pickle=True"):
        read_checkpoint("a.pt")
    assert not (tmp_path / "made-by-a-pickle").exists()
    assert set(read_checkpoint("a.pt", allow_pickle=True).state_dict) == set(small().state_dict())
    assert (tmp_path / "made-by-a-pickle").exists()


def test_archives_that_would_be_many_times_their_size_are_refused(tmp_path):
    file = tmp_path / "weights.pt"
    torch.save({"weight": torch.zeros(20 << 20)}, file)
    with zipfile.ZipFile(file) as stored, zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for part in stored.infolist():
            packed.writestr(part.filename, stored.read(part), compresslevel=1)
    assert list(read_checkpoint(file).state_dict) == ["weight"]
    with pytest.raises(CheckpointError, match=r"unpacked; at most 67,108,864 are read"):
        read_checkpoint(tmp_path / "packed.pt")


def test_a_whole_module_needs_permission(tmp_path):
    torch.save(small(), tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"run any code.*allow_pickle=True"):
        load_checkpoint(small(), tmp_path / "a.pt")


def as_class_of(module, name, **contents):
    return type(name, (nn.Module,), {"__module__": module, **contents})


def test_modules_of_1_5_with_a_backbone_of_torchvision_are_read(tmp_path, monkeypatch):
    """A pickle of 1.5 names classes of torchvision, which need not be installed, and others that may be gone."""
    torch.manual_seed(0)
    theirs = RasterizedPlanningModel("resnet18", 3, 6, [1.0] * 3, nn.MSELoss(reduction="none"), False)
    old = types.ModuleType("torchvision.models.resnet")
    gone = types.ModuleType("l5kit.gone")
    for name in ("ResNet", "BasicBlock"):
        setattr(old, name, as_class_of(old.__name__, name))
    gone.Part = as_class_of(gone.__name__, "Part")
    for name, module in (
        ("torchvision", types.ModuleType("torchvision")),
        ("torchvision.models", types.ModuleType("torchvision.models")),
        (old.__name__, old),
        (gone.__name__, gone),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    stored = RasterizedPlanningModel("resnet18", 3, 6, [1.0] * 3, nn.MSELoss(reduction="none"), False)
    stored.load_state_dict(theirs.state_dict())
    stored.part = gone.Part()
    stored.part.extra = nn.Parameter(torch.ones(2))
    for module in stored.modules():
        if isinstance(module, backbones.ResNet | backbones.BasicBlock):
            module.__class__ = getattr(old, type(module).__name__)
    torch.save(stored, tmp_path / "old.pt")
    for name in ("torchvision", "torchvision.models", old.__name__, gone.__name__):
        monkeypatch.setitem(sys.modules, name, None)
    ours = RasterizedPlanningModel("resnet18", 3, 6, [1.0] * 3, None, False)
    mismatch = load_checkpoint(ours, tmp_path / "old.pt", strict=False, allow_pickle=True)
    assert mismatch.unexpected == ("part.extra",)
    assert_equal_weights(ours, theirs)


def test_classes_that_are_missing_elsewhere_are_an_error(tmp_path, monkeypatch):
    gone = types.ModuleType("someones_code")
    gone.Part = as_class_of("someones_code", "Part")
    monkeypatch.setitem(sys.modules, "someones_code", gone)
    torch.save(gone.Part(), tmp_path / "a.pt")
    monkeypatch.setitem(sys.modules, "someones_code", None)
    with pytest.raises(CheckpointError, match=r"a\.pt needs a class or module .*someones_code.* Install or import"):
        read_checkpoint(tmp_path / "a.pt", allow_pickle=True)


def zip_without_weights():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/constants.pkl", b"")
    return file.getvalue()


class StoragePickler(pickle.Pickler):
    """Writes ``...`` as a storage that has a text of values."""

    def persistent_id(self, value):
        return ("storage", torch.FloatStorage, "0", "cpu", "3") if value is ... else None


def archive_of_text():
    """An archive of torch with a storage that has a text of values."""
    file, pickled = io.BytesIO(), io.BytesIO()
    StoragePickler(pickled, protocol=2).dump([...])
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (("data.pkl", pickled.getvalue()), ("data/0", bytes(12)), ("version", b"3\n")):
            archive.writestr(f"a/{name}", content)
    return file.getvalue()


def header(text):
    return len(text).to_bytes(8, "little") + text.encode()


BROKEN = {
    "empty": (b"", "cannot be read as a checkpoint"),
    "text": (b"weights: none", "nor a plain state dict|cannot be read"),
    "cut safetensors": (
        header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
        "is a broken safetensors file",
    ),
    "broken archive": (zip_without_weights(), "broken TorchScript archive"),
    "cut archive": (zip_without_weights()[:-9], "broken archive"),
    "length of text": (archive_of_text(), "nor a plain state dict|cannot be read"),
    "number": (pickle.dumps(3, protocol=2), "nor a plain state dict|holds a int|cannot be read"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_checkpoint_is_a_clear_error(case, tmp_path):
    content, message = BROKEN[case]
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as found:
        read_checkpoint(tmp_path / "a.pt")
    assert "a.pt" in str(found.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param({"epoch": 3, "loss": 0.1}, "holds a dict without weights; it has epoch, loss", id="no weights"),
        pytest.param(torch.zeros(3), "holds a Tensor", id="a tensor"),
        pytest.param({"state_dict": {}}, "without weights; it has nothing", id="empty"),
    ],
)
def test_files_of_torch_that_hold_no_weights(content, message, tmp_path):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize(("config", "message"), [("{", "not JSON"), ("[1]", "a list, not")])
def test_a_configuration_that_is_none(config, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        checkpoint_files.object_of({"key": config}, "key", tmp_path / "a")


def test_safetensors_of_others_have_an_empty_configuration(tmp_path):
    text = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
    (tmp_path / "a").write_bytes(header(text) + b"\0\0\x80?")
    found = read_checkpoint(tmp_path / "a")
    assert (found.config, found.model_class, found.state_dict["a"].tolist()) == ({}, None, [1.0])


# --- TorchScript ---


def test_n6_torchscript_is_written_and_read_without_warnings(tmp_path):
    theirs, ours = small().eval(), other()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_torchscript(tmp_path / "a.pt", theirs)
        load_checkpoint(ours, tmp_path / "a.pt")
    assert_equal_weights(ours, theirs)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.pt"]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
def test_an_exported_model_runs_without_its_class(tmp_path):
    model, batch = VectorizedModel(1, 3, 12, [1.0] * 3, None, 0.0, False, False, True).eval(), vector_batch()
    export_torchscript(tmp_path / "a.pt", model)
    loaded = torch.jit.load(tmp_path / "a.pt")
    torch.testing.assert_close(loaded(batch)["positions"], model(batch)["positions"])
    assert not loaded.training
