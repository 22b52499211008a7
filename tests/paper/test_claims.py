"""Every claim is decided, by the numbers: it holds in a world like the paper's, and flips when they do."""

from dataclasses import replace

import numpy as np
import pytest

from fedswe_paper.claims import CLAIMS, judge, publish_claims
from fedswe_paper.decisions import DECISIONS, exact
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes import RECIPES
from fedswe_paper.selection import Selection
from tests.paper.handmade import FULL, as_printed, told, world

EXACT = {claim.id for claim in CLAIMS if set(claim.recipes) <= {"fig2", "fig4", "fig5", "fig15"}}
PUZZLE = "competitive-with-known"  # what the paper's own Table 2 does not bear out: 3.1 points behind on CIFAR-10


def told_otherwise(condition, **numbers):
    """A change to the stories of the cells that meet the condition; callables are applied to the old value."""

    def change(cell, story):
        if not condition(cell):
            return story
        return replace(story, **{n: v(getattr(story, n)) if callable(v) else v for n, v in numbers.items()})

    return change


def more(points):
    return lambda old: old + points


def steady(algorithm, dataset=None, dynamics=None, k=0, **exactly):
    def condition(cell):
        return (
            not cell.periodic
            and not cell.p
            and (cell.algorithm, cell.k) == (algorithm, k)
            and dataset in (None, cell.dataset)
            and dynamics in (None, cell.dynamics)
            and all(getattr(cell, name) == value for name, value in exactly.items())
        )

    return condition


def turns(algorithm, k=0):
    return lambda cell: cell.periodic and (cell.algorithm, cell.k) == (algorithm, k)


FLIPS = {
    "gamma-costs-fedavg-accuracy": told_otherwise(lambda c: (c.p, c.gamma) == (0.1, 0.5), train=more(5)),
    "non-stationarity-hurts": told_otherwise(lambda c: (c.p, c.gamma) == (1.0, 0.5), final=more(10)),
    "consensus-fails-at-zero": told_otherwise(turns("fedswe"), consensus=(1.0, 0.9)),
    "consensus-improves-with-k": told_otherwise(turns("fedswe", 200), consensus=(1.0, 5.0)),
    "k100-smoother": told_otherwise(turns("fedswe", 100), swing=13),
    "known-peaks-highest-on-svhn": told_otherwise(turns("mifa"), peak=83),
    "varp-and-gfedavg-smooth-but-low": told_otherwise(turns("fedau"), swing=2.5),
    "k100-beats-baselines": told_otherwise(turns("fedvarp"), final=83),
    "k100-beats-baselines-same-model": told_otherwise(turns("fedavg"), client_mean=33),
    "k100-matches-peak-of-known-svhn": told_otherwise(turns("fedavg_known"), peak=84),
    "accuracy-peaks-near-m": told_otherwise(turns("fedswe", 10), final=83),
    "rounds-shrink-then-grow": told_otherwise(turns("fedswe", 500), reached={40: 440}),
    "k100-beats-known-cifar10": told_otherwise(turns("fedavg_known"), final=83),
    "fedswe-beats-unaided": told_otherwise(steady("fedau", "svhn", "sine"), final=more(5)),
    "k0-above-fedavg": told_otherwise(steady("fedavg", "cinic10", "staircase"), final=more(10)),
    "k100-beats-k0": told_otherwise(steady("fedswe", "cinic10", "sine", k=100), final=more(-10)),
    "k0-and-k100-close-on-stationary-svhn": told_otherwise(
        steady("fedswe", "svhn", "stationary", k=100), final=more(-2)
    ),
    "fedavg-all-worst": told_otherwise(steady("fedavg_all", "cifar10", "sine"), final=more(8)),
    "dynamics-get-harder": told_otherwise(lambda c: not c.p and c.dynamics == "staircase", final=more(-20)),
    "sometimes-beats-mifa": told_otherwise(steady("mifa"), final=more(20)),
    PUZZLE: told_otherwise(steady("fedavg_known"), final=more(-5)),
    "no-slowdown": told_otherwise(steady("fedswe", "cifar10", "sine"), reached={15: 20, 60: 1700}),
    "slower-at-first": told_otherwise(steady("fedswe", "svhn", "sine"), reached={20: 10, 40: 70, 60: 140, 80: 820}),
    "no-slowdown-at-the-last-target": told_otherwise(steady("fedswe", "svhn", "sine"), reached={80: 1000}),
    "slower-on-cifar10": told_otherwise(steady("fedswe", "cifar10", "sine"), reached={60: 1000}),
    "fedavg-all-never-arrives": told_otherwise(steady("fedavg_all", "cinic10", "sine"), reached={40: 1900}),
    "every-gamma": told_otherwise(steady("fedau", gamma=0.2), final=more(8)),
    "every-alpha": told_otherwise(steady("f3ast", alpha=0.05), final=more(8)),
    "accuracy-rises-with-alpha": told_otherwise(lambda c: c.alpha == 1.0, final=more(-20)),
    "beats-mifa-for-larger-alpha": told_otherwise(steady("mifa", alpha=1.0), final=more(5)),
}


