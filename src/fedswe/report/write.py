"""Write a report to its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedswe.errors import require
from fedswe.report.build import holds_runs, report_on
from fedswe.report.html import to_html
from fedswe.report.pdf import to_pdf
from fedswe.results.files import write_whole

NAME = "report.html"


def write_report(directories: Sequence[Path], out: Path | None = None, pdf: bool = False) -> list[Path]:
    """The HTML page, and with `pdf` the same for print beside it; returns the files."""
    file = _default(directories) if out is None else out
    require(file.suffix in (".html", ".htm"), f"--out {file}: the name must end in .html")
    require(file.parent.is_dir(), f"cannot write {file}: there is no folder {file.parent}")
    report = report_on(directories)
    contents: dict[Path, str | bytes] = {file: to_html(report)}
    if pdf:
        contents[file.with_suffix(".pdf")] = to_pdf(report)
    for path, content in contents.items():
        write_whole(path, content)
    return list(contents)


def _default(directories: Sequence[Path]) -> Path:
    """In the directory of a run or a comparison; the other directories belong to other commands."""
    if len(directories) == 1 and directories[0].is_dir() and holds_runs(directories[0]):
        return directories[0] / NAME
    return Path(NAME)
