"""Names to classes and back: algorithms, availability models, tasks and other kinds of parts, also as one word.

A name is looked up in the built-in table, then among the entry points of installed packages; ``package.module:Class``
and ``./file.py:Class`` (relative to the current directory) name any other class. Nothing is imported to list names.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date, time
from functools import cache, cached_property
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from fedswe.core import in_memory
from fedswe.core.value import types_of
from fedswe.errors import FedsweError, mistakes_as, require, suggestion
from fedswe.plugins import NAME_USED, file_of, load, source_digest

T = TypeVar("T")


# kinds of parts, and the names of the built-in ones ------------------------------------------------------
@dataclass(frozen=True)
class Kind:
    """One kind of thing that has a name."""

    base: str  # "module:Class" that every class of this kind derives from
    module: str  # that has the built-in classes
    classes: str  # NAME=Class of each

    @cached_property
    def builtin(self) -> dict[str, str]:
        """The built-in names, with "module:Class" of each."""
        pairs = (word.split("=") for word in self.classes.split())
        return {name: f"{self.module}:{cls}" for name, cls in pairs}


KINDS = {
    "algorithm": Kind(
        "fedswe.core.algorithm:Algorithm",
        "fedswe.algorithms",
        "fedswe=FedSWE fedawe=FedAWE fedavg=FedAvg fedavg_all=FedAvgAll fedavg_known=FedAvgKnown gfedavg=GFedAvg "
        "fedau=FedAU f3ast=F3AST mifa=MIFA fedvarp=FedVARP scaffold=Scaffold amplified_scaffold=AmplifiedScaffold "
        "fedpbc=FedPBC fedswe_variant=FedSWEVariant bounded_fedswe=BoundedFedSWE decayed_memory=DecayedMemory "
        "fedexp=FedExP interval_weights=IntervalWeights interval_extrapolation=IntervalExtrapolation keel=Keel "
        "echo=Echo debiased_fedavg=DebiasedFedAvg fedstale=FedStale fedstale_known=FedStaleKnown fedlaavg=FedLaAvg "
        "mimic=MimiC focus=FOCUS fedasync=FedAsync fedbuff=FedBuff ace=ACE ca2fl=CA2FL area=Area ghbm=GHBM "
        "local_ghbm=LocalGHBM fednova=FedNova",
    ),
    "availability": Kind(
        "fedswe.availability.model:Availability",
        "fedswe.availability",
        "always=Always stationary=Stationary staircase=Staircase sine=Sine interleaved_sine=InterleavedSine "
        "alternating=Alternating cyclic=Cyclic markov=Markov uniform_control=UniformControl daily_markov=DailyMarkov "
        "adversarial=Adversarial outages=Outages join_leave=JoinLeave sampled=Sampled mask=Mask intervals=Intervals",
    ),
    "clock": Kind("fedswe.clock.model:Clock", "fedswe.clock", "rounds=Rounds seconds=Seconds"),
    "task": Kind(
        "fedswe.tasks.problem:Task",
        "fedswe.tasks",
        "quadratic=Quadratic digits=Digits from_data=DataTask npz=Npz svhn=Svhn cifar10=Cifar10 cinic10=Cinic10 "
        "fashion_mnist=FashionMnist",
    ),
    "transform": Kind(
        "fedswe.core.transforms:Transform",
        "fedswe.core.transforms",
        "clip=Clip weight_decay=WeightDecay prox=Prox momentum=Momentum warmup=Warmup adagrad=Adagrad adam=Adam "
        "yogi=Yogi",
    ),
    "output": Kind(
        "fedswe.engine.outputs:Output",
        "fedswe.engine.outputs",
        "server=ServerModel client_mean=ClientMean augmented_mean=AugmentedMean ema=Ema window=Window best=Best",
    ),
    "column": Kind("fedswe.engine.columns:Column", "fedswe.engine.columns", "consensus=Consensus auxiliary=Auxiliary"),
    "tracker": Kind("fedswe.tracking:Tracker", "fedswe.tracking", "tensorboard=TensorBoard mlflow=MLflow wandb=WandB"),
}


def kind_with_base(hint: Any) -> str | None:
    """The kind whose base class this type is."""
    target = f"{hint.__module__}:{hint.__qualname__}" if isinstance(hint, type) else ""
    return next((name for name, kind in KINDS.items() if kind.base == target), None)


def kind_of(cls: type[Any]) -> str | None:
    """The kind of a class, by the base class that it derives from."""
    owners = {f"{owner.__module__}:{owner.__qualname__}" for owner in getattr(cls, "__mro__", ())}
    return next((name for name, kind in KINDS.items() if kind.base in owners), None)


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
    if name.startswith(in_memory.CLASSES):
        return in_memory.find(name.split(":")[0].removeprefix(in_memory.CLASSES), "the script")  # type: ignore[no-any-return]
    published = {point.value for point in _published(kind) if point.name == name}
    require(len(published) < 2, f"{kind} {name} is published by several packages: write {' or '.join(published)}")
    target = published.pop() if published else name
    place, colon, _ = target.rpartition(":")
    if not colon:
        hint = f"name the class, {name}:Class" if name.endswith(".py") else suggestion(name, names(kind))
        raise FedsweError(f"unknown {kind} {name!r}: {hint}")
    require(place and target.rpartition(":")[2], f"unknown {kind} {name!r}: write module:Class or ./file.py:Class")
    file = file_of(place)
    cls = _checked(kind, name, target, file)
    NAME_USED[cls] = (name, file)
    return cls


def find(name: str) -> list[tuple[str, type[Any]]]:
    """The classes with this name, of any kind, with their kinds."""
    if ":" in name:
        cls = load("class", name, name, file_of(name.rpartition(":")[0]))
        kind = "task" if inspect.isfunction(cls) else kind_of(cls)  # no other part can be a function
        if kind is None:
            raise FedsweError(f"{name} has none of the base classes {', '.join(k.base for k in KINDS.values())}")
        return [(kind, resolve(kind, name))]
    found = [(kind, resolve(kind, name)) for kind in KINDS if name in names(kind)]
    if not found:
        known = [known for kind in KINDS for known in names(kind)]
        raise FedsweError(f"unknown name {name!r}: {suggestion(name, known, 'see fedswe list')}")
    return found


_entry_points = cache(entry_points)  # reads a file of every installed package


def _published(kind: str) -> EntryPoints:
    return _entry_points().select(group=f"fedswe.{kind}" if kind == "availability" else f"fedswe.{kind}s")


def _attribute(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


# checks of classes that are not built in -----------------------------------------------------------------
@cache
def _checked(kind: str, name: str, target: str, file: Path | None) -> type[Any]:
    """A class that is not built in, imported and checked."""
    base, cls = _attribute(KINDS[kind].base), load(kind, name, target, file)
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


def _check_parameters(cls: type[Any], here: str) -> None:
    """Refuse a class that cannot be built from a configuration file."""
    decorate = "write @dataclass(frozen=True) above it"
    frozen = is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    require(frozen, f"{here} is not a frozen dataclass: {decorate}")
    with mistakes_as(f"{here}: the type of a parameter cannot be read"):
        hints = get_type_hints(cls)
    parameters = {f.name for f in fields(cls)}
    for key in inspect.get_annotations(cls):
        constant = ClassVar in (hints[key], get_origin(hints[key]))
        require(key in parameters or constant, f"{here} declares {key} but is not a dataclass itself: {decorate}")


# from classes to titles and names ------------------------------------------------------------------------
def title_of(cls: type[Any]) -> str:
    """One line about a class: its title, or else the first line of its docstring."""
    return vars(cls).get("title", "") or (inspect.getdoc(cls) or cls.__name__).partition("\n")[0]


def importable(cls: type[Any]) -> bool:
    """Whether another process can import a class; not those of a script, a cell of a notebook, or a function."""
    stands = cls.__module__ != "__main__" and "." not in cls.__qualname__
    return cls in NAME_USED or (stands and not in_memory.holds(cls))  # a worker has got it under another name


def name_of(kind: str, cls: type[Any]) -> str:
    """The name that finds a class again: as it was asked for, ``module:Class``, or one for this process only."""
    for name, target in KINDS[kind].builtin.items():
        if target.endswith(f":{cls.__qualname__}") and _attribute(target) is cls:
            return name
    if cls in NAME_USED:
        name, file = NAME_USED[cls]
        # A relative path may lead elsewhere by now.
        return name if file in (None, Path(name.rpartition(":")[0]).resolve()) else f"{file}:{cls.__qualname__}"
    return f"{cls.__module__}:{cls.__qualname__}" if importable(cls) else in_memory.class_name(cls)


# from tables and words to parts ---------------------------------------------------------------------------
def instance(kind: str, part: Any, where: str) -> Any:
    """A part from a table with a name, or from a word such as clip:5 or adam:beta1=0.9:beta2=0.99."""
    table = short_form(kind, part, where) if isinstance(part, str) else part
    if not isinstance(table, dict) or "name" not in table:
        raise FedsweError(f"{where}: {part!r} must be a table with a name, or NAME:VALUE")
    parameters = {key: value for key, value in table.items() if key != "name"}
    return build(resolve(kind, table["name"]), parameters, where, of=f" of {table['name']}")


def build(cls: type[T], table: Mapping[str, Any], where: str, of: str = "") -> T:
    """One dataclass from its table, which stands at `where` in a configuration."""
    types = types_of(cls)  # type: ignore[arg-type]
    known = {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]
    for key in table:
        require(key in known, f"unknown key {dotted(where, key)}{of}: {suggestion(key, sorted(known))}")
    for key, f in known.items():
        needed = f.default is MISSING and f.default_factory is MISSING
        require(key in table or not needed, f"{dotted(where, key)} is missing: give it a value")
    values = {key: _prepared(value, types.get(key, Any), dotted(where, key)) for key, value in table.items()}
    try:
        with mistakes_as(f"{cls.__name__} cannot be built"):
            return cls(**values)
    except FedsweError as error:
        of_field = where and re.match(r"\w*", str(error))[0] in known  # type: ignore[index]
        raise FedsweError(f"{where}{'.' if of_field else ': ' if where else ''}{error}") from None


def dotted(*parts: str) -> str:
    """The key of a configuration whose parts these are; the key of the whole is empty."""
    return ".".join(part for part in parts if part)


def _prepared(value: Any, hint: Any, where: str) -> Any:
    """What a user may write shorter than pydantic expects it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(value, date | time) and str in (hint, *arguments):
        return value.isoformat()  # a timestamp without quotes, which TOML has a type for
    if (single := kind_with_base(hint)) and isinstance(value, str | dict):
        return instance(single, value, where)
    kind = kind_with_base(arguments[0]) if origin is tuple else None
    if isinstance(value, str) and (origin is list or kind):
        value = [word.strip() for word in value.split(",") if word.strip()]
    if kind and not isinstance(value, tuple):
        require(isinstance(value, list), f"{where} must be a list such as clip:5,momentum:0.9, not {value!r}")
        return tuple(instance(kind, item, where) for item in value)
    return value


# parts written as one word, NAME:KEY=VALUE:..., as command lines and lists in TOML files have them -------
def split_at(separator: str, text: str) -> list[str]:
    """Split at separators outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def split(kind: str, text: str) -> tuple[str, list[str]]:
    """A name and its parameters: ``fedswe:k=10`` or ``./mine.py:Mine:k=10``."""
    first, *rest = split_at(":", text)
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
