"""Which rule, local rates and served model to start from: those of the gym's availability that is most alike.

summary.json has what is needed of the measurements of the small scale.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from fedswe.analysis.report import short
from fedswe.comparison.labels import labelled, parse_label
from fedswe.experiment.experiment import output_label
from fedswe.gym.rules import OUTPUTS
from fedswe.gym.settings import GRADIENT_BOUND
from fedswe.gym.trial import Trial
from fedswe.registry import resolve

Values = Mapping[str, Any]  # of a description


# The numbers by which availabilities are compared, and the difference that counts as one.
FEATURES: dict[str, tuple[Callable[[Values], float], float]] = {
    "reports a round, logarithm": (lambda v: math.log(max(v["mean_availability"] * v["clients"], 0.1)), 1.0),
    "clients, logarithm": (lambda v: math.log(v["clients"]), 1.5),
    "Gini index over clients": (lambda v: v["gini"], 0.2),
    "autocorrelation after one round": (lambda v: v["autocorrelation"].get("1", 0.0), 0.25),
    "mean correlation of two clients": (lambda v: v["pairwise_correlation"], 0.1),
    "99 % quantile of the echo, logarithm": (lambda v: math.log(max(v["echo"]["p99"], 1.0)), 1.0),
    "share of clients never available": (lambda v: v["never_in_a_round"] / v["clients"], 0.1),
}


def features(values: Values) -> dict[str, float]:
    """Of a description; 0 where a statistic is not known."""
    found = {name: float(of(values)) for name, (of, _) in FEATURES.items()}
    return {name: value if math.isfinite(value) else 0.0 for name, value in found.items()}


def distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    return math.sqrt(sum(((a[name] - b[name]) / unit) ** 2 for name, (_, unit) in FEATURES.items()))


@dataclass(frozen=True)
class Advice:
    rule: str
    rates: list[float]  # local rates to try
    trial: Trial  # the most frequent one, without its rate
    served: str  # the served model to begin with
    nearest: str  # the availability of the gym that is most alike
    distance: float  # to it
    evidence: list[str]  # what was measured there
    best: list[str]  # other rules that were the best there
    here: dict[str, float]  # the features, and those of the nearest
    there: dict[str, float]

    def summary(self) -> dict[str, str]:
        sizes = ("clients, logarithm", "reports a round, logarithm")
        counts = ([short(round(math.exp(of[name]), 1)) for name in sizes] for of in (self.here, self.there))
        here, there = map(" clients, ".join, counts)
        changes = resolve("algorithm", parse_label(self.rule)[0]).members_change
        joins = "" if changes else ", which clients cannot join or leave while it runs"
        # Settings of one kind are up to 1.5 apart, others from 2 on.
        fit = "near" if self.distance <= 1.5 else "far" if self.distance <= 3 else "nothing near"
        text = f"{fit} (distance {self.distance:.1f}; near up to 1.5, far up to 3): measured with "
        text += f"{there} a round; you have {here} a round" + ("" if fit == "near" else ": take this as a first try")
        rule = f"start with {self.rule}{joins}: in {self.nearest} {'; '.join(self.evidence)}"
        return {"rule": rule, "evidence": text}

    def words(self, rounds: int) -> list[str]:
        """What to give to fedswe compare."""
        chain, labels = f":chain=[{','.join(self.trial.chain([], rounds))}]", list[str]()
        for rule in ("fedavg", self.rule, *self.best):
            own = labelled({}, rule).algorithm.lr * self.trial.server_rate
            labels.append(rule + (f":lr={own:g}" if own != 1 else "") + chain)
        served = next((text for text in OUTPUTS if output_label(text) == self.served), self.served)
        return [
            f"rounds={rounds}", "--algorithms", ",".join(labels), "--tune", ",".join(map("{:g}".format, self.rates)),
            f"local.clip={GRADIENT_BOUND:g}", f"local.schedule={self.trial.schedule}",
            f"evaluate.model={','.join(dict.fromkeys(['server', served]))}",
        ]  # fmt: skip


def advise(values: Values, summary: Mapping[str, Any] | None = None) -> Advice:
    """By the measurements that come with the package, unless others are given."""
    known, own = summary or stored(), features(values)
    nearest = min(known["settings"], key=lambda setting: distance(own, setting["features"]))
    rule, trials, served, evidence = known["recommended"], list[Trial](), Counter[str](), []
    for setting in known["settings"]:
        if setting["availability"] != nearest["availability"]:
            continue
        rules = {entry["rule"]: entry for entry in setting["rules"]}
        found, best = rules[rule], setting["best"]
        trials.append(Trial(**found["trial"]))
        served[found["output"]] += 1
        mean = {name: sum(rules[name]["test"]) / len(rules[name]["test"]) for name in (rule, best)}
        interval = "" if found["regret_half_width"] is None else f" ± {found['regret_half_width']:.1f}"
        behind = f"{found['regret']:.1f}{interval} points behind the best ({best}, {mean[best]:.1f} %)"
        compared = "the best there" if best == rule else behind
        evidence.append(f"{mean[rule]:.1f} % on {setting['task']}, {compared}")
    rates = [trial.rate for trial in trials]
    low, high = min(rates) / 4, max(rates)  # a rate above the best one costs far more than one below it
    grid = [low * 2**i for i in range(round(math.log2(high / low)) + 1)]
    trial = Counter(replace(trial, rate=1.0) for trial in trials).most_common(1)[0][0]
    far = distance(own, nearest["features"])
    there, output = nearest["features"], served.most_common(1)[0][0]
    best = {setting["best"] for setting in known["settings"] if setting["availability"] == nearest["availability"]}
    others = sorted(label for label in best - {rule} if ":lr=" not in label and "chain=" not in label)
    return Advice(rule, grid, trial, output, nearest["availability"], far, evidence, others, own, there)


def stored() -> dict[str, Any]:
    """The measurements that come with the package."""
    found: dict[str, Any] = json.loads(files("fedswe.gym").joinpath("summary.json").read_text())
    return found
