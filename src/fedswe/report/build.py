"""From directories to a report: what each directory is, and the sections about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedswe.errors import FedsweError, require
from fedswe.figures.measured import MeasuredRun, measured_runs
from fedswe.report import gym, reproduction
from fedswe.report.blocks import Report, Section
from fedswe.report.clients import client_sections
from fedswe.report.origin import origin_sections
from fedswe.report.runs import run_sections

_KINDS = "a run, a comparison, a gym or a reproduction"


def report_on(directories: Sequence[Path]) -> Report:
    """Runs and comparisons are drawn together; gyms and reproductions follow."""
    require(directories, f"name the directory of {_KINDS}")
    summary: list[str] = []
    sections: list[Section] = []
    runs: list[MeasuredRun] = []
    for path in directories:
        require(path.is_dir(), f"there is no directory {path}")
        if holds_runs(path):
            runs += measured_runs([path])
            continue
        if scales := gym.scales_in(path):
            found = [gym.gym_sections(scale) for scale in scales]
        elif scales := reproduction.scales_in(path):
            found = [reproduction.reproduction_sections(scale) for scale in scales]
        else:
            raise FedsweError(f"{path} does not hold {_KINDS}")
        summary += [sentence for sentences, _ in found for sentence in sentences]
        sections += [section for _, of in found for section in of]
    if runs:
        sentences, scores = run_sections(runs)
        summary = [*sentences, *summary]
        sections = [*scores, *client_sections(runs), *sections, *origin_sections(runs)]
    return Report(_title(directories), summary, sections)


def is_known(path: Path) -> bool:
    """Whether a report can be made of it."""
    return path.is_dir() and bool(holds_runs(path) or gym.scales_in(path) or reproduction.scales_in(path))


def holds_runs(path: Path) -> bool:
    """Whether it is a run or a comparison; the folder `runs` alone may be anything."""
    return (path / "config.toml").is_file() or any(path.glob("runs/*/config.toml"))


def _title(directories: Sequence[Path]) -> str:
    # With the folder above: `run`, `full` or `results` alone say little.
    names = ["/".join(path.resolve().parts[1:][-2:]) or str(path) for path in directories]
    return f"Report on {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
