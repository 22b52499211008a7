"""FinishedRun cells with chosen numbers: a world in which the paper came out as printed, to be changed at will."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fedswe.results.history import History
from fedswe_paper.cell import PaperCell
from fedswe_paper.claims import CLAIMS, Verdict
from fedswe_paper.measurements import Measurements
from fedswe_paper.published import look_up, published
from fedswe_paper.recipes import RECIPES
from fedswe_paper.results import FinishedRun
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import Selection

FULL = Selection("full", "released")
SEEDS = {3: -0.4, 4: 0.5, 6: 0.1}  # points a seed adds to every method alike


@dataclass(frozen=True)
class Story:
    """What a run shall have said: test accuracies in percent."""

    final: float  # over the last rounds
    train: float = 0.0
    swing: float = 0.0  # up and down from there
    peak: float = 0.0  # once, before the last rounds
    reached: dict[float, int] = field(default_factory=dict)  # accuracy -> round
    client_mean: float = 0.0  # points the client mean is above the server's model, for methods judged by the latter
    consensus: tuple[float, float] = (1.0, 1.0)  # error of the first and of the last rounds
    held_out: float = 0.0
    nan_from: float = float("inf")  # the round from which on losses are NaN and the model names one class
    server: float = 0.0  # points the server model is above the judged one, for methods judged by the client mean
    server_swing: float = 0.0  # its swing, in addition


Change = Callable[[PaperCell, Story], Story]


def told(cell: PaperCell, story: Story, seed: int = 3, extra: float = 0.0) -> FinishedRun:
    """A history of a few rows that says so."""
    experiment = cell.experiment()
    rounds, tail = experiment.rounds, experiment.evaluate.tail
    rows = [(0, 1.0, 0.0), (rounds // 10, 1.0, story.consensus[0])]
    rows += [(at, accuracy + 0.01, story.consensus[0]) for accuracy, at in sorted(story.reached.items())]
    peak_at, swings = rounds - tail - 1, {rounds - experiment.evaluate.every: 1, rounds: -1}
    if cell.periodic and rounds >= 8 * (period := SCALES[cell.scale].period):  # in the phase that is looked at
        peak_at = period * (rounds // 4 // period)
        swings = {rounds - 3 * period: -1, rounds - 2 * period: 1, rounds - period: 1, rounds: -1}  # and no trend
    rows += [(peak_at, story.peak + extra if story.peak else 1.0, story.consensus[0])]
    rows += [(at, story.final + sign * story.swing + extra, story.consensus[1]) for at, sign in swings.items()]
    history = History()
    for at, accuracy, error in sorted(rows):
        row: dict[str, float] = {"round": at, "seconds": 0.1}
        swung = swings.get(at, 0) * story.server_swing
        moved = {"client_mean": story.client_mean, "server": story.server + swung, "ema": 0.0}
        for output in ("server", "client_mean", "ema"):
            row[f"{output}_test_loss"] = float("nan") if at >= story.nan_from else 1.0
            row[f"{output}_test_accuracy"] = 0.1 if at >= story.nan_from else (accuracy + moved[output]) / 100
            row[f"{output}_train_accuracy"] = 0.1 if at >= story.nan_from else (story.train + extra) / 100
            row[f"{output}_held_out_accuracy"] = story.held_out / 100
        history.append({**row, "consensus_clients": float("nan") if at >= story.nan_from else error})
    return FinishedRun(replace(cell, seed=seed), history)


# Two groups in turns: the paper prints no numbers, only what they looked like. Final, swing, peak; and by k.
_TURNS = {
    "fedavg": (50.0, 15.0, 70.0),
    "fedau": (52.0, 15.0, 71.0),
    "mifa": (60.0, 12.0, 75.0),
    "fedavg_known": (65.0, 15.0, 82.0),
    "fedvarp": (58.0, 3.0, 66.0),
    "gfedavg": (45.0, 2.0, 50.0),
}
_FINAL = {0: 55, 1: 60, 10: 70, 50: 80, 100: 82, 200: 78, 500: 66}
_ROUNDS = {0: 600, 1: 600, 10: 500, 50: 400, 100: 300, 200: 900, 500: 2000}


def as_printed(cell: PaperCell) -> Story:
    """What the paper says of a line."""
    if cell.p:
        return Story(80 - 30 * cell.gamma * (0.1 / cell.p) ** 0.5, train=82 - 30 * cell.gamma * (0.1 / cell.p) ** 0.5)
    if cell.periodic and cell.algorithm == "fedswe":
        error = 0.5 / cell.k if cell.k else 10.0
        return Story(
            _FINAL[int(cell.k)], swing=14 / (1 + cell.k), reached={40: _ROUNDS[int(cell.k)]}, consensus=(1.0, error)
        )  # swing falls with k, at both models
    if cell.periodic:
        final, swing, peak = _TURNS[cell.algorithm]
        return Story(final, swing=swing, peak=peak, reached={40: 700})
    row = look_up("table9" if cell.alpha != 0.1 else "table8" if cell.gamma != 0.3 else "table2", **vars(cell))
    assert row is not None
    reached = {
        float(r.keys["target"]): int(r.values["rounds"].mean)
        for r in published("table7")
        if cell.dynamics == "sine"
        and cell.k == 0
        and (r.keys["dataset"], r.keys["algorithm"]) == (cell.dataset, cell.algorithm)
        and r.values["rounds"].mean < float("inf")
    }
    swing = 5.0 if (cell.algorithm, cell.k) == ("fedswe", 0) else 0.0
    return Story(row.values["test"].mean, train=row.values["train"].mean, reached=reached, server_swing=swing)


PAPERS = tuple(name for name, recipe in RECIPES.items() if recipe.number != "not in the paper")


def world(
    change: Change | None = None,
    without: Callable[[PaperCell], bool] | None = None,
    recipes: Sequence[str] = PAPERS,
) -> Measurements:
    """Everything these recipes need, measured at full scale as printed, with a change, and without some cells."""
    finished = []
    for cell in dict.fromkeys(cell for name in recipes for cell in RECIPES[name].lines(FULL)):
        story = as_printed(cell)
        if change is not None:
            story = change(cell, story)
        runs = [told(cell, story, seed, extra) for seed, extra in SEEDS.items()]
        finished += [run for run in runs if without is None or not without(run.cell)]
    return Measurements(finished)


def verdict_on(claim: str, measured: Measurements, selection: Selection = FULL) -> Verdict:
    return next(each for each in CLAIMS if each.id == claim).verdict(selection, measured)
