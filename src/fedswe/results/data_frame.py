"""Tables as data frames of pandas, which is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedswe.errors import FedsweError


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    try:
        import pandas
    except ImportError:
        raise FedsweError("pandas is not installed: pip install 'fedswe[pandas]', or use to_csv()") from None
    return pandas.DataFrame(rows, columns=list(columns))
