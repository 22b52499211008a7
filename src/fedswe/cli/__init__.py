"""The command line. Mistakes get one line on stderr and exit code 2."""

from __future__ import annotations

import sys

from fedswe.cli.app import app
from fedswe.errors import FedsweError


def main() -> None:
    try:
        app()
    except FedsweError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
