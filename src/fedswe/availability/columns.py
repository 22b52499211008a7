"""Tables with named columns: Parquet files, data frames, dictionaries, structured arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.availability.text_file import existing, reason
from fedswe.errors import FedsweError

Array = npt.NDArray[Any]


def from_parquet(path: str, key: str, index: bool) -> dict[str, Array]:
    """The columns of a Parquet file; `index` says whether the index of a data frame is one of them."""
    existing(path, key)
    try:
        from pyarrow import parquet
    except ImportError:
        raise FedsweError(f"{key}: {path} is a Parquet file, which pyarrow reads: pip install pyarrow") from None
    try:
        table = parquet.read_table(path)
        left_out = [] if index else (table.schema.pandas_metadata or {}).get("index_columns", [])
        columns = zip(table.column_names, table.columns, strict=True)
        return {name: column.to_numpy() for name, column in columns if name not in left_out}
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise FedsweError(f"{key}: {path} cannot be read as Parquet ({reason(error)})") from None


def is_frame(value: Any) -> bool:
    """Whether a value is a data frame; pandas and polars need not be installed."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def from_memory(value: Any) -> dict[str, Array] | None:
    """The columns of a data frame, a dictionary or a structured array; None for anything else."""
    if is_frame(value):
        return {str(name): _series(value[name]) for name in value.columns}
    if isinstance(value, Mapping):
        return {str(name): np.asarray(column) for name, column in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {name: value[name] for name in value.dtype.names}
    return None


def _series(column: Any) -> Array:
    if "datetime" in str(column.dtype).lower():
        return np.asarray(column, dtype="datetime64[us]")  # pandas converts other time zones to UTC
    return np.asarray(column)
