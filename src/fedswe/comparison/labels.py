"""Labels of algorithms: `fedswe:k=10`, `./mine.py:Mine:damp=0.5`, `fedavg:chain=[clip:5,momentum:0.9]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from fedswe.errors import require
from fedswe.experiment.configuration import experiment, override
from fedswe.experiment.experiment import Experiment, changed_parameters
from fedswe.registry import importable, kind_of, name_of, split, split_at

_SHORT, _LONG = 24, 40  # characters of a name that is shown as it is, and of the longest


def split_labels(text: str) -> list[str]:
    """The labels of a list, separated by commas outside brackets."""
    labels = [label for part in split_at(",", text) if (label := part.strip())]
    for label in labels:
        require(labels.count(label) == 1, f"--algorithms names {label} twice")
    return labels


def parse_label(label: str) -> tuple[str, list[str]]:
    """The name of an algorithm and its key=value parameters. A name may be MODULE:CLASS or FILE.py:CLASS."""
    name, parts = split("algorithm", label)
    for part in parts:
        require("=" in part, f"--algorithms: cannot read {part!r} in {label}: write key=value, and chain=[clip:5]")
    return name, parts


def labelled(table: dict[str, Any], label: str) -> Experiment:
    """The experiment of one algorithm; parameters in the table apply to the algorithm that the table names."""
    name, parameters = parse_label(label)
    return experiment(override(table, [f"algorithm.name={name}", *(f"algorithm.{p}" for p in parameters)]))


def in_sweep(label: str, algorithm: Any, labels: Sequence[str]) -> str:
    """In a sweep over one number, its default is named too: fedswe beside fedswe:k=10 is called fedswe:k=100."""
    keys = {part.partition("=")[0] for name, parts in map(parse_label, labels) if name == label for part in parts}
    number = getattr(algorithm, "".join(keys), None)  # several keys are the name of none
    full = f"{label}:{''.join(keys)}={number_text(number)}" if isinstance(number, int | float) else label
    return label if full in labels else full


def label_of(kind: str, part: Any) -> str:
    """The label of an instance: its name and the parameters that are not the defaults."""
    words = [f"{key}={_written(value)}" for key, value in changed_parameters(part).items()]
    return ":".join([name_of(kind, cls) if importable(cls := type(part)) else cls.__name__, *words])


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    kind = kind_of(type(value))
    return label_of(kind, value) if kind else number_text(value) if isinstance(value, float) else str(value)


def number_text(value: float) -> str:
    """The shortest text of a number that is no other number: 0.1, 1, 0.1234567."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def short_names(names: Iterable[str]) -> dict[str, str]:
    """By name what charts call it: of a long label the algorithm and its chain, and what else tells it from others.

    interval_extrapolation:chain=[momentum:0.5] is interval_extrapolation+momentum.
    """
    forms, shown = {name: _forms(name) for name in names}, {}
    for name, own in forms.items():
        others = [of for other, of in forms.items() if other != name]
        shown[name] = next((form for i, form in enumerate(own) if all(of[i] != form for of in others)), name)
    return shown


def _forms(name: str) -> list[str]:
    """The algorithm and its chain; with the other parameters; with those of the chain; everything."""
    words, chain, others = split_at(" ", name), list[str](), list[str]()
    own = [parts[-1] for word in words if (parts := [part for part in split_at(":", word) if "=" not in part])]
    for key, given, value in (part.partition("=") for word in words for part in split_at(":", word)):
        if key.endswith("chain"):
            chain = [*filter(None, split_at(",", value.strip("[]")))]
        elif given:
            others.append(f"{key}={value}")
    short = "+".join([" ".join(own), *(split_at(":", transform)[0] for transform in chain)])
    every = [short, " ".join([short, *others]), " ".join(["+".join([" ".join(own), *chain]), *others]), name]
    if len(name) <= _SHORT or not (own and (chain or others)):
        every = [name] * 4
    return [form if len(form) <= _LONG else f"{form[:22]}…{form[-17:]}" for form in every]


def run_name(label: str, rate: float, seed: int) -> str:
    """The name of a run of a comparison, which is that of its directory."""
    return f"{file_name(label)}-lr{number_text(rate)}-seed{seed}"


def file_name(label: str) -> str:
    """A label as a part of a file name: fedswe:k=10 gives fedswe_k10, ./mine.py:Mine gives mine.Mine."""
    name = re.sub(r":(?=[^:=\[\]]+=)", "_", label.replace(".py:", "."))
    name = re.sub(r"[:/]", ".", name).replace(",", "-")
    return re.sub(r"[^\w.+-]", "", name).lstrip(".")
