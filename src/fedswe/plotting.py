"""The style of all figures: sizes, colours, axes, and files that are written whole.

The same figure always gives the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedswe.errors import needed, require
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Draw = Callable[["Figure"], None]
Size = tuple[float, float]  # inches
Corner = Literal["best", "upper right", "lower right", "center right"]

WIDTHS = {"single": 3.3, "double": 6.9}  # inches: one column and two columns of a page
# Okabe and Ito's colours, which colour-blind readers can tell apart; without yellow, which is too pale for a line
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "0.45"
PALETTE = (RED, BLUE, GREEN, "#CC79A7", "#000000", ORANGE, "#56B4E9")
SMALL = 7  # points: labels and captions
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")  # these and the lines tell curves apart without colours

_LINES: tuple[Any, ...] = ("solid", (0, (5, 1.2)), (0, (5, 1.2, 1.2, 1.2)), (0, (1.6, 0.9)))
_STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "legend.fontsize": SMALL,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
    "svg.hashsalt": "fedswe",
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
}  # fmt: skip
_UNDATED: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


# axes --------------------------------------------------------------------------------------------------------
def format_axes(axes: Axes, title: str, x: str, y: str, legend: Corner = "best") -> None:
    """Title, axis labels, a light grid below the data, and a legend if anything drawn has a label."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_axisbelow(True)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc=legend)


def reference_line(axes: Axes, y: float, text: str, color: object = GREY) -> None:
    """A dotted horizontal line with its name to the right of the axes."""
    axes.axhline(y, color=color, linewidth=0.8, linestyle=":")
    axes.annotate(
        text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points", va="center",
        fontsize=SMALL, color=color, annotation_clip=False,
    )  # fmt: skip


def count_axis(axes: Axes, zero: bool) -> None:
    """A logarithmic x axis of counts with plain numbers; with `zero`, linear from 0 to 1."""
    if zero:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-0.15, axes.get_xlim()[1] * 1.15)  # the points at both ends are clear of the frame
    else:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")


def log_axis(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis that is not too long for them; call it when the limits are set."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if low > 1e-4 and high < 1e5 and high / low < 1e3:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def ordered_colors(count: int) -> list[tuple[float, float, float, float]]:
    """Colours for an ordered family of curves, dark to light."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.85 * i / max(count - 1, 1)) for i in range(count)]


def line_styles(names: Iterable[str], ordered: bool = False) -> dict[str, dict[str, Any]]:
    """Colour, line and marker of every name; `ordered` colours a family, such as the k of FedSWE."""
    labels = list(dict.fromkeys(names))
    colors = ordered_colors(len(labels)) if ordered else PALETTE
    return {
        label: {
            "color": colors[i % len(colors)],
            "linestyle": _LINES[i % len(_LINES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
        for i, label in enumerate(labels)
    }


def message(axes: Axes, text: str) -> None:
    """A sentence in the middle of axes without data, which therefore have no ticks."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY, parse_math=False)


def caption(figure: Figure, text: str) -> None:
    """Sentences below the axes, in lines as wide as the figure."""
    if text:
        left = 0.05 / figure.get_size_inches()[0]
        figure.supxlabel(text, x=left, ha="left", fontsize=SMALL, color="0.25", wrap=True, parse_math=False)


# files -------------------------------------------------------------------------------------------------------
def check_format(path: Path) -> None:
    """Refuse a file name without a known format, and a folder that does not exist."""
    require(path.suffix in _UNDATED, f"cannot draw {path}: the name must end in {', '.join(_UNDATED)}")
    require(path.parent.is_dir(), f"cannot write {path}: there is no folder {path.parent}")
    require(not path.is_dir(), f"cannot write {path}: it is a folder, name a file")


@contextmanager
def styled() -> Iterator[None]:
    """Draw and write in the style of all figures."""
    with needed("matplotlib", "plot").rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name in letters that the font does not have
        yield


def render(draw: Draw, size: Size) -> Figure:
    """The figure, with its layout fixed so that it is the same in every format."""
    made = needed("matplotlib.figure", "plot").Figure
    with styled():
        figure: Figure = made(figsize=size, dpi=150, layout="constrained")
        draw(figure)
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine(None)
    # A notebook shows it, also without %matplotlib inline.
    figure._repr_png_ = partial(content_of, figure, ".png", 110)  # type: ignore[attr-defined]
    return figure


def save(draw: Draw, size: Size, *paths: Path) -> None:
    """Draw once and write the figure to every path."""
    write(render(draw, size), *paths)


def write(figure: Figure, *paths: Path) -> None:
    for path in paths:
        check_format(path)
        write_whole(path, content_of(figure, path.suffix))


def svg(draw: Draw, size: Size) -> bytes:
    return content_of(render(draw, size), ".svg")


def content_of(figure: Figure, suffix: str, dpi: float | Literal["figure"] = "figure") -> bytes:
    content = io.BytesIO()
    with styled():
        figure.savefig(content, format=suffix.removeprefix("."), metadata=_UNDATED[suffix], dpi=dpi)
    return content.getvalue()
