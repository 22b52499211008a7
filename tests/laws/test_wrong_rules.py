"""Rules of users that break a law are refused before they run, with the method and the remedy; right ones are not."""

import math
from dataclasses import replace

import pytest
import torch

from fedswe import Experiment, compare, run
from fedswe.algorithms import F3AST, FedAvg, FedSWE
from fedswe.availability import Always
from fedswe.core.algorithm import Job, Update
from fedswe.core.records import Model, Nothing, parts
from fedswe.engine import laws
from fedswe.errors import FedsweError, require
from fedswe.experiment.configuration import load
from fedswe.tasks import Quadratic


def rule(method, change, base=FedAvg, **more):
    """A rule of a user's: a method whose result is changed, given what the method is given."""

    def changed(self, *given):
        return change(self, getattr(base, method)(self, *given), *given)

    return type("Mine", (base,), {method: changed, **more})()


def reports(change, base=FedAvg):
    """A rule whose report is changed."""
    return rule("report", lambda self, found, *given: (found[0], Model(change(found[1].x, given[-1]))), base)


def in_place(record):
    next(iter(parts(record).values())).mul_(0)


def counting(calls=[]):  # noqa: B006
    calls.append(None)
    return len(calls)


APART = "reduce with dim=-1, keepdim=True"
WRONG = {
    "norm": (reports(lambda x, at: x / x.norm()), rf"Mine.report\(\) mixes clients in message.x: {APART}"),
    "norm, later": (
        reports(lambda x, at: x - x.mean(0) if x.ndim == 2 and at.t > 3 else x),
        r"report\(\) mixes clients in message.x",
    ),
    "norm without keepdim": (reports(lambda x, at: x / x.norm(dim=-1)), rf"report\(\) fails on a stack .*: {APART}"),
    "one number": (reports(lambda x, at: x.norm()), r"report\(\) returns message.x of shape \[\]"),
    "one number for a model": (reports(lambda x, at: x.mean(-1, keepdim=True)), r"merge\(\) returns step of shape \[1\]"),
    "random": (reports(lambda x, at: x * torch.rand(x.shape[-1])), r"report\(\) gives another message.x .*random"),
    "end in place": (rule("report", lambda s, found, c, d, job, done, at: (in_place(done), found)[1]), r"changes done.end"),
    "state in place": (rule("plan", lambda s, job, c, d, at: (in_place(c), job)[1], FedSWE), r"plan\(\) changes c.x"),
    "total in place": (rule("merge", lambda s, u, state, total, *_: (in_place(total), u)[1]), r"merge\(\) changes total.x"),
    "server in place": (rule("finish", lambda s, found, state, *_: (in_place(state), found)[1]), r"finish\(\) changes s.x"),
    "random server": (rule("downlink", lambda s, d, *_: Model(torch.rand_like(d.x))), r"downlink\(\) gives another x"),
    "memory": (rule("merge", lambda s, u, *_: replace(u, over=1, base=u.base * counting())), r"merge\(\) gives another base"),
    "start": (rule("plan", lambda s, job, *_: Job(job.start[..., :1])), r"plan\(\) returns start of shape \[\d+, 1\]|\[1\]"),
    "another state": (
        rule("report", lambda s, found, *_: (Nothing(), found[1]), FedSWE),
        r"report\(\) returns a state with {}, client_init\(\) one with {'x': \[\d+\], 'last': \[1\]}",
    ),
    "settled": (rule("settle", lambda s, c, *_: replace(c, x=c.x[..., :1]), FedSWE), r"settle\(\) returns a state with {'x'"),
    "bids": (rule("bid", lambda s, bid, c, at: bid - bid.mean(), F3AST), rf"bid\(\) mixes clients in numbers: {APART}"),
    "m": (rule("merge", lambda s, u, *given: Update(Model(u.base + given[-1].m), u.base)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_refused(name):
    wrong, message = WRONG[name]
    if message is None:
        return laws.refuse(wrong)
    with pytest.raises(FedsweError, match=message):
        laws.refuse(wrong)
