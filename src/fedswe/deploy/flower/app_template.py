"""Write a complete Flower app, ready to run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from fedswe.deploy.flower import node_keys
from fedswe.deploy.flower.credentials import write_credentials
from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole

_TEMPLATE = Path(__file__).parent / "template"


def write_app(folder: Path, clients: int, tls: bool, server: str = "") -> None:
    """Write an app for that many clients; with `tls` also keys and a certificate, valid for `server` too."""
    require(clients >= 1, f"--clients must be at least 1, not {clients}")
    require(tls or not server, "--server is a name in the server's certificate: give --tls too")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        require(not any(folder.iterdir()), f"{folder} is not empty: choose another folder")
        shutil.copytree(_TEMPLATE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:  # the error that copytree raises for several files has no strerror
        raise FedsweError(f"cannot write {folder}: {error.strerror or 'no permission'}; choose another") from None
    file = folder / "deployment.toml"
    text = re.sub(r"^clients = \d+$", f"clients = {clients}", file.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^min_clients = \d+", f"min_clients = {(clients + 1) // 2}", text, flags=re.MULTILINE)
    write_whole(file, text)
    if tls:
        node_keys.write_lines(folder, write_credentials(folder / "keys", clients, [server] if server else []))


def require_app(folder: Path) -> None:
    """Refuse a folder that is not an app."""
    for name in ("pyproject.toml", "deployment.toml"):
        if not (folder / name).is_file():
            raise FedsweError(f"{folder} holds no app (no {name}): write one with `fedswe deploy init {folder}`")
