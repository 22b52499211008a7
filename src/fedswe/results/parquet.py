"""One Parquet file for the results of a campaign: a long table that is appended to, and whole at every moment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedswe.errors import FedsweError, needed
from fedswe.results.files import write_whole

_DICTIONARY = 1 << 25  # bytes: numbers of few digits, and texts that many rows share, are stored once


def select(path: Path, **equal: object) -> pd.DataFrame:
    """The rows in which these columns have these values; none where the file is not there. Texts are categories."""
    needed("pyarrow", "paper")
    if not path.is_file():
        return pd.DataFrame()
    try:
        return pd.read_parquet(path, filters=[(name, "==", value) for name, value in equal.items()] or None)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise FedsweError(f"{path} is damaged ({reason}): restore it, or delete it to measure again") from None


def append(path: Path, rows: pd.DataFrame, key: Sequence[str]) -> None:
    """Add rows, in the place of those with the same key; the file is sorted by the key.

    Two processes must not append at once: the caller holds a lock.
    """
    there, names = select(path), list(key)
    if len(there):
        replaced = pd.MultiIndex.from_frame(there[names]).isin(pd.MultiIndex.from_frame(rows[names].drop_duplicates()))
        rows = pd.concat([there[~replaced], rows])
    rows = rows.astype(dict.fromkeys(rows.select_dtypes(exclude="number"), "category"))
    content = rows.sort_values(names, kind="stable", ignore_index=True).to_parquet(
        compression="zstd", compression_level=19, row_group_size=1 << 24, dictionary_pagesize_limit=_DICTIONARY
    )
    write_whole(path, content)
