"""The files of an installation: the same commands as systemd units, or as Docker Compose services."""

from __future__ import annotations

import shutil
from pathlib import Path

import tomli_w

from fedswe.deploy.flower import compose_files, node_keys, systemd_units
from fedswe.deploy.flower.app_template import require_app
from fedswe.deploy.flower.credentials import certificate_names
from fedswe.deploy.flower.places import Places
from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole

_NOT_SENT = shutil.ignore_patterns("keys", "run", "__pycache__", ".*")  # of the app: secrets, results


def write_installation(app: Path, out: Path, places: Places, compose: bool) -> None:
    """Write out/server and out/client: configuration, units or Compose files, and a script that puts them in place."""
    require_app(app)
    node_keys.read_keys(app)
    certificate = app / "keys" / "server.crt"
    require(
        places.server in certificate_names(certificate),
        f"{certificate} is not valid for {places.server}: `fedswe deploy renew {app} --server {places.server}`",
    )
    require(not out.exists() or not any(out.iterdir()), f"{out} is not empty: choose another folder")
    try:
        _write(app, out, places, compose)
    except OSError as error:
        raise FedsweError(f"cannot write {out}: {error.strerror}; choose another --out") from None


def _write(app: Path, out: Path, places: Places, compose: bool) -> None:
    for side in ("server", "client"):
        (out / side / "config").mkdir(parents=True, mode=0o700)
        shutil.copy(app / "keys" / "ca.crt", out / side / "config")
    config = out / "server" / "config"
    for name in ("server.crt", "server.key"):
        shutil.copy(app / "keys" / name, config)  # with its permissions
    shutil.copytree(app, config / "app", ignore=_NOT_SENT)
    write_whole(config / "nginx.conf", places.proxy().configuration())
    write_whole(config / "config.toml", tomli_w.dumps({"superlink": {places.connection: places.control()}}))
    files = compose_files.files(places) if compose else systemd_units.files(places)
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        if path.suffix == ".sh":
            path.chmod(0o755)
