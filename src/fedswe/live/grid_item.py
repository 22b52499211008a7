"""The cells of a comparison, a grid or a gym: which are done, which are run, which wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fedswe.live.found import GridPlace
from fedswe.live.run_item import RunItem

_MOST = 5000  # cells that are sent

CellState = Literal["done", "running", "stopped", "waiting"]


def grid_payload(id_: str, place: GridPlace, cells: Mapping[str, RunItem]) -> dict[str, Any]:
    """`cells`: the run directories and stored results of this grid, by the name of their cell."""
    names = dict.fromkeys([*place.planned, *sorted(place.done), *sorted(cells)])
    shown: list[tuple[str, CellState, str]] = []
    for name in names:
        run = cells.get(name)
        shown.append((name, _state(name, place, run), run.id if run else ""))
    counts = {state: sum(cell[1] == state for cell in shown) for state in ("done", "running", "stopped", "waiting")}
    return {
        "id": id_,
        "kind": "grid",
        "form": place.form,
        "name": place.name,
        "path": str(place.path),
        "counts": counts,
        "cells": shown[:_MOST],
    }


def _state(name: str, place: GridPlace, run: RunItem | None) -> CellState:
    if name in place.done or (run is not None and run.state == "finished"):
        return "done"
    if run is None:
        return "waiting"
    return "stopped" if run.state in ("stopped", "unreadable") else "running"
