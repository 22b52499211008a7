"""The result of a comparison: every score of every run as one table, and mean and standard deviation over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fedswe.comparison.labels import number_text
from fedswe.results.history import History, written
from fedswe.results.table import TAIL, has_diverged, headline, long, more_is_better, owner, tail_score

Run = tuple[str, float, int]  # label, local rate, seed
Histories = dict[Run, History]
_KEYS = ["algorithm", "model", "local_lr"]


@dataclass(frozen=True, eq=False)
class Comparison:
    histories: Histories
    chosen: Mapping[tuple[str, str], float]  # the local rate of a label and an evaluated model
    seeds: tuple[int, ...]  # runs with other seeds served to choose a rate, and are not reported

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per algorithm, seed, local rate, round, model and score.

        `tuning` marks the runs that only served to choose a rate, `chosen` the rate that was chosen for the algorithm
        and the model. Means and standard deviations are those of the rows that are chosen and not tuning.
        """
        pairs = {(label, model, rate) for (label, of), rate in self.chosen.items() for model in (of, "")}
        runs = (
            ({"algorithm": label, "seed": seed, "local_lr": rate, "tuning": seed not in self.seeds}, history)
            for (label, rate, seed), history in self.histories.items()
        )
        table = long(runs, self.models)
        table.insert(4, "chosen", [key in pairs for key in table[_KEYS].itertuples(index=False, name=None)])
        return table

    @cached_property
    def finals(self) -> pd.DataFrame:
        """A row per reported run, model and score: the mean over the last rounds, and whether the run diverged.

        Diverged is a run of which columns of the model say so, or whose score is not finite.
        """
        rows = []
        for (label, model), rate in self.chosen.items():
            for seed in self.seeds:
                history = self.histories[label, rate, seed]
                for column in (c for c in history.columns if owner(c, self.models) == model):
                    lost = has_diverged(history, f"{model}_", column, self.models)
                    score = column.removeprefix(f"{model}_")
                    rows.append((label, model, rate, seed, score, tail_score(history, column), lost))
        return pd.DataFrame(rows, columns=[*_KEYS, "seed", "score", "value", "diverged"])

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row per algorithm and model: how many runs diverged, mean and standard deviation of each score over seeds.

        NaN is the deviation of one seed, and both if a run diverged.
        """
        rows = []
        for label, model, rate, by_score in self._by_score():
            found = {score: by_score[score] for score in self.scores}
            lost = max((int(of["diverged"].sum()) for of in found.values()), default=0)
            row = {"algorithm": label, "model": model, "local_lr": rate, "seeds": len(self.seeds), "diverged": lost}
            spreads = {f"{score}_{part}": value for score, of in found.items() for part, value in _spread(of).items()}
            rows.append(row | spreads)
        return pd.DataFrame(rows)

    def _by_score(self) -> Iterator[tuple[str, str, float, dict[str, pd.DataFrame]]]:
        """For each algorithm and model, with its local rate: the rows of `finals` of each of its scores."""
        for (label, model), rate in self.chosen.items():
            of = self.finals[(self.finals["algorithm"] == label) & (self.finals["model"] == model)]
            yield label, model, rate, {str(score): found for score, found in of.groupby("score", sort=False)}

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for _, model in self.chosen))

    @property
    def scores(self) -> list[str]:
        """The scores that all algorithms have for all models."""
        rows = self.finals.groupby("score", sort=False)["seed"].size()
        return [str(score) for score in rows.index[rows == len(self.chosen) * len(self.seeds)]]

    @property
    def headline(self) -> str | None:
        """The score to read first, of those that all have."""
        return headline(self.scores)

    def of_seeds(self, label: str, model: str, score: str) -> pd.DataFrame:
        """The rows of `finals` of a score, one per seed."""
        finals = self.finals
        return finals[(finals["algorithm"] == label) & (finals["model"] == model) & (finals["score"] == score)]

    def best(self, model: str) -> str | None:
        """The label with the best headline score; None where nothing says whether more or less is better."""
        more = more_is_better(self.headline or "")
        if more is None:
            return None
        means = self.summary[self.summary["model"] == model].set_index("algorithm")[f"{self.headline}_mean"].dropna()
        return str(means.idxmax() if more else means.idxmin()) if len(means) else None

    def to_target(self, target: float) -> list[dict[str, Any]]:
        """For each algorithm and model and each seed, the round after which the headline score first reached a target.

        None where it never did. Also the simulated seconds, of runs that have them.
        """
        found = []
        for (label, model), rate in self.chosen.items() if self.headline else ():
            column, runs = f"{model}_{self.headline}", [self.histories[label, rate, seed] for seed in self.seeds]
            seconds = [run.seconds_to(column, target) for run in runs if "simulated_seconds" in run.columns]
            rounds = [run.rounds_to(column, target) for run in runs]
            found.append({"algorithm": label, "model": model, "rounds": rounds, "simulated_seconds": seconds})
        return found

    # as text -----------------------------------------------------------------------------------------------------
    def to_csv(self) -> str:
        """The table of the scores that all models have, numbers with all digits."""
        found = self.table[(self.table["model"] != "") & self.table["score"].isin(self.scores)]
        texts = {name: found[name].map(written) for name in ("local_lr", "value")}
        texts |= {name: found[name].map({True: "true", False: "false"}) for name in ("tuning", "chosen")}
        return str(found.assign(**texts).to_csv(index=False, lineterminator="\n"))

    def summary_csv(self) -> str:
        """The summary, numbers with six digits."""
        text = self.summary.assign(local_lr=self.summary["local_lr"].map(number_text))
        return str(text.to_csv(index=False, float_format="%.6g", na_rep="nan", lineterminator="\n"))

    def to_json(self) -> dict[str, Any]:
        """The summary as plain values, of all scores; NaN and infinity stay."""
        rows = []
        for label, model, rate, scores in self._by_score():
            values = {score: of.set_index("seed")["value"] for score, of in scores.items()}
            rows.append({
                "algorithm": label, "model": model, "local_lr": rate,
                "diverged": max((int(of["diverged"].sum()) for of in scores.values()), default=0),
                "scores": {score: _spread(of) for score, of in scores.items()},
                "seeds": {seed: {score: of[seed] for score, of in values.items()} for seed in self.seeds},
            })  # fmt: skip
        return {"headline": self.headline, "tail": TAIL, "rows": rows}


def _spread(of_seeds: pd.DataFrame) -> dict[str, float]:
    values = of_seeds["value"].tolist()
    if of_seeds["diverged"].any():
        return {"mean": math.nan, "std": math.nan}
    return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else math.nan}
