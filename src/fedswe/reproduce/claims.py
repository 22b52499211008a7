"""What the paper asserts about its experiments, and whether our measurements agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fedswe.reproduce.choice import Choice
from fedswe.reproduce.decide import DECISIONS, Verdict
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.publish import folder_of
from fedswe.results.files import write_whole


@dataclass(frozen=True)
class Claim:
    name: str
    statement: str
    where: str
    expected: bool = False  # safe to expect: a measurement that says otherwise should be looked into


CLAIMS = (
    Claim(
        "fedswe-beats-unaided",
        "FedSWE beats every method without memory or known statistics",
        "Table 2, §Performance P=1",
    ),
    Claim("k0-above-fedavg", "FedSWE without interpolation (k = 0) beats FedAvg over active clients", "Table 2", True),
    Claim("k100-beats-k0", "k = 100 beats k = 0 (in the paper on eight of nine tasks)", "Table 2, §Performance P=1"),
    Claim("fedavg-all-worst", "FedAvg over all clients is the worst, by four points or more", "Table 2", True),
    Claim("sometimes-beats-mifa", "FedSWE occasionally beats MIFA", "Table 2, §Performance P=1"),
    Claim("competitive-with-known", "FedSWE sometimes beats FedAvg with known probabilities", "Table 2"),
    Claim(
        "no-slowdown", "no significant slowdown against FedAvg (k = 0; here: at most 1.5 times the rounds)", "Table 7"
    ),
    Claim("every-gamma", "FedSWE (k = 0) beats the unaided methods at every depth of the sine", "Table 8"),
    Claim("every-alpha", "FedSWE (k = 0) beats the unaided methods at every heterogeneity", "Table 9"),
    Claim("non-stationarity-hurts", "non-stationary availability alone hurts FedAvg", "Figure 3"),
    Claim("consensus-fails-at-zero", "at k = 0 the clients reach no consensus: the error grows", "Figure 6"),
    Claim("consensus-improves-with-k", "the larger k, the smaller the consensus error", "Figure 6"),
    Claim("k100-beats-baselines", "in turns of two groups, k = 100 beats all six baselines", "Figures 7 and 10"),
    Claim(
        "k100-beats-baselines-same-model",
        "the same with every method judged by the client mean (not asserted by the paper)",
        "Figures 7 and 10",
    ),
    Claim("k100-smoother", "in turns of two groups, k = 100 swings less than k = 0", "Figures 7 and 10"),
    Claim("accuracy-peaks-near-m", "final accuracy rises with k, peaks near k = m, then drops", "Figures 8 and 11"),
    Claim("rounds-shrink-then-grow", "rounds to a test accuracy shrink, then grow with k", "Figures 9 and 12"),
)

Judged = list[tuple[Claim, Verdict]]


def judge(choice: Choice, measured: Measurements) -> Judged:
    return [(claim, DECISIONS[claim.name](choice, measured)) for claim in CLAIMS]


def publish_claims(choice: Choice, judged: Judged, out: Path) -> Path:
    """claims.md: each claim, the verdict, and the numbers behind it."""
    counted = Counter(verdict.status for _, verdict in judged)
    page = [
        "# Claims of the paper",
        "",
        f"scale {choice.scale_name} ({choice.scale.purpose}), profile {choice.profile}; "
        + ", ".join(f"{counted[status]} {status}" for status in ("holds", "does not hold", "not yet measured")),
        "",
        "| claim | where | verdict | numbers (test accuracy in %, mean over seeds; ✗ where it fails) |",
        "|---|---|---|---|",
    ]
    page += [
        f"| {claim.statement} | {claim.where} | **{verdict.status}** | {verdict.evidence} |"
        for claim, verdict in judged
    ]
    path = folder_of(choice, out) / "claims.md"
    write_whole(path, "\n".join(page) + "\n")
    return path
