"""What docs/theory.md says of keel: where it ends, how fast its average gets there, and what extrapolation costs."""

import itertools
import json
import math
import re
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from fedswe.algorithms import FedAvg, IntervalExtrapolation, Keel
from fedswe.core import keys
from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import ClientView, Done, ServerView
from fedswe.core.records import parts, total
from fedswe.core.transforms import Momentum
from fedswe.flower.federation import Federation
from fedswe.theory.step_shares import extrapolated_shares, interval_shares
from tests.cli.command import fedswe

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text().split("## Keel")[1].split("\n## ")[0]
FEDEXP = IntervalExtrapolation(power=0.0, least=0.0, chain=(Momentum(0.5),))


def servers(rule, x0, m, draw, move):
    """The server after each round of len(x0) runs of m clients: draw(t) says who, and who reports, both [n, runs]."""
    run, server, new = torch.arange(len(x0)), begin(rule, x0), rule.client_init(x0)
    kept = {name: value.expand(m, *value.shape).clone() for name, value in parts(new).items()}
    for t in itertools.count():
        who, there = draw(t)
        at, view = ClientView(x0.new_full((1,), t), x0.new_ones(1)), ServerView(t, m, 1.0)
        before, down = {name: value[who, run] for name, value in kept.items()}, rule.downlink(server.state, view)
        client = replace(new, **before)
        job = rule.plan(client, replace(down, x=down.x.expand(len(who), *x0.shape)), at)
        after, sent = rule.report(client, down, job, Done(job.start + move(job.start, who), 1, 1.0), at)
        for name, value in parts(after).items():
            kept[name][who, run] = torch.where(there[..., None], value, before[name])
        sent = replace(sent, **{name: value * there[..., None] for name, value in parts(sent).items()})
        server, _ = aggregate(rule, server, total(sent, len(who)), len(who), view)
        yield server


def after(rounds, runs):
    return next(islice(runs, rounds - 1, None)).state


# Quadratics of which each client goes a share of the way to its own optimum; 10 of m clients a round.


@cache
def drawn(m, runs):
    """[200, 10, runs], different ones."""
    at, run, tries = torch.arange(200)[:, None, None], torch.arange(runs)[:, None], torch.arange(30)
    clients = (m * keys.uniform(1, "there", at, run, tries)).long().tolist()
    return torch.tensor([[list(dict.fromkeys(ids))[:10] for ids in each] for each in clients]).mT


