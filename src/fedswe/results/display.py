"""What a console and a notebook show of a value by themselves."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedswe.errors import FedsweError

if TYPE_CHECKING:
    import pandas as pd


def _format(table: pd.DataFrame) -> dict[str, Any]:
    return {"index": table.index.dtype != int, "max_rows": 30, "float_format": "{:.4g}".format}


class Displayed:
    """A value that shows itself: as tables and sentences, and in a notebook with its figure."""

    def _shown(self) -> tuple[dict[str, pd.DataFrame], Sequence[str]]:
        """Tables by title, and sentences."""
        raise NotImplementedError

    def _figure(self) -> Any:
        return import_module("fedswe").plot(self)  # from a package above this one

    def __repr__(self) -> str:
        tables, notes = self._shown()
        parts = [f"{title}\n{table.to_string(**_format(table))}" for title, table in tables.items()]
        return "\n".join([*parts, *notes])

    def _repr_html_(self) -> str:
        import pandas as pd

        tables, notes = self._shown()
        with pd.option_context("display.max_colwidth", None):
            parts = [f"<p>{escape(title)}</p>{table.to_html(**_format(table))}" for title, table in tables.items()]
        parts += [f"<p>{escape(note)}</p>" for note in notes]
        with suppress(FedsweError):  # it has none, or matplotlib is not installed
            image = b64encode(self._figure()._repr_png_()).decode()
            parts.append(f'<img alt="figure" style="max-width: 45em; width: 100%" src="data:image/png;base64,{image}">')
        return "".join(parts)
