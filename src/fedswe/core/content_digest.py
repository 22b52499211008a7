"""The digest of things that a script holds in memory: arrays, modules, functions with all they depend on.

Equal digests mean equal content, also in another process; what cannot be described gets a digest of its own every time.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from fedswe.errors import is_installed

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# of methods, static methods, properties, cached properties and partial functions
_PARTS = ("__func__", "__self__", "fget", "fset", "func", "args", "keywords")


def digest(*parts: Any, without: Iterable[str] = ()) -> str:
    """SHA-256 of the parts, in order; of modules without the values of the parameters with these names."""
    return _Description(frozenset(without)).of(parts)


class _Description:
    def __init__(self, without: frozenset[str]) -> None:
        self._without = without
        self._done: dict[int, tuple[Any, str]] = {}  # by id, with the object, whose id is not used again while it lives
        self._open: dict[int, int] = {}  # depth of the objects that are being described: a cycle leads back to them

    def of(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return _hash([type(value).__name__, repr(value)])
        if id(value) in self._open:
            return f"inside {self._open[id(value)]}"
        if id(value) not in self._done:
            self._open[id(value)] = len(self._open)
            found = _hash(self._lines(value))
            del self._open[id(value)]
            self._done[id(value)] = value, found
        return self._done[id(value)][1]

    def _lines(self, value: Any) -> Iterable[Any]:
        yield type(value).__qualname__
        if isinstance(value, np.ndarray) and value.dtype != object:
            yield value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest()
        elif isinstance(value, set | frozenset):
            yield from sorted(self.of(item) for item in value)
        elif isinstance(value, Mapping):
            yield from sorted(f"{self.of(key)} {self.of(item)}" for key, item in value.items())
        elif isinstance(value, list | tuple | np.ndarray):
            yield from map(self.of, value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, ModuleType):
            yield value.__name__
        elif inspect.isbuiltin(value) or (inspect.ismethoddescriptor(value) and not hasattr(value, "__func__")):
            yield getattr(value, "__qualname__", "")
        elif hasattr(value, "untyped_storage"):
            yield from self._tensor(value)
        elif hasattr(value, "named_modules"):
            yield from self._network(value)
        elif names := [name for name in _PARTS if hasattr(value, name)]:
            yield from (f"{name} {self.of(getattr(value, name))}" for name in names)
        elif hasattr(value, "__dict__"):
            yield from map(self.of, (type(value), vars(value)))
        else:
            yield _pickled(value)

    def _tensor(self, value: Any) -> Iterable[Any]:
        plain = value.detach().cpu().contiguous().flatten()
        yield value.dtype, tuple(value.shape), value.requires_grad
        yield hashlib.sha256(plain.view(value.new_empty(0).byte().dtype).numpy()).hexdigest()

    def _network(self, module: Any) -> Iterable[Any]:
        """A torch module: classes, attributes, parameters and buffers of all its layers."""
        for name, layer in module.named_modules(remove_duplicate=False):
            yield name, self.of(type(layer))
            yield self.of({key: item for key, item in vars(layer).items() if _is_own(layer, key)})
        for name, value in [*module.named_parameters(remove_duplicate=False), *module.named_buffers()]:
            yield name, value.requires_grad, tuple(value.shape)
            if name not in self._without:
                yield self.of(value)

    def _function(self, function: FunctionType) -> Iterable[Any]:
        yield function.__qualname__
        file = function.__code__.co_filename
        if Path(file).is_file() and is_installed(file) and "<locals>" not in function.__qualname__:
            yield function.__module__
            return
        yield from self._code(function.__code__)
        yield from map(self.of, (function.__defaults__, function.__kwdefaults__))
        yield from (self.of(_inside(cell)) for cell in function.__closure__ or ())
        names = sorted(_names(function.__code__))
        yield from (f"{n} {self.of(function.__globals__[n])}" for n in names if n in function.__globals__)

    def _code(self, code: CodeType) -> Iterable[Any]:
        yield hashlib.sha256(code.co_code).hexdigest(), code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._code(constant)
            else:
                yield self.of(constant)

    def _class(self, cls: type) -> Iterable[Any]:
        yield f"{cls.__module__}.{cls.__qualname__}"
        try:
            installed = is_installed(inspect.getfile(cls))
        except (OSError, TypeError):  # built in, or of a notebook
            installed = cls.__module__ != "__main__"
        if not installed:
            yield from map(self.of, cls.__bases__)
            own = {name: item for name, item in vars(cls).items() if not name.startswith("__") or callable(item)}
            yield from (f"{name} {self.of(item)}" for name, item in sorted(own.items()) if name != "_abc_impl")


def _is_own(layer: Any, key: str) -> bool:
    """Whether an attribute of a torch module is one that its class or its user added."""
    from torch import nn

    of_torch = type(layer).__module__.startswith("torch.nn.")
    return key not in vars(nn.Module()) and not (of_torch and key.startswith("_"))  # torch keeps copies of parameters


def _hash(lines: Iterable[Any]) -> str:
    return hashlib.sha256("\n".join(map(str, lines)).encode()).hexdigest()


def _pickled(value: Any) -> str:
    """What cannot be pickled is never equal to anything else."""
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # an object may raise anything here
        return uuid.uuid4().hex


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _names(code: CodeType) -> set[str]:
    """The names that a function may look up, also in the functions inside it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)