def distances(rule, m, share, runs, dimensions=10):
    """From the optimum, after 50 and 200 rounds: root mean square over the runs."""
    run, everybody = torch.arange(runs), torch.ones(10, runs, dtype=torch.bool)
    names, number = drawn(m, runs).unique(return_inverse=True)  # nothing is kept of those that never report

    def move(x, number):
        who = names[number][..., None]
        pair = keys.normal(1, "centers", run[:, None], who // 2, torch.arange(dimensions))
        return share * (pair * (1 - 2 * (who % 2)) / dimensions**0.5 - x)  # the mean of a pair is 0

    x0 = torch.zeros(runs, dimensions, dtype=torch.float64)
    x0[:, 0] = 5.0
    states = servers(rule, x0, len(names), lambda t: (number[t], everybody), move)
    found = [server.model.square().sum(-1).mean().sqrt() for server in islice(states, 200)]
    return torch.stack([found[49], found[199]])


@pytest.mark.parametrize("m", [1_000, 10_000, 100_000, 1_000_000])
def test_extrapolation_costs_less_than_half_of_fedavgs_distance(m):
    fedavg, keel, fedexp = (distances(rule, m, 1 - 0.9**10, runs=24) for rule in (FedAvg(), Keel(), FEDEXP))
    assert (keel < 1.5 * fedavg).all()
    assert (fedexp > 1.5 * fedavg).all()


def test_the_table_of_distances():
    rules = {"`keel:longest=1`": Keel(longest=1.0), "`keel`": Keel(), "FedExP, momentum 0.5": FEDEXP}
    cases = [(share, m) for share in (1 - 0.9**10, 0.2) for m in (1_000, 100_000)]
    fedavg = [distances(FedAvg(), m, share, runs=96) for share, m in cases]
    for name, rule in rules.items():
        (row,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", PAGE, re.MULTILINE)
        found = [distances(rule, m, share, runs=96) / base for (share, m), base in zip(cases, fedavg, strict=True)]
        assert row == " | ".join(f"{early:.2f}, {late:.2f}" for early, late in found)


# Where it ends.

P, U = np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.eye(5)


def sets(p, runs):
    """Draws of who is there, everyone independently, among the rounds in which somebody is."""
    there = torch.tensor(list(itertools.product((False, True), repeat=len(p)))[1:])
    edges = torch.where(there, torch.tensor(p), 1 - torch.tensor(p)).prod(-1).cumsum(0)
    everyone = torch.arange(len(p))[:, None].expand(-1, runs)

    def draw(t):
        u = keys.uniform(1, "there", t, torch.arange(runs)) * edges[-1]
        return everyone, there[torch.searchsorted(edges, u).clamp(max=len(edges) - 1)].T

    return draw


@pytest.mark.parametrize("longest", [1.0, 4.0, 10.0])
def test_the_limits_on_the_page(longest, monkeypatch, capsys):
    limits = [extrapolated_shares(P, U, power, 0.0, longest) @ U - U.mean(axis=0) for power in (0.0, 0.5, 1.0)]
    assert ", ".join(f"{np.linalg.norm(limit):.3f}" for limit in limits) in PAGE
    words = ["stationary", f"availability.p={P.tolist()}", "task.name=quadratic", f"task.centers={U.tolist()}"]
    words += ["algorithm.name=keel", f"algorithm.longest={longest}", "--json"]
    said = json.loads(fedswe(monkeypatch, capsys, "theory", "bias", *words)[1])["limits"]
    found = next(entry["distance"] for entry in said if entry["algorithm"] == f"keel power=0.5 longest={longest:g}")
    assert found == pytest.approx(np.linalg.norm(limits[1]))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("longest", [1.0, 4.0])
def test_where_a_run_with_a_small_rate_ends(power, longest):
    u, runs = torch.tensor(U), 16
    rule = Keel(power=power, longest=longest, cutoff=1000)
    move = lambda x, who: 0.02 * (u[who] - x)  # noqa: E731
    x0 = u.mean(dim=0).expand(runs, 5).contiguous()
    models = [s.model for s in islice(servers(rule, x0, len(P), sets(P, runs), move), 1500)]
    found = torch.stack(models[1000:]).mean(dim=(0, 1)).numpy()
    np.testing.assert_allclose(found, extrapolated_shares(P, U, power, 0.0, longest), atol=0.015)


# The rate: E F(a_T) - F* <= c_T (R^2 / (2 gamma) + gamma (T + 1) G^2 / 2) with c_T = (recent + 1) / (T + recent).


def bound(radius, rate, rounds, recent, gradient=1.0):
    return (recent + 1) / (rounds + recent) * (radius**2 / rate + rate * (rounds + 1) * gradient**2) / 2


@pytest.mark.parametrize("steady", [0.0, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("recent", [0.0, 3.0])
def test_the_rate_of_the_average(steady, recent):
    """F_i = |x - u_i|, whose gradients have length 1, and with them every mean of them."""
    runs, rounds, p = 100, 60, np.linspace(0.1, 0.8, 7)
    u, q = 2 * keys.normal(2, "centers", torch.arange(7)[:, None], torch.arange(4)), torch.tensor(interval_shares(p, 0))
    best = u.mean(dim=0)
    for _ in range(2000):  # Weiszfeld
        pull = q / (best - u).norm(dim=-1)
        best = pull @ u / pull.sum()
    assert ((q / (best - u).norm(dim=-1)) @ (best - u)).norm() < 1e-9
    x0 = torch.full((runs, 4), 3.0, dtype=torch.float64)
    radius = (x0[0] - best).norm().item()
    for faster in (0.3, 1.0, 3.0):
        rate = faster * radius / (rounds + 1) ** 0.5
        move = lambda x, who, rate=rate: rate * torch.nn.functional.normalize(u[who] - x, dim=-1)  # noqa: E731
        rule = Keel(power=0.0, longest=1.0, steady=steady, recent=recent)
        a = after(rounds, servers(rule, x0, 7, sets(p, runs), move)).average
        value = [(q * (x[:, None] - u).norm(dim=-1)).sum(-1).mean().item() for x in (a, best[None])]
        assert 0 < value[0] - value[1] <= bound(radius, rate, rounds, recent)


def one_client(rule, gradient, rate, x0, rounds):
    here = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool)
    return after(rounds, servers(rule, x0, 1, lambda t: here, lambda x, who: -rate * gradient(x)))


@pytest.mark.parametrize("steady", [0.0, 0.8, 0.99])
@pytest.mark.parametrize("recent", [0.0, 3.0])
def test_the_rate_is_sharp(steady, recent):
    """The largest of T + 1 coordinates, at least -h: every step lowers one coordinate, and the last keeps its start."""
    rounds, h = 40, 0.7
    x0, units = torch.zeros(1, rounds + 1, dtype=torch.float64), torch.eye(rounds + 1, dtype=torch.float64)
    rule = Keel(longest=1.0, steady=steady, recent=recent)
    a = one_client(rule, lambda x: units[x.argmax(-1)], h, x0, rounds).average
    above = a.max().clamp(min=-h).item() + h
    assert above == pytest.approx(rounds / (rounds + 1) * bound(h * math.sqrt(rounds + 1), h, rounds, recent=0.0))
    assert above < bound(h * math.sqrt(rounds + 1), h, rounds, recent)


def test_the_rate_is_that_of_the_average():
    """The last iterate moves around the minimum of |x| by its step."""
    rule, x0 = Keel(longest=1.0, steady=0.0, recent=0.0), torch.full((1, 1), 3.0, dtype=torch.float64)
    end = one_client(rule, torch.sign, 0.45, x0, 400)
    assert end.average.abs().item() < bound(3.0, 0.45, 400, 0.0) < end.x.abs().item()


# Members.


def test_a_client_that_joins_is_taken():
    """Its clock starts when it joins: at its first report it has the weight 1, which all had at theirs."""
    federation = Federation(Keel(longest=1.0, steady=0.0), torch.zeros(2, dtype=torch.float64))

    def merged(**moves):
        ends = {name: federation.server.model + move for name, move in moves.items()}
        return federation.merge({name: lambda end=end: Done(end, 1, 1.0) for name, end in ends.items()})

    federation.enrol(["a", "b"])
    for t in range(120):
        federation.advance(merged(a=1.0, b=1.0) if t % 2 else merged(a=1.0))
    server, kept = federation.server, {name: federation.record(name) for name in ("a", "b")}
    assert federation.enrol(["c"]) == (["c"], [])
    assert federation.server is server
    assert all(federation.record(name) is record for name, record in kept.items())
    after_it = merged(b=4.0, c=1.0)
    step = (after_it.server.state.ahead - server.state.ahead) * (2**0.5 + 1)  # b was there in every second round
    torch.testing.assert_close(step, torch.full_like(step, 4 * 2**0.5 + 1))
    assert {name: value.item() for name, value in parts(after_it.clients["c"]).items()} == {"last": 0, "intervals": 1}
