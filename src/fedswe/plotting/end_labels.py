"""The names of curves at their right ends, without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedswe.plotting.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

LINE_HEIGHT = 1.2 * SMALL  # points from one label to the next
_GAP, _SAMPLE, _SPACE = 10.0, 16.0, 3.0  # points: from the axes to a sample of the line, its length, to the name


@dataclass(frozen=True)
class End:
    """The last point of a curve (None: it has no points), its name and its style."""

    name: str  # one or several lines
    at: tuple[float, float] | None
    style: dict[str, Any]


@dataclass(frozen=True)
class _Label:
    sample: Line2D
    name: Annotation
    leader: Annotation  # from the curve to the sample


def label_ends(figure: Figure, ends: Sequence[tuple[Axes, Sequence[End]]]) -> None:
    """Beside each of the axes, a sample of every line and its name, moved up or down where names would overlap."""
    labels = [(axes, [_label(axes, end) for end in of_axes]) for axes, of_axes in ends]
    layout = figure.get_layout_engine()
    assert layout is not None
    for _ in range(2):  # the size of the axes depends on the labels, and their distances depend on the size
        layout.execute(figure)
        for axes, of_axes in labels:
            _place(axes, of_axes)


def _label(axes: Axes, end: End) -> _Label:
    from matplotlib.lines import Line2D

    sample = Line2D(
        [1, 1, 1], [0, 0, 0], transform=axes.transAxes, clip_on=False, linewidth=1.1, markersize=3.2, markeredgewidth=0,
        markevery=[1], **end.style,
    )  # fmt: skip
    axes.add_artist(sample)
    beside: dict[str, Any] = {
        "textcoords": "axes fraction",
        "va": "center",
        "annotation_clip": False,
        "parse_math": False,
    }
    name = axes.annotate(
        end.name, (1, 0.5), xycoords="axes fraction", xytext=(1.2, 0.5), fontsize=SMALL, **beside,
    )  # fmt: skip
    line = {"arrowstyle": "-", "linewidth": 0.4, "alpha": 0.7, "color": end.style["color"], "shrinkA": 0, "shrinkB": 0}
    low, high = axes.get_ylim()
    at = end.at or (axes.get_xlim()[1], low)
    leader = axes.annotate("", at, xytext=(1.1, 0.5), arrowprops=line, **beside)
    leader.set_visible(end.at is not None and low <= at[1] <= high)  # a line to a point outside would leave the figure
    return _Label(sample, name, leader)


def _place(axes: Axes, labels: Sequence[_Label]) -> None:
    box = axes.get_window_extent()
    width, height = (72 * side / axes.figure.dpi for side in (box.width, box.height))
    at = [(axes.transData.transform(label.leader.xy)[1] - box.y0) / box.height * height for label in labels]
    left, right = 1 + _GAP / width, 1 + (_GAP + _SAMPLE) / width
    heights = [LINE_HEIGHT * line_count(label.name.get_text()) for label in labels]
    for label, y in zip(labels, spread_out(at, heights, height) / height, strict=True):
        label.sample.set_data([left, (left + right) / 2, right], [y, y, y])
        label.leader.set_position((left, y))
        label.name.set_position((right + _SPACE / width, y))


def line_count(name: str) -> int:
    return name.count("\n") + 1


def spread_out(positions: npt.ArrayLike, heights: npt.ArrayLike, top: float) -> npt.NDArray[np.float64]:
    """The nearest positions (least squares) from 0 to `top` that keep their order, for labels of these heights.

    If there are too many, they extend above and below by the same length.
    """
    wanted = np.clip(np.asarray(positions, dtype=np.float64), 0, top)
    order = np.argsort(wanted, kind="stable")
    tall = np.broadcast_to(np.asarray(heights, dtype=np.float64), wanted.shape)[order]
    steps = np.cumsum(tall) - (tall + tall[:1]) / 2  # between the centres of neighbours
    blocks: list[tuple[float, int]] = []  # mean and size: neighbours that would overlap move together
    for value in wanted[order] - steps:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (mean * size + before * count) / (size + count), size + count
        blocks.append((mean, size))
    moved = np.repeat([mean for mean, _ in blocks], [size for _, size in blocks])
    excess = steps[-1] - top if len(steps) else 0.0
    moved = np.clip(moved, 0, -excess) if excess <= 0 else np.full(len(steps), -excess / 2)
    result = np.empty(len(wanted))
    result[order] = moved + steps
    return result