def main(change=None, without=None):
    return world(change, without, recipes=["main-table"])


@pytest.fixture(scope="module")
def printed():
    return world()


def test_every_claim_has_a_decision_and_a_test():
    ids = [claim.id for claim in CLAIMS]
    assert len(ids) == len(set(ids)) == 36
    assert set(ids) == set(DECISIONS) == EXACT | set(FLIPS)
    assert {recipe for claim in CLAIMS for recipe in claim.recipes} <= set(RECIPES)
    assert {claim.id for claim in CLAIMS if claim.expected} == {"fedavg-all-worst", "k0-above-fedavg"}


def test_the_papers_own_numbers_bear_out_its_claims_but_one(printed):
    failed = {claim.id for claim, verdict in judge(FULL, printed) if verdict.status != "holds"}
    assert failed == {PUZZLE}
    behind = [f for f in DECISIONS[PUZZLE](FULL, printed).findings if not f.holds]
    assert [f.place for f in behind] == ["cifar10, sine"]
    assert "k = 100 −3.1 ± 0.0 (2 seeds)" in behind[0].numbers


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.id in FLIPS], ids=lambda claim: claim.id)
def test_a_claim_flips_with_the_numbers(claim):
    there = DECISIONS[claim.id](FULL, world(FLIPS[claim.id], recipes=claim.recipes))
    assert there.status == ("holds" if claim.id == PUZZLE else "does not hold")
    assert there.evidence.startswith(there.count)


@pytest.mark.parametrize("scale", ["ci", "small", "full"])
def test_nothing_is_decided_without_measurements_but_what_is_exact(scale):
    for claim, verdict in judge(Selection(scale, "paper"), Measurements([])):
        assert verdict.status == ("holds" if claim.id in EXACT else "not yet measured")
        assert bool(verdict.findings) == (claim.id in EXACT)
        assert all("svhn" not in place for place in verdict.missing) or scale == "full"


def test_a_place_waits_for_the_last_of_its_methods():
    there = DECISIONS["fedswe-beats-unaided"](FULL, main(without=lambda c: c.algorithm == "f3ast"))
    assert there.status == "not yet measured"
    there = DECISIONS["fedswe-beats-unaided"](
        FULL, main(without=lambda c: c.algorithm == "f3ast" and c.dataset != "svhn")
    )
    assert (there.status, there.count) == ("holds", "3 of 3 places measured (9 in all)")
    assert len(there.missing) == 6


def test_only_common_seeds_are_compared(printed):
    """Seeds differ by a point for every method alike; the difference of two methods does not."""
    margin = DECISIONS["k0-above-fedavg"](FULL, printed).findings[0].numbers
    assert "± 0.0 (2 seeds)" in margin
    uneven = main(without=lambda c: c.algorithm == "fedavg" and c.seed == 4)
    assert "(1 seed)" in DECISIONS["k0-above-fedavg"](FULL, uneven).findings[0].numbers
    apart = main(without=lambda c: (c.algorithm == "fedavg") == (c.seed == 4))
    assert DECISIONS["k0-above-fedavg"](FULL, apart).status == "not yet measured"


@pytest.mark.parametrize(
    ("missed", "left_out", "status"),
    [
        ([("svhn", "stationary")], (), "holds"),
        ([("cifar10", "sine")], (), "holds"),
        ([("svhn", "stationary"), ("cifar10", "sine")], (), "does not hold"),
        ([("svhn", "stationary")], ("cinic10",), "holds"),
        ([("cifar10", "sine")], ("cinic10",), "does not hold"),
    ],
)
def test_eight_of_nine(missed, left_out, status):
    """One exception among nine; among fewer only the one the paper names."""

    def change(cell, story):
        ours = cell.algorithm == "fedswe" and cell.k == 100 and not cell.periodic
        if ours:
            at_zero = as_printed(replace(cell, k=0.0)).final
            return replace(story, final=at_zero + (-1 if (cell.dataset, cell.dynamics) in missed else 1))
        return story

    there = DECISIONS["k100-beats-k0"](FULL, main(change, without=lambda c: c.dataset in left_out))
    assert there.status == status


