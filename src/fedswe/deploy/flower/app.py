"""fedswe deploy init: a complete Flower app, ready to run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import tomli_w

from fedswe.deploy.flower import nodes
from fedswe.deploy.flower.credentials import write_credentials
from fedswe.errors import FedsweError, require
from fedswe.results.directory import create_empty
from fedswe.results.files import write_whole

_TEMPLATE = Path(__file__).parent / "template"


def write_app(folder: Path, clients: int, tls: bool) -> None:
    """Write the app for so many clients; with `tls`, also certificates and a key per client for a local trial."""
    require(clients >= 1, f"--clients must be at least 1, not {clients}")
    create_empty(folder)
    for source in sorted(_TEMPLATE.rglob("*")):
        target = folder / source.relative_to(_TEMPLATE)
        if source.is_dir() and source.name != "__pycache__":
            target.mkdir(exist_ok=True)
        elif source.is_file() and source.suffix != ".pyc":
            shutil.copyfile(source, target)
    file = folder / "deployment.toml"
    text = re.sub(r"^clients = \d+$", f"clients = {clients}", file.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^min_clients = \d+", f"min_clients = {(clients + 1) // 2}", text, flags=re.MULTILINE)
    write_whole(file, text)
    if tls:
        keys = write_credentials(folder / "keys", clients)
        write_whole(
            folder / nodes.FILE, "# The public key of each client, in their order.\n" + tomli_w.dumps({"keys": keys})
        )


def require_app(folder: Path) -> None:
    """Refuse a folder that holds no app."""
    for name in ("pyproject.toml", "deployment.toml"):
        if not (folder / name).is_file():
            raise FedsweError(f"{folder} holds no app (no {name}): write one with `fedswe deploy init {folder}`")
