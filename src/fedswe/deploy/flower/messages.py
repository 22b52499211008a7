"""How endpoints ride on Flower: packets as messages, settings as Flower's configuration."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict

from fedswe.deploy.deployment import FILE, Deployment
from fedswe.errors import FedsweError, require

TRAIN = "train"  # a job
DELIVER = "query.deliver"  # the reply to a merged report
HELLO = "query.hello"  # which client are you?


def wrapped(data: bytes) -> RecordDict:
    """Bytes as an array, which Flower sends in pieces: there is no limit but its own."""
    return RecordDict({"packet": ArrayRecord([np.frombuffer(data, dtype=np.uint8)])})


def unwrapped(message: Message) -> bytes:
    """The bytes in a message; a FedsweError for anything else."""
    try:
        (array,) = message.content.array_records["packet"].to_numpy_ndarrays()
    except Exception as error:  # numpy parses what a stranger sent, and has many ways to fail, also for lack of memory
        raise FedsweError(f"a message without a packet ({type(error).__name__})") from None
    require(isinstance(array, np.ndarray), "a message whose packet is an archive")
    require(array.dtype == np.uint8 and array.ndim == 1, "a message whose packet is not bytes")
    return array.tobytes()


def overrides_of(context: Context) -> str:
    return str(context.run_config.get("overrides", ""))


def deployment_of(folder: Path, overrides: str) -> Deployment:
    """What the app's deployment.toml says, with the overrides of this run."""
    return Deployment.load(folder / FILE, shlex.split(overrides))


def folder_named(key: str, *sources: object) -> Path:
    """The first of the given settings that names a folder."""
    for value in sources:
        if value:
            return Path(str(value)).expanduser()
    raise FedsweError(f"{key} is missing: give it in [tool.flwr.app.config] or with --run-config '{key}=\"...\"'")
