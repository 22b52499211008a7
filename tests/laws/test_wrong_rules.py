"""Rules of users that break a law are refused before they run, with the method and the remedy; right ones are not."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedswe import Experiment, compare, run
from fedswe.algorithms import F3AST, FedAvg, FedSWE, FedVARP, GFedAvg
from fedswe.availability import Always
from fedswe.core.algorithm import Job
from fedswe.core.records import Model, Nothing, parts
from fedswe.engine import laws
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.tasks import Quadratic
from tests.cli.command import fedswe


def rule(method, change, base=FedAvg, **more):
    """A rule of a user's: a method whose result is changed, given what the method is given."""

    def changed(self, *given):
        return change(self, getattr(base, method)(self, *given), *given)

    return type("Mine", (base,), {method: changed, **more})()


def reports(change, base=FedAvg):
    """A rule whose report is changed."""
    return rule("report", lambda self, found, *given: (found[0], Model(change(found[1].x, given[-1]))), base)


def spoil(record, found):
    """What was found, after a change in place."""
    next(iter(parts(record).values())).mul_(0)
    return found


COUNT = itertools.count(1)
APART = "reduce with dim=-1, keepdim=True"
WRONG = {
    "norm": (reports(lambda x, at: x / x.norm()), f"Mine.report() mixes clients in message.x: {APART}"),
    "norm, later": (reports(lambda x, at: x - x.mean(0) if x.ndim == 2 and at.t > 3 else x), "report() mixes clients"),
    "norm without keepdim": (reports(lambda x, at: x / x.norm(dim=-1)), "report() fails on a stack"),
    "a number": (reports(lambda x, at: x.norm()), "report() returns message.x of shape []: a number has shape [1]"),
    "a number for a model": (reports(lambda x, at: x.mean(-1, keepdim=True)), "merge() returns step of shape [1]"),
    "random": (reports(lambda x, at: x * torch.rand(x.shape[-1])), "report() gives another message.x"),
    "end": (rule("report", lambda s, found, c, d, job, done, at: spoil(done, found)), "report() changes done.end"),
    "state": (rule("plan", lambda s, job, c, *_: spoil(c, job), FedSWE), "plan() changes c.x in place"),
    "total": (rule("merge", lambda s, u, state, total, *_: spoil(total, u)), "merge() changes total.x in place"),
    "server": (rule("finish", lambda s, found, state, *_: spoil(state, found)), "finish() changes s.x in place"),
    "random server": (rule("downlink", lambda s, d, *_: Model(torch.rand_like(d.x))), "downlink() gives another x"),
    "memory": (rule("merge", lambda s, u, *_: replace(u, base=u.base * next(COUNT))), "merge() gives another base"),
    "start": (rule("plan", lambda s, job, *_: Job(job.start[..., :1])), "plan() returns start of shape [1] for"),
    "another": (rule("report", lambda s, found, *_: (Nothing(), found[1]), FedSWE), "and returns one with {}"),
    "shorter": (rule("settle", lambda s, c, *_: replace(c, x=c.x[..., :1]), FedSWE), "settle() is given a state with"),
    "bids": (rule("bid", lambda s, bid, c, at: bid - bid.mean(), F3AST), "bid() mixes clients in numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_refused(name):
    wrong, message = WRONG[name]
    with pytest.raises(FedsweError, match=re.escape(message)):
        laws.refuse(wrong)


@pytest.mark.parametrize("engine", ["batched", "loop"])
def test_wherever_an_experiment_starts(engine):
    strategy, (wrong, message) = pytest.importorskip("fedswe.flower").Strategy, WRONG["norm"]
    experiment = Experiment(rounds=2, algorithm=wrong, engine=engine, task=Quadratic(), availability=Always())
    for start in (lambda: run(experiment), lambda: compare({"a": experiment}, seeds=[3]), lambda: strategy(wrong)):
        with pytest.raises(FedsweError, match=re.escape(message)):
            start()


RIGHT = {
    "example": load(None, [f"algorithm.name={Path(__file__).parents[2]}/examples/own_algorithm.py:Damped"]).algorithm,
    "normed": reports(lambda x, at: x / x.norm(dim=-1, keepdim=True)),
    "longer": reports(lambda x, at: x * (x >= x.topk(5000).values[..., -1:])),  # than the vectors that are tried
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_rule_is_not_refused(name):
    assert laws.refuse(RIGHT[name]) is None


BROKEN = {
    "continuing": (rule("divisor", lambda s, found, *_: found + next(COUNT)), "keep all that a round depends on"),
    "agreeing": (reports(lambda x, at: x + x.mean(0)), "the server's model in torch.float64"),
    "absent": (rule("report", lambda s, found, c, *_: spoil(c, found), FedSWE), "state.x in round"),
    "forgetting": (rule("report", lambda s, found, *_: found, FedVARP, home="client"), "y is made of more than"),
    "pure": (rule("finish", lambda s, f, x, n, at: (replace(x, anchor=x.x + at.m), f[1]), GFedAvg), "state.anchor"),
}


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_each_law_can_be_broken(law):
    wrong, message = BROKEN[law.__name__]
    with pytest.raises(FedsweError, match=re.escape(message)):
        law(wrong)


def test_the_command_prints_a_line_per_law(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "from tests.laws.test_wrong_rules import WRONG\nWrong = type(WRONG['norm'][0])\n"
    (tmp_path / "mine.py").write_text(text)
    for label, code, first in (("fedswe:k=3", 0, "passed"), ("./mine.py:Wrong:lr=0.5", 1, "wrong")):
        ended, out, _ = fedswe(monkeypatch, capsys, "check", label)
        assert (ended, len(out.splitlines())) == (code, len(laws.LAWS))
        assert out.startswith(first)
