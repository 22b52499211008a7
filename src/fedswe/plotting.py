"""Figures, in one style."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedswe.comparison import Comparison
from fedswe.errors import FedsweError, require
from fedswe.results.files import aside_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = (".png", ".svg", ".pdf")


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """The headline score over the rounds, one panel per evaluated model, mean and range over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if comparison.headline is None:  # there is nothing to plot
        return
    models = list(dict.fromkeys(r.model for r in comparison.rows))
    figure, panels = plt.subplots(1, len(models), figsize=(5.2 * len(models), 4.4), sharey=True, squeeze=False)
    for panel, model in zip(panels[0], models, strict=True):
        entries = [r for r in comparison.rows if r.model == model]
        colors = plt.get_cmap("tab20")(np.linspace(0, 1, 20))
        for entry, color in zip(entries, np.resize(colors, (len(entries), 4)), strict=True):
            rounds = entry.histories[0]["round"]
            curves = np.stack([h[f"{model}_{comparison.headline}"] for h in entry.histories])
            panel.plot(rounds, curves.mean(0), label=entry.label, color=color, linewidth=1.4)
            panel.fill_between(rounds, curves.min(0), curves.max(0), color=color, alpha=0.12, linewidth=0)
        panel.set_title(model.replace("_", " "))
        panel.set_xlabel("round")
        panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel(comparison.headline.replace("_", " "))
    panels[0, -1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    try:
        _write(figure, path)
    finally:
        plt.close(figure)


def check_format(path: Path) -> None:
    """Refuse a name that says no known format."""
    require(path.suffix in _FORMATS, f"cannot draw {path}: the name must end in {', '.join(_FORMATS)}")
    require(path.parent.is_dir(), f"cannot write {path}: there is no folder {path.parent}")


def save(draw: Callable[[Figure], None], size: tuple[float, float], path: Path) -> None:
    """Draw on a new figure and write it whole, or leave nothing."""
    from matplotlib.figure import Figure as New

    check_format(path)
    figure = New(figsize=size, layout="constrained")
    draw(figure)
    _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    from matplotlib import rc_context

    aside = aside_of(path)
    undated = {"Date": None} if path.suffix == ".svg" else None
    try:
        with rc_context({"svg.hashsalt": "fedswe"}):  # the same drawing gives the same file
            figure.savefig(aside, dpi=150, bbox_inches="tight", format=path.suffix.removeprefix("."), metadata=undated)
        aside.replace(path)
    except OSError as error:
        raise FedsweError(f"cannot write {path}: {error.strerror}; free space or choose another place") from None
    finally:
        aside.unlink(missing_ok=True)  # still there only if something went wrong
