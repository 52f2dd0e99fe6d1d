"""Class paths: forms, imports, arguments, and what errors say."""

import sys
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from l5kit.configs.class_path import ClassPath, describe_error
from l5kit.errors import ConfigError

KEY = "model_params.model"
MODULE = """
class Base: ...

class Model(Base):
    def __init__(self, num_channels, *, width, depth=2):
        self.given = (num_channels, width, depth)

class Open(Base):
    def __init__(self, **kwargs):
        self.given = kwargs

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_classes_of_test.py").write_text(MODULE)
    (tmp_path / "own_broken_of_test.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_classes_of_test", raising=False)
    return "own_classes_of_test"


def test_a_text_is_a_class_path_without_arguments() -> None:
    assert ClassPath.read("a.b.C", key=KEY) == ClassPath.read({"class_path": "a.b.C", "init_args": {}}, key=KEY)


def test_init_args_go_before_the_context_of_which_only_what_is_asked_for_is_given(module: str) -> None:
    value = {"class_path": f"{module}.Model", "init_args": {"width": 8}}
    context = {"num_channels": 5, "width": 1, "history": 4}
    made = ClassPath.read(value, key=KEY).make(object, context)
    assert vars(made)["given"] == (5, 8, 2)


def test_open_arguments_take_no_context(module: str) -> None:
    value = {"class_path": f"{module}.Open", "init_args": {"any": 1}}
    made = ClassPath.read(value, key=KEY).make(object, {"history": 4})
    assert vars(made)["given"] == {"any": 1}


def test_reading_imports_nothing(module: str) -> None:
    ClassPath.read(f"{module}.Model", key=KEY)
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (3, "model_params.model: expected a text"),
        ("Model", "class_path: expected a text such as package.module.Class, got 'Model'"),
        ("a..C", "class_path: expected a text"),
        ({"init_args": {}}, "class_path: expected a text such as package.module.Class, got None"),
        ({"class_path": "a.C", "init_arg": {}}, "init_arg: unknown .did you mean 'init_args'"),
        ({"class_path": "a.C", "init_args": [1]}, r"init_args: expected a mapping of names and values, got \[1\]"),
    ],
)
def test_other_forms_are_refused(value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ClassPath.read(value, key=KEY)


@pytest.mark.parametrize(
    ("path", "init_args", "says"),
    [
        ("no_such_module_here.C", {}, "'no_such_module_here' of .* cannot be imported"),
        ("own_broken_of_test.C", {}, "cannot be imported .ZeroDivisionError"),
        ("own_classes_of_test.Modle", {}, "has no 'Modle' .did you mean 'Model'"),
        ("own_classes_of_test.number", {}, "which is not a class"),
        ("own_classes_of_test.Model", {"widht": 3}, "init_args.widht: .*did you mean 'width'.*num_channels, width"),
        ("own_classes_of_test.Model", {"depth": 3}, "needs width; .* provides: num_channels"),
    ],
)
@pytest.mark.usefixtures("module")
def test_what_cannot_be_made_is_refused(path: str, init_args: dict[str, int], says: str) -> None:
    named = ClassPath.read({"class_path": path, "init_args": init_args}, key=KEY)
    with pytest.raises(ConfigError, match=f"^{KEY}.*{says}"):
        named.make(object, {"num_channels": 5})


def test_a_class_of_another_base_is_refused() -> None:
    named = ClassPath.read("fractions.Fraction", key=KEY)
    assert named.load(Fraction) is Fraction
    with pytest.raises(ConfigError, match=r"subclass of collections\.OrderedDict, got fractions\.Fraction"):
        named.load(OrderedDict)


HOSTILE = """
import sys

class Base: ...

class Exits(Base):
    def __init__(self):
        sys.exit(0)

class Mute(Base):
    class Error(Exception):
        def __str__(self):
            raise ValueError("no text")

    def __init__(self):
        raise self.Error

def __getattr__(name):
    raise RuntimeError(f"no {name} here")
"""


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param("own_hostile_of_test.Exits", "Exits cannot be made: SystemExit: 0", id="a constructor that exits"),
        pytest.param("own_hostile_of_test.Mute", "Error: unreadable message", id="an error without a text"),
        pytest.param("own_hostile_of_test.Lazy", "RuntimeError: no Lazy here", id="a module that fails to give it"),
        pytest.param("own_script_of_test.Model", "cannot be imported .SystemExit: 0", id="a script that exits"),
    ],
)
def test_code_that_ends_the_process_or_hides_its_error_is_told(
    path: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_hostile_of_test.py").write_text(HOSTILE)
    (tmp_path / "own_script_of_test.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"^{KEY}.*{says}"):
        ClassPath.read(path, key=KEY).make(object, {})


def test_an_exception_is_told_with_the_line_of_the_user_that_led_to_it() -> None:
    """The tensor that does not fit is found deep in torch, which says nothing of where it came from."""
    layer = torch.nn.Linear(3, 2)
    with pytest.raises(RuntimeError) as caught:
        layer(torch.zeros(1, 4))
    assert "linear.py" in str(caught.traceback[-1].path)
    assert describe_error(caught.value).endswith(f", at {__file__}:{caught.traceback[0].lineno + 1}")


def test_an_exception_of_a_library_alone_is_told_with_its_own_line() -> None:
    named = ClassPath.read({"class_path": "fractions.Fraction", "init_args": {"numerator": "x"}}, key=KEY)
    with pytest.raises(ConfigError, match=r"ValueError: Invalid literal .*, at .*fractions\.py:\d+"):
        named.make(Fraction, {})
