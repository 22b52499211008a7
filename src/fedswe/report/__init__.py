"""From directories to one page: what each directory is, and the sections about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedswe.comparison.measured_run import MeasuredRun, measured_runs
from fedswe.errors import require
from fedswe.report.federation import federation_reports, federations_in
from fedswe.report.page import Report, to_html
from fedswe.report.runs import run_report
from fedswe.results.files import write_whole

_KINDS = "a run, a comparison, a federation, a gym or a reproduction"


def write_report(directories: Sequence[Path], out: Path | None = None) -> Path:
    """The page, by default in the directory of a run or a comparison; the others belong to other commands."""
    own = len(directories) == 1 and directories[0].is_dir() and _holds_runs(directories[0])
    file = out or (directories[0] if own else Path()) / "report.html"
    require(file.suffix in (".html", ".htm"), f"--out {file}: the name must end in .html")
    require(file.parent.is_dir(), f"cannot write {file}: there is no folder {file.parent}")
    write_whole(file, to_html(report_on(directories)))
    return file


def report_on(directories: Sequence[Path], imports: bool = True) -> Report:
    """Runs and comparisons are drawn together; gyms and reproductions follow.

    Without `imports`, no code that a configuration or a table names is run: clients, bytes and rules that may need it
    are left out.
    """
    require(directories, f"name the directory of {_KINDS}")
    runs: list[MeasuredRun] = []
    found: list[Report] = []
    for path in directories:
        require(path.is_dir(), f"there is no directory {path}")
        if _holds_runs(path):
            runs += measured_runs([path])
            continue
        from fedswe.report.gym import reports_of  # runs do without the gym

        others = [*federation_reports(path), *reports_of(path, imports)]
        require(others, f"{path} does not hold {_KINDS}")
        found += others
    found = [run_report(runs, imports), *found] if runs else found
    first, *others = found
    more = f" (and {len(others)} more below)" if others else ""
    sections, alarms = [part for of in found for part in of.sections], [alarm for of in found for alarm in of.alarms]
    return Report(first.title + more, [*first.summary, *(of.title for of in others)], sections, alarms, first.images)


def is_known(path: Path) -> bool:
    """Whether a report can be made of it."""
    from fedswe.report.gym import gyms_in, reproductions_in

    return path.is_dir() and bool(_holds_runs(path) or federations_in(path) or gyms_in(path) or reproductions_in(path))


def _holds_runs(path: Path) -> bool:
    """Whether it is a run or a comparison; the folder `runs` alone may be anything."""
    return (path / "config.toml").is_file() or any(path.glob("runs/*/config.toml"))
