"""Final values against k, the chart of Figures 8, 9, 11 and 12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedswe.plotting import GREY, Chart, Panel, chart, count_axis, line_styles, message, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def against_k(panels: Sequence[Panel], clients: int) -> Chart:
    """Points with error bars over k, and a dotted line at k = m.

    An arrow at the top is a k that never reached y. A cross there is a k with a run that diverged (NaN): the line has a
    gap there.
    """
    styles = line_styles(series.label for panel in panels for series in panel.series)

    def plot(axes: Axes, panel: Panel) -> None:
        for series in panel.series:
            order = np.argsort(series.x)
            k, at, color = np.asarray(series.x, dtype=np.float64)[order], spread(series), styles[series.label]["color"]
            mean, high = at.mean[order], at.high[order]
            never, lost = np.isinf(mean), np.isnan(mean)
            drawn = ~never  # matplotlib leaves gaps at NaN
            if np.isfinite(mean).any():
                axes.errorbar(
                    k[drawn], mean[drawn], high[drawn] - mean[drawn],
                    fmt="o-", color=color, markersize=4, linewidth=1.3, elinewidth=0.9, capsize=2, label=series.label,
                )  # fmt: skip
            if never.any():
                axes.plot(
                    k[never], np.full(never.sum(), 0.97), "^", color=color, markersize=7,
                    transform=axes.get_xaxis_transform(), label=f"{series.label}: never",
                )  # fmt: skip
            if lost.any():
                axes.plot(
                    k[lost], np.full(lost.sum(), 0.96), "x", color=color, markersize=6,
                    transform=axes.get_xaxis_transform(), label=f"{series.label}: diverged",
                )  # fmt: skip
        if not any(np.isfinite(spread(series).mean).any() for series in panel.series):
            axes.set_yticks([])
            message(axes, "never reached for any k")
        axes.axvline(clients, color=GREY, linewidth=0.8, linestyle=":")
        axes.annotate(
            "k = m", (clients, 0), xycoords=("data", "axes fraction"), xytext=(2, 3), textcoords="offset points",
            color=GREY, fontsize=7,
        )  # fmt: skip
        count_axis(axes, zero=True)
        highest = max(k for series in panel.series for k in series.x)
        axes.set_xlim(-0.15, 1.3 * max(highest, clients))  # k = 0 clear of the frame

    return chart(panels, plot)
