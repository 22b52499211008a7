"""Recompute every merge of a federation from the reports in its store, and compare bits."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from fedswe.core.algorithm import Done
from fedswe.errors import require
from fedswe.flower.federation import Federation, Member, Tensors
from fedswe.flower.store import Store
from fedswe.flower.strategy import algorithm, digest


def replay(path: str | Path) -> tuple[int, int, str]:
    """The rounds and reports that were recomputed, and what is wrong; empty if all models have the stored bits."""
    with closing(Store(path)) as store:
        facts, rows, members = store.facts(), store.rounds(), store.members()
        require(facts.get("keep_reports"), f"{path} has no reports: start the Strategy with keep_reports=True")
        rule, reports = algorithm(facts["rule"]), 0
        federation = Federation(rule, store.model(0))
        for t, row in enumerate(rows):
            federation.enrol(name for name, member in members.items() if member.joined == t)
            for name, member in federation.members.items():
                federation.members[name] = replace(member, number=members[name].number)
            federation.m = row["m"]  # without the members that were removed
            sent = store.reports(t + 1)
            if sent.keys() != row["merged"].keys():
                return t, reports, f"round {t + 1}: its reports are not those that were merged"
            lr = statistics.median_low(lr for _, lr, _ in sent.values()) if sent else 1.0
            ends = {name: partial(Done, end, steps, rate) for name, (steps, rate, end) in sent.items()}
            federation.advance(federation.merge(ends, lr, row.get("weights")))
            federation.forget()
            reports += len(sent)
            if digest(federation) != row["digest"]:
                return t, reports, f"round {t + 1}: its reports give another model than the stored one"
        for what, stored, given in _states(store, federation, members):
            if stored.keys() != given.keys() or not all(torch.equal(v, given[n]) for n, v in stored.items()):
                return len(rows), reports, f"what is stored of {what} is not what the rounds give"
        return len(rows), reports, ""


def _states(store: Store, federation: Federation, members: dict[str, Member]) -> Iterator[tuple[str, Tensors, Tensors]]:
    """What is stored after the last round, and what the rounds give."""
    kept = {name: value for name, value in store.server(federation.t).items() if not name.startswith("output.")}
    yield "the server", kept, federation.tensors()
    yield "the server's model", {"x": store.model(federation.t)}, {"x": federation.server.model}
    for name, member in federation.members.items():
        yield f"client {name}", store.client(name), federation.own_tensors(name)
        if member.holds is not None:
            held = {"x": store.model(members[name].holds or 0)}
            yield f"the model of client {name}", held, {"x": federation.model(member.holds)}
