"""Names to classes: the one place where algorithms, availability models, tasks and other parts are found by name.

A name is looked up in the built-in table, then among the entry points of installed packages; ``package.module:Class``
and ``./file.py:Class`` (relative to the current directory) name any other class. Nothing is imported to list names.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import FunctionType, ModuleType, NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, cast, get_args, get_origin, get_type_hints

from fedswe.errors import FedsweError, first_line, located, require, suggestion

FILE_MODULE = "_fedswe_file_"  # begins the module name of a file that was given by its path


@dataclass(frozen=True)
class Kind:
    """One kind of thing that has a name."""

    base: str  # "module:Class" that every class of this kind derives from
    group: str  # entry points of installed packages
    builtin: dict[str, str]  # name to "module:Class"


KINDS = {
    "algorithm": Kind(
        "fedswe.core.algorithm:Algorithm",
        "fedswe.algorithms",
        {
            "fedswe": "fedswe.algorithms.fedswe:FedSWE",
            "fedawe": "fedswe.algorithms.fedswe:FedAWE",
            "fedavg": "fedswe.algorithms.fedavg:FedAvg",
            "fedavg_all": "fedswe.algorithms.fedavg:FedAvgAll",
            "fedavg_known": "fedswe.algorithms.fedavg:FedAvgKnown",
            "gfedavg": "fedswe.algorithms.gfedavg:GFedAvg",
            "fedau": "fedswe.algorithms.fedau:FedAU",
            "f3ast": "fedswe.algorithms.f3ast:F3AST",
            "mifa": "fedswe.algorithms.mifa:MIFA",
            "fedvarp": "fedswe.algorithms.fedvarp:FedVARP",
            "scaffold": "fedswe.algorithms.scaffold:Scaffold",
            "amplified_scaffold": "fedswe.algorithms.scaffold:AmplifiedScaffold",
            "fedpbc": "fedswe.algorithms.fedpbc:FedPBC",
            "fedswe_variant": "fedswe.algorithms.fedswe_variant:FedSWEVariant",
            "bounded_fedswe": "fedswe.algorithms.bounded_fedswe:BoundedFedSWE",
            "decayed_memory": "fedswe.algorithms.decayed_memory:DecayedMemory",
            "interval_weights": "fedswe.algorithms.interval_weights:IntervalWeights",
            "interval_extrapolation": "fedswe.algorithms.interval_extrapolation:IntervalExtrapolation",
            "echo": "fedswe.algorithms.echo:Echo",
            "debiased_fedavg": "fedswe.algorithms.debiased_fedavg:DebiasedFedAvg",
            "fedstale": "fedswe.algorithms.fedstale:FedStale",
            "fedstale_known": "fedswe.algorithms.fedstale:FedStaleKnown",
            "fedlaavg": "fedswe.algorithms.fedlaavg:FedLaAvg",
            "mimic": "fedswe.algorithms.mimic:MimiC",
            "focus": "fedswe.algorithms.focus:FOCUS",
            "fedasync": "fedswe.algorithms.fedasync:FedAsync",
            "fedbuff": "fedswe.algorithms.fedbuff:FedBuff",
            "ace": "fedswe.algorithms.ace:ACE",
            "ca2fl": "fedswe.algorithms.ca2fl:CA2FL",
        },
    ),
    "availability": Kind(
        "fedswe.availability.model:Availability",
        "fedswe.availability",
        {
            "always": "fedswe.availability.dynamics:Always",
            "stationary": "fedswe.availability.dynamics:Stationary",
            "staircase": "fedswe.availability.dynamics:Staircase",
            "sine": "fedswe.availability.dynamics:Sine",
            "interleaved_sine": "fedswe.availability.dynamics:InterleavedSine",
            "alternating": "fedswe.availability.groups:Alternating",
            "cyclic": "fedswe.availability.groups:Cyclic",
            "markov": "fedswe.availability.markov:Markov",
            "uniform_control": "fedswe.availability.uniform_control:UniformControl",
            "daily_markov": "fedswe.availability.daily_markov:DailyMarkov",
            "periodic": "fedswe.availability.turns:Periodic",
            "round_robin": "fedswe.availability.turns:RoundRobin",
            "incremental": "fedswe.availability.turns:Incremental",
            "adversarial": "fedswe.availability.adversarial:Adversarial",
            "regularised": "fedswe.availability.adversarial:Regularised",
            "lowest_label": "fedswe.availability.of_data:LowestLabel",
            "label_count": "fedswe.availability.of_data:LabelCount",
            "label_turns": "fedswe.availability.of_data:LabelTurns",
            "data_size": "fedswe.availability.of_data:DataSize",
            "lognormal": "fedswe.availability.of_data:LogNormal",
            "outages": "fedswe.availability.outages:Outages",
            "join_leave": "fedswe.availability.join_leave:JoinLeave",
            "sampled": "fedswe.availability.sampled:Sampled",
            "never_empty": "fedswe.availability.sampled:NeverEmpty",
            "mask": "fedswe.availability.mask:Mask",
            "intervals": "fedswe.availability.intervals:Intervals",
        },
    ),
    "clock": Kind(
        "fedswe.clock.model:Clock",
        "fedswe.clocks",
        {
            "rounds": "fedswe.clock.model:Rounds",
            "seconds": "fedswe.clock.seconds:Seconds",
        },
    ),
    "task": Kind(
        "fedswe.tasks.problem:Task",
        "fedswe.tasks",
        {
            "quadratic": "fedswe.tasks.quadratic:Quadratic",
            "digits": "fedswe.tasks.digits:Digits",
            "from_data": "fedswe.tasks.from_data:DataTask",
            "npz": "fedswe.tasks.npz:Npz",
            "svhn": "fedswe.tasks.images:Svhn",
            "cifar10": "fedswe.tasks.images:Cifar10",
            "cinic10": "fedswe.tasks.images:Cinic10",
            "fashion_mnist": "fedswe.tasks.images:FashionMnist",
        },
    ),
    "transform": Kind(
        "fedswe.core.transforms:Transform",
        "fedswe.transforms",
        {
            "clip": "fedswe.core.transforms:Clip",
            "weight_decay": "fedswe.core.transforms:WeightDecay",
            "prox": "fedswe.core.transforms:Prox",
            "momentum": "fedswe.core.transforms:Momentum",
            "adagrad": "fedswe.core.transforms:Adagrad",
            "adam": "fedswe.core.transforms:Adam",
            "yogi": "fedswe.core.transforms:Yogi",
        },
    ),
    "output": Kind(
        "fedswe.engine.outputs:Output",
        "fedswe.outputs",
        {
            "server": "fedswe.engine.outputs:ServerModel",
            "client_mean": "fedswe.engine.outputs:ClientMean",
            "augmented_mean": "fedswe.engine.outputs:AugmentedMean",
            "ema": "fedswe.engine.outputs:Ema",
            "window": "fedswe.engine.outputs:Window",
            "best": "fedswe.engine.best:Best",
        },
    ),
    "column": Kind(
        "fedswe.engine.columns:Column",
        "fedswe.columns",
        {
            "consensus": "fedswe.engine.columns:Consensus",
            "auxiliary": "fedswe.engine.columns:Auxiliary",
        },
    ),
    "tracker": Kind(
        "fedswe.tracking.tracker:Tracker",
        "fedswe.trackers",
        {
            "tensorboard": "fedswe.tracking.tensorboard:TensorBoard",
            "mlflow": "fedswe.tracking.mlflow:MLflow",
            "wandb": "fedswe.tracking.wandb:WandB",
        },
    ),
}


# from names to classes -----------------------------------------------------------------------------------
def names(kind: str) -> list[str]:
    """The built-in names and those of installed packages; nothing is imported."""
    return list(dict.fromkeys([*KINDS[kind].builtin, *(point.name for point in _published(kind))]))


def titles(kind: str) -> dict[str, str]:
    """One line about each name; for a class of an installed package that cannot be used, the reason."""
    found = {}
    for name in names(kind):
        try:
            found[name] = title_of(resolve(kind, name))
        except FedsweError as error:
            found[name] = f"cannot be used: {error}"
    return found


def resolve(kind: str, name: object) -> type[Any]:
    """The class with this name. Whatever is wrong with it is said in one line."""
    builtin = KINDS[kind].builtin
    if not isinstance(name, str):
        raise FedsweError(f"unknown {kind} {name!r}: give a name in quotes")
    if name in builtin:
        return _attribute(builtin[name])  # type: ignore[no-any-return]
    published = {point.value for point in _published(kind) if point.name == name}
    require(len(published) < 2, f"{kind} {name} is published by several packages: write {' or '.join(published)}")
    target = published.pop() if published else name
    place, colon, _ = target.rpartition(":")
    if not colon:
        hint = f"name the class, {name}:Class" if name.endswith(".py") else suggestion(name, names(kind))
        raise FedsweError(f"unknown {kind} {name!r}: {hint}")
    require(place and target.rpartition(":")[2], f"unknown {kind} {name!r}: write module:Class or ./file.py:Class")
    file = _file(place)
    if target == name:
        _require_allowed(kind, name, file)
    cls = _checked(kind, name, target, file)
    _NAME_USED[cls] = (name, file)
    return cls


def find(name: str) -> list[tuple[str, type[Any]]]:
    """The classes with this name, of any kind, with their kinds."""
    if ":" in name:
        cls = _load("class", name, name, _file(name.rpartition(":")[0]))
        if inspect.isfunction(cls):  # of a task: no other part can be a function
            return [("task", resolve("task", name))]
        kinds = [kind for owner in getattr(cls, "__mro__", ()) if (kind := kind_with_base(owner))]
        require(kinds, f"{name} derives from none of the base classes: {', '.join(k.base for k in KINDS.values())}")
        return [(kinds[0], resolve(kinds[0], name))]
    found = [(kind, resolve(kind, name)) for kind in KINDS if name in names(kind)]
    if not found:
        known = [known for kind in KINDS for known in names(kind)]
        raise FedsweError(f"unknown name {name!r}: {suggestion(name, known, 'see fedswe list')}")
    return found


def _file(place: str) -> Path | None:
    """The file that a name such as ``./file.py:Class`` begins with; None for a module."""
    return Path(place).resolve() if place.endswith(".py") or "/" in place else None


def split(kind: str, text: str) -> tuple[str, list[str]]:
    """A name and its parameters: ``fedswe:k=10`` or ``./mine.py:Mine:k=10``."""
    first, *rest = text.split(":")
    # The class after a module or a file is an identifier; a parameter is key=value or a number.
    if rest and rest[0].isidentifier() and first not in names(kind):
        return f"{first}:{rest[0]}", rest[1:]
    return first, rest


def short_form(kind: str, text: str, where: str) -> dict[str, Any]:
    """A part written as NAME, NAME:VALUE or NAME:KEY=VALUE:..., as a table. A value alone is for the first field."""
    name, parameters = split(kind, text)
    keys = [f.name for f in fields(resolve(kind, name)) if f.init]
    table: dict[str, Any] = {"name": name}
    for word in parameters:
        key, equals, value = word.partition("=")
        if not equals:
            require(keys and keys[0] not in table, f"{where}: {name} takes no value {word!r}: write key=value")
            key, value = keys[0], word
        require(key not in table, f"{where}: {name} names {key} twice")
        require(key in keys, f"unknown key {where}.{key} of {name}: {suggestion(key, keys)}")
        table[key] = toml_value(value)
    return table


def toml_value(text: str) -> Any:
    """A TOML value; a word without quotes is a text, also inside a list."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except RecursionError:
        raise FedsweError(f"cannot read {text[:20]}...: too many lists in lists") from None
    except ValueError:
        if text.startswith("[") and text.endswith("]"):
            return [toml_value(word.strip()) for word in text[1:-1].split(",")]
        return text


