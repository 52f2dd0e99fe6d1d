"""Class paths: user classes that a configuration names, with their arguments, and the classes of a training."""

import importlib
import inspect
import sysconfig
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from l5kit._types import JsonObject
from l5kit.configs.kinds import Key
from l5kit.configs.reading import Params
from l5kit.configs.texts import did_you_mean
from l5kit.errors import ConfigError

_T = TypeVar("_T")

_FORM: Final = "a text such as package.module.Class, or a mapping of class_path and init_args"

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
"""Folder names of installed libraries."""

_NOT_OF_USERS: Final = (Path(__file__).resolve().parents[1], Path(sysconfig.get_path("stdlib")))
"""Folders of l5kit and of the standard library."""

_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

ClassMapping = dict[str, Any]
"""A mapping with ``class_path`` and ``init_args``, the input of :meth:`ClassPath.read`."""

ClassValue = str | ClassMapping
"""A class path, alone or with arguments."""

_MODEL, _LOSS = "model_params.model", "model_params.loss"

_OPTIMIZER, _CALLBACKS = "train_params.optimizer", "train_params.callbacks"


@dataclass(frozen=True)
class ClassPath:
    """Import path of a class and the arguments for its constructor.

    Reading a class path imports nothing; :meth:`load` imports the module of the class, which runs its code.

    Attributes:
        key: Key of the configuration that names the class, for error texts.
        class_path: Module and class name, separated by a dot.
        init_args: Keyword arguments; they override those of a context.
    """

    key: str
    class_path: str
    init_args: JsonObject = field(default_factory=dict)

    @classmethod
    def read(cls, value: object, *, key: str, package: str = "") -> Self:
        """Read a class path from the value of a configuration key.

        Args:
            value: A text, or a mapping with ``class_path`` and optionally ``init_args``.
            key: Path of the key, such as ``model_params.model``.
            package: Module that resolves names without a dot, such as ``torch.optim``; if empty, they are refused.

        Raises:
            ConfigError: The value is neither, or a part of it is malformed.
        """
        if isinstance(value, str):
            value = {"class_path": value}
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key}: expected {_FORM}, got {value!r}")
        unknown = [str(name) for name in value if name not in ("class_path", "init_args")]
        if unknown:
            raise ConfigError(
                f"{key}.{unknown[0]}: unknown{did_you_mean(unknown[0], ['class_path', 'init_args'])}; "
                "put the arguments of the class under init_args"
            )
        path, init_args = value.get("class_path"), value.get("init_args")
        if package and isinstance(path, str) and path.isidentifier():
            path = f"{package}.{path}"
        if not isinstance(path, str) or "." not in path or not all(map(str.isidentifier, path.split("."))):
            short = f", or the name of a class of {package}" if package else ""
            raise ConfigError(f"{key}.class_path: expected a text such as package.module.Class{short}, got {path!r}")
        init_args = {} if init_args is None else init_args
        if not isinstance(init_args, Mapping) or not all(isinstance(name, str) for name in init_args):
            raise ConfigError(f"{key}.init_args: expected a mapping of names and values, got {init_args!r}")
        return cls(key, path, dict(init_args))

    def load(self, base: type[_T]) -> type[_T]:
        """Import the class.

        Args:
            base: Required base class.

        Raises:
            ConfigError: The module cannot be imported or lacks the name, or the name is not a subclass of ``base``, or
                it is an abstract class.
        """
        module_name, _, name = self.class_path.rpartition(".")
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:  # a script may exit when it is imported
            raise ConfigError(
                f"{self.key}.class_path: module {module_name!r} of {self.class_path} cannot be imported "
                f"({describe_error(error)}); install it, or put its folder on PYTHONPATH"
            ) from error
        try:
            named: object = getattr(module, name, None)  # may call the module's __getattr__
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{self.key}.class_path: {self.class_path} cannot be imported ({describe_error(error)}); "
                "name a class of its module"
            ) from error
        names = [n for n, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base)]
        if named is None:
            raise ConfigError(
                f"{self.key}.class_path: module {module_name} has no {name!r}{did_you_mean(name, names)}; "
                "give the name of a class that the module defines"
            )
        if not inspect.isclass(named) or not issubclass(named, base):
            is_class = isinstance(named, type)
            bases = [each.__qualname__ for each in named.__bases__] if isinstance(named, type) else []
            raise ConfigError(
                f"{self.key}.class_path: expected a subclass of {base.__module__}.{base.__qualname__}, "
                f"got {self.class_path}, which is {f'a class with bases {bases}' if is_class else 'not a class'}"
                f"{did_you_mean(name, names)}"
            )
        lacking = sorted(getattr(named, "__abstractmethods__", ()))
        if lacking:
            raise ConfigError(
                f"{self.key}.class_path: {self.class_path} is abstract and lacks {', '.join(lacking)}; "
                "name a class that defines them"
            )
        return named

    def make(self, base: type[_T], context: Mapping[str, object], *given: object) -> _T:
        """Create an object of the class.

        The constructor receives ``init_args`` and those items of the context that its signature names; ``init_args``
        take precedence. A ``**kwargs`` parameter receives ``init_args`` only.

        Args:
            base: Required base class.
            context: Arguments that the class may ask for, by name.
            *given: First positional arguments, such as the weights for an optimiser, whatever their parameter names.

        Raises:
            ConfigError: As :meth:`load`; or the class does not accept an item of ``init_args``, lacks a required
                argument, or raises an exception.
        """
        made = self.load(base)
        try:
            signature = inspect.signature(made)
        except ValueError:  # classes in C have no signature and check their arguments
            arguments = dict(self.init_args)
        else:
            arguments = self._arguments_of(signature, context, len(given))
        try:
            return made(*given, **arguments)
        except (Exception, SystemExit) as error:  # user code may raise anything; name the key
            raise ConfigError(f"{self.key}: {self.class_path} cannot be made: {describe_error(error)}") from error

    def _arguments_of(
        self, signature: inspect.Signature, context: Mapping[str, object], num_given: int
    ) -> dict[str, object]:
        """Return the keyword arguments for a class of this signature, after its positional arguments."""
        # the positional arguments go to the first parameters, whatever their names; the others are passed by name
        parameters = list(signature.parameters.values())
        first = [p for p in parameters if p.kind in _BY_POSITION][:num_given]
        rest = [p for p in parameters if p not in first]
        if len(first) < num_given and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
            raise ConfigError(f"{self.key}.class_path: {self.class_path} takes no {num_given} arguments by position")
        needed = [p.name for p in rest if p.kind is inspect.Parameter.POSITIONAL_ONLY and p.default is p.empty]
        if needed:
            raise ConfigError(
                f"{self.key}.class_path: {self.class_path} takes {', '.join(needed)} by position only, and "
                "configurations name arguments; write a class that takes them by name"
            )

        # init_args must be parameters of the class, and must not repeat an argument that l5kit passes
        taken = {p.name: p for p in rest if p.kind in _BY_NAME}
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        for name in self.init_args:
            if name in [p.name for p in first]:
                raise ConfigError(f"{self.key}.init_args.{name}: l5kit passes this argument itself; remove it")
            if name not in taken and not takes_all:
                raise ConfigError(
                    f"{self.key}.init_args.{name}: {self.class_path} takes no such argument"
                    f"{did_you_mean(name, list(taken))}; it takes {', '.join(taken) or 'none'}"
                )

        # the context provides the other arguments that the class names
        arguments = {name: context[name] for name in taken if name in context} | self.init_args
        missing = [name for name, p in taken.items() if p.default is p.empty and name not in arguments]
        if missing:
            raise ConfigError(
                f"{self.key}.init_args: {self.class_path} needs {', '.join(missing)}; give a value under init_args, "
                f"or use a name that l5kit provides: {', '.join(context) or 'nothing'}"
            )
        return arguments


