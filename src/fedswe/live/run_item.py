"""One run in the list: what it is, how far it is, whether a process works on it."""

from __future__ import annotations

import tomllib
from typing import Any, Literal

from fedswe.errors import FedsweError
from fedswe.experiment.experiment import output_label
from fedswe.live.found import RunPlace
from fedswe.live.plain_files import columns_of, ends_of, plain, text_of, unreadable
from fedswe.results.held_files import File, file_of

_CONFIG = 1 << 20  # bytes
_LONGEST = 200  # characters of a text that is sent
_ANY = 1 << 62
_LARGEST = 1 << 53  # number that a page can read

# unfinished: whether it runs is not known
State = Literal["running", "finished", "stopped", "unfinished", "unreadable"]


class RunItem:
    def __init__(self, id_: str, place: RunPlace) -> None:
        self.id, self.place = id_, place
        self.state: State = "unfinished"
        self.problem = ""
        self._facts: dict[str, Any] = {}
        self._round = 0
        self._seen: tuple[float, ...] = ()
        self.gone = False  # its directory was deleted, as a gym does with runs that it has measured
        self._changed = 0.0

    def look(self, held: set[File] | None) -> None:
        try:
            self._look(held)
            self.problem = ""
        except Exception as error:  # no list of what may be wrong with the files of others is complete
            self.state, self.problem = "unreadable", unreadable(error)

    def _look(self, held: set[File] | None) -> None:
        place = self.place
        config = place.path.with_suffix(".toml") if place.stored else place.path / "config.toml"
        there = plain(config, _CONFIG)
        self.gone = there is None and bool(self._facts) and not place.stored
        if not self._facts and there is not None:
            self._facts = _facts(text_of(config, _CONFIG), place.stored)
        if place.stored or plain(place.path / "model.safetensors", _ANY) is not None:
            self.state = "finished"
        elif held is None or there is None:
            self.state = "unfinished"
        else:
            self.state = "running" if file_of(there) in held else "stopped"
        found = plain(place.history, _ANY)
        seen = (found.st_ino, found.st_size, found.st_mtime_ns) if found else ()
        if seen != self._seen:
            self._seen, self._changed = seen, round(found.st_mtime, 1) if found else 0.0
            self._round = _last_round(*ends_of(place.history)) if found else 0

    def payload(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": "run",
            "name": self.place.name[-_LONGEST:],
            "path": str(self.place.path)[-2 * _LONGEST :],
            "grid": self.place.grid,
            "state": self.state,
            "round": self._round,
            "changed": self._changed,
            **self._facts,
            **({"problem": self.problem} if self.problem else {}),
        }


def _facts(text: str, stored: bool) -> dict[str, Any]:
    """What the configuration says, read without building anything: what it names need not be installed here."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError):
        table = {}
    table = table.get("config", {}) if stored else table
    table = table if isinstance(table, dict) else {}
    models = _entry(table, "evaluate", "model")
    labels = [_label(model) for model in models] if isinstance(models, list) else []
    served = _entry(table, "evaluate", "serve")
    served = _label(served) if served else "server" if "server" in labels else next(iter(labels), "")
    rounds, rate = table.get("rounds"), _entry(table, "local", "lr")
    return {
        "rounds": rounds if isinstance(rounds, int) and 0 <= rounds <= _LARGEST else 0,
        "seed": _text(table.get("seed", "")),
        "rate": f"{rate:g}" if isinstance(rate, int | float) else "",
        "models": labels,
        "served": served,
        **{part: _text(_entry(table, part, "name") or "") for part in ("algorithm", "availability", "task")},
    }


def _entry(table: dict[str, Any], section: str, key: str) -> Any:
    found = table.get(section)
    return found.get(key) if isinstance(found, dict) else None


def _label(model: object) -> str:
    try:
        return _text(output_label(str(model)))
    except (FedsweError, ValueError):
        return _text(model)


def _text(value: object) -> str:
    return str(value)[:_LONGEST]


def _last_round(header: str, line: str) -> int:
    """The round of the last row of a history."""
    try:
        return int(float(line.split(",")[columns_of(header).index("round")]))
    except (ValueError, IndexError, OverflowError):
        return 0
