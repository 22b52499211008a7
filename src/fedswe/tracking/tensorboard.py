"""TensorBoard: event files in the folder `tensorboard` of the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedswe.tracking.tracker import Status, Tracker


@dataclass(frozen=True)
class TensorBoard(Tracker):
    """Event files in the folder `tensorboard` of each run directory; `tensorboard --logdir runs` shows them."""

    title: ClassVar[str] = "TensorBoard: event files in the run directory"
    package: ClassVar[str] = "tensorboard"
    extra: ClassVar[str] = "tensorboard"
    needs_directory: ClassVar[bool] = True

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> _EventFiles:
        assert directory is not None
        return _EventFiles(directory / "tensorboard", settings)


class _EventFiles:
    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self._writer: Any = None

    def log(self, round: int, values: Mapping[str, float]) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # What an earlier process of this run has written from this round on is to be ignored by readers.
            self._writer = SummaryWriter(str(self._folder), purge_step=round)
            if not round:
                table = [f"| {key} | `{value}` |" for key, value in self._settings.items()]
                self._writer.add_text("configuration", "\n".join(["| key | value |", "|---|---|", *table]), 0)
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def finish(self, status: Status) -> None:
        if self._writer is not None:
            self._writer.close()
