"""The summary of a report in plain language."""

from __future__ import annotations

import math

import numpy as np

from fedswe.figures.drawn import facts_of, words
from fedswe.report.blocks import listed, name_in_text
from fedswe.report.judged import Judged, is_unfinished, model_words
from fedswe.report.noise import difference, differs

_UNSTEADY = 2.0  # times the fluctuation of another model
_LEAST = 1.0  # points of accuracy: smaller fluctuations and differences are not mentioned


def summary(judged: Judged) -> list[str]:
    runs = judged.runs
    number = len({id(run.history) for run in runs})
    what = (
        f"{number} runs of {len(judged.names)} kinds"
        if 1 < len(judged.names) < number
        else f"{number} run{'s' * (number > 1)}"
    )
    sentences = [f"{what}: {facts_of(runs, name_in_text)}"]
    for model in judged.finals:
        sentences += _standing(judged, model)
    if "server" in judged.finals and "client_mean" in judged.finals:
        sentences += _unsteady(judged)
        sentences += _better_model(judged)
    sentences += _diverged(judged)
    if judged.left_out:
        seeds = listed(list(map(str, judged.left_out)))
        sentences.append(f"Means and differences are over the seeds that all have in common, without {seeds}.")
    late = [run.source for run in {id(run.history): run for run in runs if is_unfinished(run)}.values()]
    if late:
        no_final = ", and without final scores" if judged.unfinished else ""
        sentences.append(f"Not finished{no_final}: {listed(late, 3)}.")
    return sentences


def _standing(judged: Judged, model: str) -> list[str]:
    found, score = judged.rankings[model], words(judged.score)
    named = f"{_model(model)}: " if model else ""
    if found is None:
        return []
    of = judged.finals[model]
    mean = judged.shown(float(np.mean(list(of[found.best].values())))) + (" %" if judged.percent else "")
    if len(judged.names) == 1:
        return [f"{named}the {score} over the last {judged.tail} rounds is {mean}."]
    most = "highest" if judged.more_is_better else "lowest"
    worse = "lower" if judged.more_is_better else "higher"
    which = " of the finished runs" if judged.unfinished else ""
    text = f"{named}{name_in_text(found.best)} has the {most} {score}{which}, {mean}"
    if all(len(finals) < 2 for finals in of.values()):
        return [f"{text}. There is one seed of each: differences cannot be told from noise."]
    if found.level:
        text += f"; {listed(found.level)} {'is' if len(found.level) == 1 else 'are'} level with it within the noise"
    text += "."
    unit, lower = " points" if judged.percent else "", found.behind

    def behind(name: str) -> str:
        gap = difference(of[name], of[found.best])
        return f"{judged.shown(abs(gap.mean))} ± {judged.shown(gap.half)}{unit}"

    if len(lower) == 1:
        text += f" {name_in_text(lower[0])} is {worse} by {behind(lower[0])}."
    elif lower:
        text += f" {len(lower)} others are {worse}, the nearest ({name_in_text(lower[0])}) by {behind(lower[0])}."
    if found.unclear:
        it_is = "it is" if len(found.unclear) == 1 else "they are"
        why = "there are too few seeds, or they differ too much"
        text += f" Of {listed(found.unclear)} it cannot be told whether {it_is} {worse}: {why}."
    return [text]


def _unsteady(judged: Judged) -> list[str]:
    """Where the server model moves much more from evaluation to evaluation than the client mean, or the reverse."""
    sentences = []
    unit, least = (" points", _LEAST) if judged.percent else ("", 0.0)
    for model, other in (("server", "client_mean"), ("client_mean", "server")):
        here, there = judged.fluctuations[model], judged.fluctuations[other]
        found = [name for name in here if name in there and _is_unsteady(judged, here[name], there[name])]
        found.sort(key=lambda name: -here[name])
        steady = [name for name in found if there[name] <= least]
        for names, how in (
            (steady, "is unsteady, the {} is not"),
            ([n for n in found if n not in steady], "is less steady than the {}"),
        ):
            if names:
                one, of = names[0], "" if len(names) == 1 else f" of {name_in_text(names[0])}"
                sentences.append(
                    f"The {model_words(model)} of {listed(names)} {how.format(model_words(other))}: over the last "
                    f"{judged.tail} rounds the {words(judged.score)}{of} fluctuates by {judged.shown(here[one])}{unit} "
                    f"from one evaluation to the next, at the {model_words(other)} by {judged.shown(there[one])}{unit}."
                )
    return sentences


def _is_unsteady(judged: Judged, here: float, there: float) -> bool:
    least = _LEAST if judged.percent else 0.0
    return math.isfinite(here + there) and here > _UNSTEADY * there and here > least


def _better_model(judged: Judged) -> list[str]:
    sentences = []
    for model, other in (("client_mean", "server"), ("server", "client_mean")):
        names = []
        for name, of in judged.finals[model].items():
            than = judged.finals[other].get(name, {})
            if of and than and differs(of, than) and judged.more_is_better is not None:
                gap = difference(of, than).mean
                better = gap if judged.more_is_better else -gap
                if better > (_LEAST if judged.percent else 0.0):
                    names.append(name)
        if names:
            sentences.append(f"For {listed(names)}, the {model_words(model)} is the better model to serve.")
    return sentences


def _diverged(judged: Judged) -> list[str]:
    sentences = []
    for model, drawn in judged.per_model.items():
        lost = {group.name: sum(map(drawn.diverged, group.runs)) for group in drawn.groups}
        every = [group.name for group in drawn.groups if lost[group.name] == len(group.runs)]
        some = [
            f"{name_in_text(g.name)} ({lost[g.name]} of {len(g.runs)} seeds)"
            for g in drawn.groups
            if 0 < lost[g.name] < len(g.runs)
        ]
        named = f"{_model(model)}: " if model else ""
        if every:
            sentences.append(f"{named}{listed(every)} diverged.")
        if some:
            sentences.append(f"{named}{', '.join(some)} diverged.")
    return sentences


def _model(name: str) -> str:
    text = model_words(name)
    return text[:1].upper() + text[1:]