def test_at_other_scales_the_stand_in_is_looked_at():
    small = Selection("small", "paper")
    cells = [small.cell("fashion_mnist", "stationary", ("fedswe", k)) for k in (0.0, 100.0)]
    stories = [replace(as_printed(FULL.cell("svhn", "stationary", ("fedswe", 0.0))), final=f) for f in (80, 80.9)]
    measured = Measurements([told(c, s) for c, s in zip(cells, stories, strict=True)])
    there = DECISIONS["k0-and-k100-close-on-stationary-svhn"](small, measured)
    assert [finding.place for finding in there.findings] == ["fashion_mnist, stationary"]
    assert there.findings[0].numbers.startswith("+0.9 (1 seed)")


def test_the_page_and_the_sheet_say_the_same(tmp_path):
    measured = world(FLIPS["fedavg-all-worst"], without=lambda c: c.dataset == "cinic10")
    judged = judge(FULL, measured)
    page = publish_claims(FULL, judged, measured, tmp_path).read_text()
    sheet = (tmp_path / "full-released" / "claims.csv").read_text()
    for claim, verdict in judged:
        section = page.split(f"## {claim.id}\n")[1].split("\n## ")[0]
        assert f"**{verdict.status}**" in section
        assert f"| [{claim.id}](#{claim.id}) | {verdict.status} | {verdict.count} |" in page
        assert all(finding.numbers in section for finding in verdict.findings)
        assert f"{claim.id},{verdict.status}," in sheet
    worst = page.split("## fedavg-all-worst\n")[1].split("\n## ")[0]
    assert "- ✗ cifar10, sine: " in worst
    assert "- not measured, or too short to tell: cinic10, stationary; cinic10, staircase; cinic10, sine" in worst


def test_the_page_says_which_runs_were_short_or_blew_up(tmp_path):
    short = replace(FULL, rounds=700).cell("cifar10", "sine", ("fedavg", 0.0))
    lost = told(FULL.cell("svhn", "sine", ("mifa", 0.0)), as_printed(short))
    lost.history.last["server_test_loss"] = float("nan")
    measured = Measurements([told(short, as_printed(short)), lost])
    page = publish_claims(FULL, judge(FULL, measured), measured, tmp_path).read_text()
    assert "\n- cifar10: 700 rounds instead of 2000\n" in page
    assert f"\n- ended in NaN, and so always name the first class: {lost.cell.name}\n" in page
    assert "instead of" not in publish_claims(FULL, [], Measurements([]), tmp_path).read_text()


# what needs no runs ---------------------------------------------------------------------------------------------
def holds(findings):
    return all(finding.holds for finding in findings)


def test_exact_claims_flip_with_the_curves():
    p = np.linspace(0, 1, 11)
    assert holds(exact.far_from_optimum(p, np.full((11, 11), 40.0)))
    assert not holds(exact.far_from_optimum(p, np.full((11, 11), 4.0)))

    falling = [{"p": q, "rho": (1 - q) * np.linspace(1, 0.5, 51)} for q in (0.1, 0.5, 1.0)]
    assert holds(exact.rho_falls_with_k(falling))
    assert holds(exact.rho_falls_with_availability(falling))
    assert not holds(exact.rho_falls_with_k([{"p": 0.5, "rho": np.linspace(0.5, 1, 51)}]))
    assert not holds(exact.rho_falls_with_k([{"p": 1.0, "rho": np.full(51, 0.1)}]))
    assert not holds(exact.rho_falls_with_availability([*falling, {"p": 0.7, "rho": np.ones(51)}]))

    far, near = np.array([[100.0], [-98.0]]), np.array([[0.9], [-0.9]])
    assert holds(exact.cycles({"cycle": [100.0, -100.0], "clients": far}))
    assert not holds(exact.cycles({"cycle": [0.9, -0.9], "clients": near}))
    assert holds(exact.settles({"cycle": [0.9, -0.9], "clients": near}, slower=0.09))
    assert not holds(exact.settles({"cycle": [0.9, -0.9], "clients": near}, slower=0.9))
    assert not holds(exact.settles({"cycle": [100.0, -100.0], "clients": far}, slower=10.0))

    assert holds(exact.mostly_rare(np.array([0.1, 0.2, 0.9])))
    assert not holds(exact.mostly_rare(np.array([0.1, 0.8, 0.9])))