def describe_error(error: BaseException) -> str:
    """Describe an exception of user code in one line: its type, its message, and the file and line that raised it."""
    try:
        lines = str(error).strip().splitlines() or ["no message"]
    except Exception:  # str() may run user code as well
        lines = ["unreadable message"]
    frames = traceback.extract_tb(error.__traceback__)
    message = f"{type(error).__name__}: {lines[0]}"
    # a missing module is reported by the import system, which has no file and line to point to
    if not frames or frames[-1].filename.startswith("<"):
        return message

    # innermost line of user code, else of a library or l5kit
    of_user = []
    for frame in frames:
        file = Path(frame.filename)
        is_known = any(folder in file.parents for folder in _NOT_OF_USERS) or bool(_INSTALLED & set(file.parts))
        if not is_known and not file.name.startswith("<"):
            of_user.append(frame)
    innermost = (of_user or list(frames))[-1]
    return f"{message}, at {innermost.filename}:{innermost.lineno}"


@dataclass(frozen=True, kw_only=True)
class OwnClasses(Params):
    """Classes of users that a configuration names; nothing is imported."""

    model_value: Annotated[
        ClassValue | None,
        Key(
            "class of a [model of your own](own_model.md), a `torch.nn.Module`; its code is run",
            at=_MODEL,
            otherwise="the model of the workflow",
        ),
    ] = None
    loss_value: Annotated[
        ClassValue | None,
        Key(
            "class of the loss of your own model, a `torch.nn.Module` of its outputs and the batch; its code is run",
            at=_LOSS,
            otherwise="the model returns its losses itself",
        ),
    ] = None
    optimizer_value: Annotated[
        ClassValue | None,
        Key(
            "class of the optimiser, or just its name in `torch.optim`; its code is run",
            at=_OPTIMIZER,
            otherwise="`Adam`, `AdamW` if `weight_decay` is above 0",
        ),
    ] = None
    callback_values: Annotated[
        tuple[ClassValue, ...],
        Key(
            "classes of Lightning callbacks, or just their names in `lightning.pytorch.callbacks`; their code is run",
            at=_CALLBACKS,
            otherwise="none",
        ),
    ] = ()

    def all(self) -> tuple[ClassPath, ...]:
        """Return all class paths.

        Raises:
            ConfigError: A class path is malformed.
        """
        return tuple(each for each in (self.model, self.loss, self.optimizer, *self.callbacks) if each is not None)

    @property
    def model(self) -> ClassPath | None:
        """The model class; None for the model of the workflow."""
        return None if self.model_value is None else ClassPath.read(self.model_value, key=_MODEL)

    @property
    def loss(self) -> ClassPath | None:
        """The loss class; None if the model computes its losses itself."""
        return None if self.loss_value is None else ClassPath.read(self.loss_value, key=_LOSS)

    @property
    def optimizer(self) -> ClassPath | None:
        """The optimiser class; None for Adam or AdamW."""
        if self.optimizer_value is None:
            return None
        return ClassPath.read(self.optimizer_value, key=_OPTIMIZER, package="torch.optim")

    @property
    def callbacks(self) -> tuple[ClassPath, ...]:
        """The callback classes, in the given order."""
        package = "lightning.pytorch.callbacks"
        return tuple(
            ClassPath.read(value, key=f"{_CALLBACKS}[{number}]", package=package)
            for number, value in enumerate(self.callback_values)
        )