def instance(kind: str, text: str, where: str) -> Any:
    """An output or column from its short form."""
    require(isinstance(text, str), f"unknown {kind} {text!r}: give a name in quotes")
    table = short_form(kind, text, where)
    cls = resolve(kind, table.pop("name"))
    try:
        return cls(**table)
    except FedsweError as error:
        raise FedsweError(f"{where}: {error}") from None
    except Exception as error:  # a user's class may raise anything
        raise FedsweError(f"{where}: {text} cannot be built ({located(error) or first_line(error)})") from None


# configurations of others --------------------------------------------------------------------------------
class ForeignCode(FedsweError):
    """A part of somebody else's configuration that is not imported."""


@dataclass(frozen=True)
class _Allowed:
    folder: Path | None
    names: frozenset[str]


_ALLOWED: ContextVar[_Allowed | None] = ContextVar("allowed", default=None)


@contextmanager
def only_code_of(folder: Path | None, names: Iterable[str] = ()) -> Iterator[None]:
    """Refuse parts that are neither built in nor published by an installed package, nor in `folder`, nor in `names`.

    For the configuration of somebody else, which may name any file as code to run.
    """
    path = [] if folder is None else [str(folder.resolve())]
    before = _ALLOWED.set(_Allowed(folder and folder.resolve(), frozenset(names)))
    sys.path[:0] = path
    try:
        yield
    finally:
        _ALLOWED.reset(before)
        for entry in path:
            sys.path.remove(entry)


