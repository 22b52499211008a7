"""Figures as files: each is written whole or not at all, and the same figure always gives the same bytes."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedswe.errors import FedsweError, require
from fedswe.plotting.style import FONT
from fedswe.results.files import aside_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[["Figure"], None]
Size = tuple[float, float]  # inches

_FORMATS = (".png", ".svg", ".pdf")
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_FILES: dict[str, Any] = {
    "svg.hashsalt": "fedswe",
    "pdf.fonttype": 42,
}  # 42: publishers refuse Type 3 fonts
_DPI = 150


def check_format(path: Path) -> None:
    """Refuse a file name without a known format, and a folder that does not exist."""
    require(path.suffix in _FORMATS, f"cannot draw {path}: the name must end in {', '.join(_FORMATS)}")
    require(path.parent.is_dir(), f"cannot write {path}: there is no folder {path.parent}")
    require(not path.is_dir(), f"cannot write {path}: it is a folder, name a file")


def render(draw: Draw, size: Size) -> Figure:
    """The figure, with its layout fixed so that it is the same in every format."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        draw(figure)
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine(None)
    return figure


def save(draw: Draw, size: Size, *paths: Path) -> None:
    """Draw once and write the figure to every path."""
    for path in paths:
        check_format(path)
    write(render(draw, size), *paths)


def write(figure: Figure, *paths: Path) -> None:
    for path in paths:
        check_format(path)
        content, aside = io.BytesIO(), aside_of(path)
        with styled():
            figure.savefig(content, format=path.suffix.removeprefix("."), metadata=_UNDATED.get(path.suffix))
        try:
            aside.write_bytes(content.getvalue())
            aside.replace(path)
        except OSError as error:
            raise FedsweError(f"cannot write {path}: {error.strerror}; free space or choose another folder") from None
        finally:
            with suppress(OSError):  # on a read-only file system there is nothing to remove
                aside.unlink(missing_ok=True)


@contextmanager
def styled() -> Iterator[None]:
    """Draw and write in the style of all figures."""
    from matplotlib import rc_context

    settings: Any = {**FONT, **_FILES}  # the type of matplotlib lists all its names
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name in letters that the font does not have
        yield


def csv_text(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
