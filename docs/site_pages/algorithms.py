"""One page per algorithm: formula, parameters, what it keeps and sends, its code step by step, citation."""

from __future__ import annotations

import inspect
from typing import Any

from fedswe import registry
from fedswe.cli.list_show import description
from fedswe.core.algorithm import Algorithm
from fedswe.registry import KINDS
from site_pages.markdown import code, page, table, toctree

SOURCES = "../../../src"  # from docs/generated/algorithms
# A round in pseudo-code, with the method that says what the line is in this algorithm.
ROUND = [
    ("server_init", "before the first round: the server's state begins as **server_init**(x^0)"),
    ("client_init", "before the first round: the state of each client begins as **client_init**(x^0)"),
    ("seats", "at most **seats**() of the available clients are selected (0: all)"),
    ("bid", "those with the lowest **bid** are selected"),
    ("downlink", "the server sends every selected client **downlink**(server state)"),
    ("plan", "each of them starts its s local steps at **plan**(client state, downlink)"),
    ("report", "and sends **report**(client state, downlink, start and end of the training)"),
    ("merge", "the server adds up the reports and computes base and step: **merge**(server state, sum, count)"),
    ("finish", "with the new model it replies **finish**(server state, count)"),
    ("settle", "each client that reported keeps **settle**(client state, reply)"),
]
DEFAULTS = {
    "server_init": "the model alone",
    "client_init": "nothing",
    "seats": "0",
    "bid": "",
    "downlink": "the server's model",
    "plan": "the model that was sent",
    "finish": "nothing",
    "settle": "the state it had",
}


def pages() -> dict[str, str]:
    names = list(KINDS["algorithm"].builtin)
    made = {f"algorithms/{name}.md": _page(name) for name in names}
    rows = [(f"[`{name}`]({name}.md)", registry.titles("algorithm")[name]) for name in names]
    intro = "One page each, made of the definition itself; `fedswe show NAME` prints the same."
    made["algorithms/index.md"] = page("Algorithms, one by one", intro, table(["name", "title"], rows), toctree(names))
    return made


def _page(name: str) -> str:
    ((_, cls),) = [found for found in registry.find(name) if found[0] == "algorithm"]
    entry = description("algorithm", name, cls)
    notes = []
    if entry["trains_while_absent"]:
        notes.append("Absent clients train too.")
    if entry["needs_probabilities"]:
        notes.append("It needs the true probabilities p_i^t, which no real client knows.")
    if cls.needs_plain_sgd:
        notes.append("It computes gradients from the local progress: the only local transform it takes is `clip`.")
    change = "may" if cls.members_change else "may not"
    parameters = [(code(p["key"]), code(repr(p["default"])), p["meaning"]) for p in entry["parameters"]]
    return page(
        name,
        f"**{entry['title']}**",
        entry["description"],
        *notes,
        "## Parameters",
        table(["key", "default", "meaning"], parameters),
        "## What it keeps and sends",
        "In numbers, for a model of d parameters; messages are per client that reports and round.",
        table(list(entry["numbers"]), [list(entry["numbers"].values())]),
        f"Clients {change} join or leave for good.",
        "## Line by line",
        "A round of every algorithm in pseudo-code, and the code of each line here.",
        *_lines(cls),
        "## Reference",
        entry["citation"],
    )


def _lines(cls: type[Any]) -> list[str]:
    parts = []
    used = [(method, line) for method, line in ROUND if method != "bid" or cls.bid is not Algorithm.bid]
    for number, (method, line) in enumerate(used, start=1):
        owner = next(owner for owner in cls.__mro__ if method in vars(owner))
        if owner is Algorithm:
            parts.append(f"{number}. {line}: {DEFAULTS[method]}.")
            continue
        file = inspect.getsourcefile(owner)
        assert file is not None
        path = SOURCES + file.rpartition("/src")[2]
        of = "" if owner is cls else f" (as in {owner.__name__})"
        parts.append(f"{number}. {line}{of}:")
        options = [":language: python", f":pyobject: {owner.__name__}.{method}", ":lineno-match:", ":dedent: 4"]
        parts.append("\n".join([f"```{{literalinclude}} {path}", *options, "```"]))
    return parts
