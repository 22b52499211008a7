"""Parts of an experiment that a script holds in memory: a task of its own arrays, an array of availability.

A configuration names such a part by the digest of its content. The content itself is found here, in the process that
made it; a grid sends it to its workers.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import pickle
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fedswe.errors import FedsweError, is_installed

_HELD: WeakValueDictionary[str, Any] = WeakValueDictionary()  # a part lives as long as the script uses it
_RECEIVED: dict[str, Any] = {}  # from the process that this one works for
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
CLASSES = "in_memory."  # begins the names of classes that no process can import
_HOLDING = ("__func__", "__self__", "func", "args", "keywords")  # of methods and partial functions


def hold(digest: str, content: Any) -> Any:
    """Make the content findable; the content that has this digest already is used instead."""
    return _HELD.setdefault(digest, content)


def find(digest: str, made_by: str) -> Any:
    """The content with this digest; `made_by` is the function that makes it, for the message."""
    content = _HELD.get(digest)
    if content is None:
        raise FedsweError(
            f"the content made by {made_by} (digest {digest[:12]}) exists only in the script that made it: "
            f"call {made_by} with the same content first, and continue from Python (fedswe.resume, result.export)"
        )
    return content


def holds(content: Any) -> bool:
    return any(held is content for held in _HELD.values())


def class_name(cls: type[Any]) -> str:
    """A name for a class that no process can import; it is found by it here, and by the workers of this process."""
    known = next((key for key, held in _HELD.items() if held is cls), None)
    digest = known or hashlib.sha256(uuid.uuid4().bytes).hexdigest()
    hold(digest, cls)
    return f"{CLASSES}{digest}:{cls.__name__}"


def packed(configuration: str) -> dict[str, bytes]:
    """The contents that configurations name, to be sent to another process of this user."""
    import cloudpickle  # also what is defined in the main script, which a worker cannot import

    named = set(re.findall(rf'(?:digest = "|"{CLASSES})([0-9a-f]{{64}})', configuration)) & set(_HELD)
    return {digest: cloudpickle.dumps(_HELD[digest]) for digest in named}


def unpack(contents: dict[str, bytes]) -> None:
    """Hold the contents that another process of this user packed. They are unpickled: never call it with others."""
    for digest, content in contents.items():
        if digest not in _HELD:
            _RECEIVED[digest] = hold(digest, pickle.loads(content))


# digests -------------------------------------------------------------------------------------------------
def digest(value: Any) -> str:
    """SHA-256 of a content: arrays, tensors, torch modules, functions, classes, and what they are made of.

    Equal digests mean equal content, also in another process. Functions and classes of the user count with the whole
    file that defines them; what cannot be described has a digest of its own every time.
    """
    content = _Content()
    content.add(value)
    return content.hash.hexdigest()


class _Content:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}  # by id, with the object, whose id is not used again while it lives

    def add(self, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self._write(type(value).__name__, repr(value))
        elif id(value) in self._seen:
            self._write("seen", self._seen[id(value)][0])
        else:
            self._seen[id(value)] = len(self._seen), value
            self._write(type(value).__qualname__)
            self._describe(value)

    def _write(self, *words: object) -> None:
        self.hash.update(f"{words}\n".encode())

    def _describe(self, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype != object:
            self._write(value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest())
        elif isinstance(value, set | frozenset):
            self._write(sorted(map(repr, value)))
        elif isinstance(value, Mapping):
            self.add([[key, value[key]] for key in sorted(value, key=repr)])
        elif isinstance(value, list | tuple | np.ndarray):
            self._write(len(value))
            for item in value:
                self.add(item)
        elif isinstance(value, FunctionType | type):
            self._source(value)
        elif isinstance(value, ModuleType) or inspect.isbuiltin(value):
            self._write(getattr(value, "__module__", ""), value.__name__)
        elif hasattr(value, "untyped_storage"):  # a tensor
            plain = value.detach().cpu().contiguous().flatten()
            plain = plain.view(value.new_empty(0).byte().dtype).numpy()
            self.add([str(value.dtype), tuple(value.shape), value.requires_grad, plain])
        elif held := [[name, getattr(value, name)] for name in _HOLDING if hasattr(value, name)]:
            self.add(held)
        elif isinstance(state := value.__getstate__(), dict):
            self.add([type(value), state])
        else:
            try:
                self._write(hashlib.sha256(pickle.dumps(value)).hexdigest())
            except Exception:  # an object may raise anything here; it is never equal to another
                self._write(uuid.uuid4().hex)

    def _source(self, value: Any) -> None:
        """A function or class: its name, the text of its file, and what functions hold or find outside."""
        self._write(value.__module__, value.__qualname__)
        members = [value] if isinstance(value, FunctionType) else vars(value).values()
        functions = [member for member in members if isinstance(member, FunctionType)]
        files = [function.__code__.co_filename for function in functions]
        if isinstance(value, type):
            files.append(getattr(sys.modules.get(value.__module__), "__file__", None) or "")
        if "<locals>" not in value.__qualname__ and Path(files[0]).is_file() and is_installed(files[0]):
            return
        text = next(filter(None, ("".join(linecache.getlines(file)) for file in files)), "")  # also cells of a notebook
        self._write(text or (uuid.uuid4().hex if value.__module__ == "__main__" else ""))
        for function in functions:
            self._write(*function.__code__.co_positions())  # several lambdas of a file have one name
            cells = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
            known = function.__globals__
            used = [[name, known[name]] for name in sorted(function.__code__.co_names) if name in known]
            self.add([function.__defaults__, function.__kwdefaults__, cells, used])
