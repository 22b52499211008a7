"""The result of a run, in memory or read from its directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedswe.core.value import typed
from fedswe.errors import require
from fedswe.experiment.configuration import load_text
from fedswe.experiment.experiment import Experiment, populate
from fedswe.results.history import History
from fedswe.results.model_file import Models, StateDict
from fedswe.results.run_directory import RunDirectory

if TYPE_CHECKING:
    from fedswe.core.records import Vector


@dataclass(frozen=True, eq=False)
class Result:
    """History and final models of a finished run."""

    history: History
    directory: Path | None  # None: the run was not kept
    _models: Models = field(repr=False)
    _experiment: Experiment | None = field(default=None, repr=False)  # None: to be read from the directory

    @property
    def models(self) -> dict[str, Vector]:
        """Each evaluated model as one vector, by name."""
        return self._models.vectors

    @property
    def served(self) -> str:
        """The name of the served model: evaluate.serve; if that is not set the server model, or the first evaluated."""
        return self._models.served or next(name for name in ("server", *self.models) if name in self.models)

    def state_dict(self, which: str = "") -> StateDict:
        """A model as named tensors with their shapes, for `load_state_dict` of the network; default: the served one."""
        which = which or self.served
        require(which in self.models, f"the run has no model {which!r}: it evaluated {', '.join(self.models)}")
        if not self._models.state_dicts:  # the directory is of an earlier version
            return populate(self.experiment)[0].state_dict(self.models[which])
        return {name: value.clone() for name, value in self._models.state_dicts[which].items()}

    @cached_property
    def experiment(self) -> Experiment:
        """What was run. After `load`, it is read when it is first used: it may need your own classes."""
        if self._experiment is not None:
            return self._experiment
        assert self.directory is not None
        return load_text(RunDirectory(self.directory).config(), str(self.directory / "config.toml"))


@typed
def load(directory: str | Path) -> Result:
    """The result of a finished run from its directory."""
    stored = RunDirectory(Path(directory))
    stored.config()  # refuses a directory that is not one of a run
    require(stored.finished, f"{directory} is not finished: continue it with fedswe run --resume {directory}")
    return Result(stored.history(), stored.path, stored.models())
