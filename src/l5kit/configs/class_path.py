"""Class paths: classes of users that a configuration names, with what they are made of; those of trainings."""

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
"""Folders of libraries."""

_NOT_OF_USERS: Final = (Path(__file__).resolve().parents[1], Path(sysconfig.get_path("stdlib")))
"""Folders of l5kit and of Python's own library."""

_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

ClassMapping = dict[str, Any]
"""``class_path`` and ``init_args``, as :class:`ClassPath` reads them."""

ClassValue = str | ClassMapping
"""A class path alone, or with arguments."""

_MODEL, _LOSS = "model_params.model", "model_params.loss"

_OPTIMIZER, _CALLBACKS = "train_params.optimizer", "train_params.callbacks"


@dataclass(frozen=True)
class ClassPath:
    """A class by its path, and arguments that it is made with.

    Reading one imports nothing; :meth:`load` does, and runs what the module of the class runs when it is imported.

    Attributes:
        key: Where it stands in the configuration; errors name it.
        class_path: Module and name, with a dot between them.
        init_args: Arguments by name; they go before those of a context.
    """

    key: str
    class_path: str
    init_args: JsonObject = field(default_factory=dict)

    @classmethod
    def read(cls, value: object, *, key: str, package: str = "") -> Self:
        """Read a class path as it stands in a configuration.

        Args:
            value: A text, or a mapping with ``class_path`` and, where there are any, ``init_args``.
            key: Where it stands, such as ``model_params.model``.
            package: Module of names without a dot, such as ``torch.optim``; none without it.

        Raises:
            ConfigError: It has another form.
        """
        if isinstance(value, str):
            value = {"class_path": value}
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key}: expected {_FORM}, got {value!r}")
        unknown = [str(name) for name in value if name not in ("class_path", "init_args")]
        if unknown:
            raise ConfigError(
                f"{key}.{unknown[0]}: unknown{did_you_mean(unknown[0], ['class_path', 'init_args'])}; "
                "arguments of the class stand under init_args"
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
            base: What it has to be a subclass of.

        Raises:
            ConfigError: Its module cannot be imported or lacks the name, or it is no class of that kind, or one that
                lacks methods.
        """
        module_name, _, name = self.class_path.rpartition(".")
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:  # a script ends itself when it is imported
            raise ConfigError(
                f"{self.key}.class_path: module {module_name!r} of {self.class_path} cannot be imported "
                f"({describe_error(error)}); install it, or put its folder on PYTHONPATH"
            ) from error
        try:
            named: object = getattr(module, name, None)  # for which a module may run code of its own
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{self.key}.class_path: {self.class_path} cannot be imported ({describe_error(error)}); "
                "name a class that its module gives"
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
                f"got {self.class_path}, which is {f'a class with bases {bases}' if is_class else 'no class'}"
                f"{did_you_mean(name, names)}"
            )
        lacking = sorted(getattr(named, "__abstractmethods__", ()))
        if lacking:
            raise ConfigError(
                f"{self.key}.class_path: {self.class_path} is abstract, it lacks {', '.join(lacking)}; "
                "name a class that defines them"
            )
        return named

    def make(self, base: type[_T], context: Mapping[str, object], *given: object) -> _T:
        """Make an object of the class.

        It gets those parts of the context that its signature names, and ``init_args``, which go before them. A
        ``**kwargs`` of its signature takes init_args only.

        Args:
            base: What it has to be a subclass of.
            context: Arguments that it may ask for, by name.
            *given: Its first arguments, such as the weights that an optimiser changes, whatever it calls them.

        Raises:
            ConfigError: As :meth:`load`; or it takes none of the ``init_args``, or needs arguments that nobody gives,
                or raises an exception.
        """
        made = self.load(base)
        try:
            signature = inspect.signature(made)
        except ValueError:  # of classes in C: they say themselves what they take
            arguments = dict(self.init_args)
        else:
            arguments = self._arguments_of(signature, context, len(given))
        try:
            return made(*given, **arguments)
        except (Exception, SystemExit) as error:  # whatever a class of a user raises, the key that named it is told
            raise ConfigError(f"{self.key}: {self.class_path} cannot be made: {describe_error(error)}") from error

    def _arguments_of(
        self, signature: inspect.Signature, context: Mapping[str, object], num_given: int
    ) -> dict[str, object]:
        """Return what a class of this signature is called with by name, after its first arguments."""
        # the first arguments go to the first parameters, whatever their names; the rest are taken by theirs
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

        # what is under init_args must be an argument of the class, and none that l5kit itself gives
        taken = {p.name: p for p in rest if p.kind in _BY_NAME}
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        for name in self.init_args:
            if name in [p.name for p in first]:
                raise ConfigError(f"{self.key}.init_args.{name}: l5kit gives this one itself; leave it out")
            if name not in taken and not takes_all:
                raise ConfigError(
                    f"{self.key}.init_args.{name}: {self.class_path} takes no such argument"
                    f"{did_you_mean(name, list(taken))}; it takes {', '.join(taken) or 'none'}"
                )

        # the rest comes from what is offered, where the class has an argument of that name
        arguments = {name: context[name] for name in taken if name in context} | self.init_args
        missing = [name for name, p in taken.items() if p.default is p.empty and name not in arguments]
        if missing:
            raise ConfigError(
                f"{self.key}.init_args: {self.class_path} needs {', '.join(missing)}; give a value under init_args, "
                f"or take from what is offered: {', '.join(context) or 'nothing'}"
            )
        return arguments


def describe_error(error: BaseException) -> str:
    """Return an exception of a user's code in a line: its type, what it says, and where it was raised."""
    try:
        lines = str(error).strip().splitlines() or ["no message"]
    except Exception:  # its own text is the user's code too
        lines = ["no message that can be read"]
    frames = traceback.extract_tb(error.__traceback__)
    message = f"{type(error).__name__}: {lines[0]}"
    # a module that is missing is reported by the import system, which is no code to look at
    if not frames or frames[-1].filename.startswith("<"):
        return message

    # file and line of the innermost code of the user; of a library or of l5kit where there is none
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
    """Classes of users, as the configuration names them; nothing is imported."""

    model_value: Annotated[
        ClassValue | None,
        Key(
            "class of a [model of your own](own_model.md), a `torch.nn.Module`; its code is run",
            at=_MODEL,
            otherwise="that of the workflow",
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
            "class of the optimiser, also by its name in `torch.optim`; its code is run",
            at=_OPTIMIZER,
            otherwise="`Adam`, `AdamW` where `weight_decay` is above 0",
        ),
    ] = None
    callback_values: Annotated[
        tuple[ClassValue, ...],
        Key(
            "classes of Lightning callbacks, also by their names in `lightning.pytorch.callbacks`; their code is run",
            at=_CALLBACKS,
            otherwise="none",
        ),
    ] = ()

    def all(self) -> tuple[ClassPath, ...]:
        """Return all of them.

        Raises:
            ConfigError: One has another form than a class path.
        """
        return tuple(each for each in (self.model, self.loss, self.optimizer, *self.callbacks) if each is not None)

    @property
    def model(self) -> ClassPath | None:
        """The model; None for that of the workflow."""
        return None if self.model_value is None else ClassPath.read(self.model_value, key=_MODEL)

    @property
    def loss(self) -> ClassPath | None:
        """The loss of that model; None for one that gives its losses itself."""
        return None if self.loss_value is None else ClassPath.read(self.loss_value, key=_LOSS)

    @property
    def optimizer(self) -> ClassPath | None:
        """The optimiser; None for Adam or AdamW."""
        if self.optimizer_value is None:
            return None
        return ClassPath.read(self.optimizer_value, key=_OPTIMIZER, package="torch.optim")

    @property
    def callbacks(self) -> tuple[ClassPath, ...]:
        """Callbacks in their order."""
        package = "lightning.pytorch.callbacks"
        return tuple(
            ClassPath.read(value, key=f"{_CALLBACKS}[{number}]", package=package)
            for number, value in enumerate(self.callback_values)
        )
