"""Figures, in one style."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedswe.comparison import Comparison
from fedswe.results.files import aside_of, cannot_write


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """The headline score over the rounds, one panel per evaluated model, mean and range over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models = list(dict.fromkeys(e.model for e in comparison.entries))
    figure, panels = plt.subplots(1, len(models), figsize=(5.2 * len(models), 4.4), sharey=True, squeeze=False)
    for panel, model in zip(panels[0], models, strict=True):
        entries = [e for e in comparison.entries if e.model == model]
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
    aside = aside_of(path)
    try:
        figure.savefig(aside, dpi=150, bbox_inches="tight", format=path.suffix.removeprefix("."))
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise cannot_write(path, error) from None
    finally:
        plt.close(figure)
