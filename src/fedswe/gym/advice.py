"""Which rule, local rates and served model to start from: those of the gym's availability that is most alike."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fedswe.comparison.labels import parse_label
from fedswe.experiment.experiment import output_label
from fedswe.gym.rules import OUTPUTS
from fedswe.gym.settings import GRADIENT_BOUND

Values = Mapping[str, Any]  # of a description
FILE = "summary.json"  # beside this module: what is needed of the measurements of the gym at small scale
# The smallest worst-case regret of the full gym, see docs/which-rule.md.
RECOMMENDED = "interval_extrapolation:chain=[momentum:0.5]"


@dataclass(frozen=True)
class Feature:
    """A number by which availabilities are compared, and the difference that counts as one."""

    of: Callable[[Values], float]
    scale: float


FEATURES = {
    "mean availability, logarithm": Feature(lambda v: math.log(max(v["mean_availability"], 1e-4)), 0.7),
    "Gini index over clients": Feature(lambda v: v["gini"], 0.2),
    "autocorrelation after one round": Feature(lambda v: v["autocorrelation"].get("1", 0.0), 0.25),
    "mean correlation of two clients": Feature(lambda v: v["pairwise_correlation"], 0.1),
    "99 % quantile of the echo, logarithm": Feature(lambda v: math.log(max(v["echo"]["p99"], 1.0)), 1.0),
    "share of clients never available": Feature(lambda v: v["never_in_a_round"] / v["clients"], 0.1),
}


def features(values: Values) -> dict[str, float]:
    """Of a description; 0 where a statistic is not known."""
    found = {name: float(feature.of(values)) for name, feature in FEATURES.items()}
    return {name: value if math.isfinite(value) else 0.0 for name, value in found.items()}


def distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    return math.sqrt(sum(((a[name] - b[name]) / feature.scale) ** 2 for name, feature in FEATURES.items()))


@dataclass(frozen=True)
class Advice:
    rule: str
    rates: list[float]  # local rates to try
    served: str  # the served model to begin with
    nearest: str  # the availability of the gym that is most alike
    distance: float  # to it; above 3 it is not alike
    evidence: list[str]  # what was measured there

    def sentences(self) -> list[str]:
        alike = "" if self.distance <= 3 else "; no setting is close, so take this with care"
        rates = ", ".join(f"{rate:g}" for rate in self.rates)
        return [
            f"start with {_settings(self.rule)} local.clip={GRADIENT_BOUND:g} evaluate.model={_output(self.served)}, "
            f"and local.lr one of {rates} (see fedswe gym)",
            f"most alike in the gym: {self.nearest} (distance {self.distance:.1f}{alike})",
            *self.evidence,
        ]


def _settings(rule: str) -> str:
    name, parameters = parse_label(rule)
    return shlex.join([f"algorithm.name={name}", *(f"algorithm.{parameter}" for parameter in parameters)])


def _output(label: str) -> str:
    """The text of a served model that is called so in measurements."""
    return next((text for text in OUTPUTS if output_label(text) == label), label)


def advise(values: Values, summary: Mapping[str, Any] | None = None) -> Advice | None:
    """None while there are no measurements of the gym."""
    known = stored() if summary is None else summary
    if not (known and known["settings"]):
        return None
    own = features(values)
    settings = known["settings"]
    nearest = min(settings, key=lambda setting: distance(own, setting["features"]))
    rule = known["recommended"]
    rates, served, evidence = list[float](), Counter[str](), []
    for setting in settings:
        if setting["availability"] != nearest["availability"]:
            continue
        found = next((r for r in setting["rules"] if r["rule"] == rule), None)
        best = next(r for r in setting["rules"] if r["rule"] == setting["best"])
        if found is None:
            continue
        rates.append(found["rate"])
        served[found["output"]] += 1
        mean = [sum(r["test"]) / len(r["test"]) for r in (found, best)]
        half = found["regret_half_width"]
        interval = "" if half is None else f" ± {half:.1f}"
        behind = f"{found['regret']:.1f}{interval} points behind the best, {setting['best']} with {mean[1]:.1f} %"
        compared = "the best there" if setting["best"] == rule else behind
        evidence.append(f"measured on {setting['task']}: {rule} {mean[0]:.1f} %, {compared}")
    low, high = min(rates) / 2, max(rates) * 2
    grid = [low * 2**i for i in range(round(math.log2(high / low)) + 1)]
    return Advice(
        rule, grid, served.most_common(1)[0][0], nearest["availability"], distance(own, nearest["features"]), evidence
    )


def stored() -> Mapping[str, Any] | None:
    """The measurements that come with the package."""
    file = files("fedswe.gym").joinpath(FILE)
    return json.loads(file.read_text()) if file.is_file() else None