def _require_allowed(kind: str, name: str, file: Path | None) -> None:
    allowed = _ALLOWED.get()
    if allowed is None or name in allowed.names:
        return
    if (folder := allowed.folder) is not None:
        package = name.partition(":")[0].partition(".")[0]
        if PathFinder.find_spec(package, [str(folder)]) if file is None else file.is_relative_to(folder):
            return
    known = "not built in" if folder is None else f"not in {folder}"
    raise ForeignCode(f"the {kind} {name} is {known}: name the folder in which you have its code with --app")


_entry_points = cache(entry_points)  # reads a file of every installed package


def _published(kind: str) -> EntryPoints:
    return _entry_points().select(group=KINDS[kind].group)


def _attribute(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


@cache
def _checked(kind: str, name: str, target: str, file: Path | None) -> type[Any]:
    """A class that is not built in, imported and checked."""
    base, cls = _attribute(KINDS[kind].base), _load(kind, name, target, file)
    if inspect.isfunction(cls) and hasattr(base, "from_function"):
        cls = base.from_function(cls)
    here = f"{kind} {name}: {target.rpartition(':')[2]}"
    derived = isinstance(cls, type) and issubclass(cls, base)
    require(derived, f"{here} is not a class derived from {base.__module__}.{base.__name__}")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    require(not missing, f"{here} is abstract: define {', '.join(missing)}")
    _check_parameters(cls, here)
    source_digest(cls)
    return cls  # type: ignore[no-any-return]


def _load(kind: str, name: str, target: str, file: Path | None) -> Any:
    """What ``module:Class`` or ``file.py:Class`` stands for, not yet checked."""
    place, _, attribute = target.rpartition(":")
    try:
        module = _import_module(place) if file is None else _import_file(file, place)
    except FedsweError:
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise FedsweError(f"{kind} {name}: cannot import {place} ({located(error) or first_line(error)})") from None
    if not hasattr(module, attribute):
        own = (type, FunctionType) if kind in ("task", "model", "class") else type
        classes = [key for key, value in vars(module).items() if isinstance(value, own)]
        raise FedsweError(f"{kind} {name}: {place} has no class {attribute}: {suggestion(attribute, classes)}")
    return getattr(module, attribute)


def function(what: str, name: str) -> Callable[..., Any]:
    """The function of a user that ``module:function`` or ``file.py:function`` names."""
    file = _file(name.rpartition(":")[0])
    _require_allowed(what, name, file)
    found = _load(what, name, name, file)
    require(callable(found), f"{what} {name}: {name.rpartition(':')[2]} is not a function")
    _NAME_USED[found] = (name, file)
    return cast(Callable[..., Any], found)


def called(what: str, name: str, *arguments: object) -> Any:
    """What a user's function returns; it takes the arguments, or none."""
    found = function(what, name)
    try:
        takes = len(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        takes = 0
    require(
        takes in (0, len(arguments)), f"{what} {name}: it must take {len(arguments)} arguments or none, not {takes}"
    )
    try:
        return found(*arguments[:takes])
    except FedsweError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise FedsweError(f"{what} {name} cannot be made ({first_line(error)})") from None


def _import_module(name: str) -> ModuleType:
    # The command `fedswe` does not have the current directory on its path, `python -m fedswe` has.
    if _ALLOWED.get() is None and os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    importlib.invalidate_caches()  # the file may be younger than the last look into its directory
    return importlib.import_module(name)


def _import_file(path: Path, place: str) -> ModuleType:
    if not path.is_file():
        raise FedsweError(f"{place}: there is no file {path}; a relative path begins where the command is given")
    name = f"{FILE_MODULE}{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # it may import the files beside it
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look up the module of a class by its name
    try:
        # Compiled from the text itself: stored bytecode may be that of a version of the same second and length.
        exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# parameters ----------------------------------------------------------------------------------------------
def _check_parameters(cls: type[Any], here: str) -> None:
    """Refuse a class that cannot be built from a configuration file."""
    decorate = "write @dataclass(frozen=True) above it"
    frozen = is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    require(frozen, f"{here} is not a frozen dataclass: {decorate}")
    try:
        hints = get_type_hints(cls)
    except Exception as error:
        raise FedsweError(f"{here}: the type of a parameter cannot be read ({first_line(error)})") from None
    parameters = {f.name for f in fields(cls)}
    for key in inspect.get_annotations(cls):
        constant = ClassVar in (hints[key], get_origin(hints[key]))
        require(key in parameters or constant, f"{here} declares {key} but is not a dataclass itself: {decorate}")
    for f in fields(cls):
        plain = not f.init or _plain(hints[f.name])
        require(plain, f"{here}: TOML cannot hold {f.name}: use numbers, texts, booleans or lists of them")


def _plain(hint: Any) -> bool:
    """Whether TOML can hold the values of a type."""
    if get_origin(hint) in (list, tuple, dict, Union, UnionType):
        return all(_plain(argument) for argument in get_args(hint) if argument is not Ellipsis)
    plain = hint in (bool, int, float, str, NoneType, Any) or get_origin(hint) is Literal
    return plain or kind_with_base(hint) is not None


def kind_with_base(hint: Any) -> str | None:
    """The kind whose base class this type is."""
    target = f"{hint.__module__}:{hint.__qualname__}" if isinstance(hint, type) else ""
    return next((name for name, kind in KINDS.items() if kind.base == target), None)


# from classes to titles, names and places ----------------------------------------------------------------
_NAME_USED: dict[type[Any], tuple[str, Path | None]] = {}  # the name by which a class was found last, and its file


def own_names() -> list[str]:
    """The classes that are not built in and were found by name in this process."""
    return [name for name, _ in _NAME_USED.values()]


def title_of(cls: type[Any]) -> str:
    """One line about a class: its title, or else the first line of its docstring."""
    return vars(cls).get("title", "") or (inspect.getdoc(cls) or cls.__name__).partition("\n")[0]


def name_of(kind: str, cls: type[Any]) -> str:
    """The name that finds a class again: as it was asked for, or else ``module:Class``."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for name, value in KINDS[kind].builtin.items():
        if value == target:
            return name
    if cls in _NAME_USED:
        name, file = _NAME_USED[cls]
        # A relative path may lead elsewhere by now.
        return name if file in (None, Path(name.rpartition(":")[0]).resolve()) else f"{file}:{cls.__qualname__}"
    require(
        cls.__module__ != "__main__" and "." not in cls.__qualname__,
        f"the {kind} {cls.__name__} cannot be imported again: move it from the script or function into a file of its "
        "own, and import it from there",
    )
    return target


def place_of(cls: type[Any]) -> str:
    """The file or module that a class was found in, as the user named it."""
    name, file = _NAME_USED.get(cls, ("", None))
    return name.rpartition(":")[0] if file else cls.__module__


_DIGESTS: dict[type[Any], str] = {}  # of source files as they were when this process first used them: what runs


def source_digest(cls: type[Any]) -> str:
    """The sha256 of the file that defines a class."""
    if cls not in _DIGESTS:
        try:
            _DIGESTS[cls] = hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()
        except (OSError, TypeError):
            _DIGESTS[cls] = "unknown"  # it was not read from a file
    return _DIGESTS[cls]
