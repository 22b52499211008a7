"""The result of a run, in memory or read from its directory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedswe.core.value import typed
from fedswe.errors import require
from fedswe.experiment.configuration import load_text
from fedswe.experiment.experiment import Experiment, populate
from fedswe.results.display import Displayed
from fedswe.results.files import write_whole
from fedswe.results.history import History
from fedswe.results.model_file import FORMATS, Format, Models, StateDict, content
from fedswe.results.run_directory import RunDirectory

if TYPE_CHECKING:
    import pandas as pd

    from fedswe.core.records import Vector


@dataclass(frozen=True, eq=False, repr=False)
class Result(Displayed):
    """History and final models of a finished run."""

    history: History
    directory: Path | None  # None: the run was not kept
    _models: Models
    _experiment: Experiment | None = None  # None: to be read from the directory

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
    def export(self, out: str | Path, model: str = "", format: Format | None = None) -> None:
        """Write a model, default the served one, for other programs: a state dict or the network itself as ONNX.

        The format is that of the ending (.safetensors, .pt, .pth, .onnx) unless it is given.
        """
        out, model = Path(out), model or self.served
        kept = self.directory and (self.directory / "model.safetensors").resolve()
        require(out.resolve() != kept, f"{out} has all models of the run and is not replaced: choose another out=")
        require(format or out.suffix in FORMATS, f"{out}: its name must end in {', '.join(FORMATS)}, or give format=")
        format = format or FORMATS[out.suffix]
        write_whole(out, content(self.state_dict(model), model, format, lambda: populate(self.experiment)[0]))

    def _shown(self) -> tuple[dict[str, pd.DataFrame], list[str]]:
        from fedswe.results.table import long  # imports pandas

        last = long([({}, History([self.history.last]))], list(self.models))
        scores = last[last["model"] != ""].pivot(index="model", columns="score", values="value")
        scores = scores.rename_axis(index=None, columns=None)
        return {f"Result after {self.history.last['round']:g} rounds": scores}, []


@typed
def load(directory: str | Path) -> Result:
    """The result of a finished run from its directory."""
    stored = RunDirectory(Path(directory))
    stored.config()  # refuses a directory that is not one of a run
    require(stored.finished, f"{directory} is not finished: continue it with fedswe run --resume {directory}")
    return Result(stored.history(), stored.path, stored.models())
