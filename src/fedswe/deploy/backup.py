"""Backups of a run directory: one tar file with the ledger and all files that the run needs to continue.

A backup can be made while the server runs: the ledger is read first, then the files that its last round needs. Each
file is compared with its digest in the ledger, and the written archive is read again before it gets its name.
Restoring appends a line "restore" to the ledger. Lines of rounds after the backup are lost then; clients that took part
in them find their records explained by that line.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedswe.deploy import ledger
from fedswe.deploy.audit.files import check_files
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.durable_files import in_use_now, read_whole
from fedswe.deploy.evaluation import HISTORY, history
from fedswe.deploy.ledger import Contents, Ledger
from fedswe.deploy.ledger_lines import Change
from fedswe.deploy.membership import Membership
from fedswe.deploy.packet import Packet, arrays_digest
from fedswe.deploy.server_files import FOLDERS, ServerFiles, needed, restorable
from fedswe.errors import FedsweError, require
from fedswe.results.files import aside_of, cannot_write, sync_folder

_ATTEMPTS = 20  # a server that commits rounds removes the files of earlier ones
_PAUSE = 0.05  # seconds between two attempts
_MEMBERS = re.compile(
    rf"{re.escape(ledger.FILE)}|{re.escape(DEPLOYMENT_FILE)}|{re.escape(HISTORY)}|run\.json"
    rf"|(start|model|({'|'.join(FOLDERS)})/\d{{1,18}}(-\d{{1,18}})?)\.safetensors"
)


@dataclass(frozen=True)
class Restored:
    rounds: int
    foreign: bool  # lines are not sealed with this machine's key


class _Moved(Exception):
    """A file changed while it was read."""


def backup(directory: Path | str, file: Path | str) -> tuple[int, int]:
    """Write a backup of the run in `directory`; returns the rounds and the files in it."""
    folder, path = Path(directory), Path(file)
    require(not path.exists(), f"{path} exists: choose another name")
    require(
        folder.resolve() not in path.resolve().parents,
        f"{path} is inside the run directory: choose a name outside of it, best on another disk",
    )
    for attempt in range(_ATTEMPTS):
        contents = ledger.read(folder / ledger.FILE)
        aside = aside_of(path)
        try:
            written = _write(aside, folder, contents)
            _compare(aside, written)
            os.replace(aside, path)
            sync_folder(path.parent)
            return len(contents.entries), len(written)
        except _Moved as moved:
            changing = ledger.read(folder / ledger.FILE).size > contents.size or in_use_now(folder)
            require(changing and attempt + 1 < _ATTEMPTS, f"{moved}: the run is damaged, no backup was written")
            time.sleep(_PAUSE)
        except OSError as error:
            raise cannot_write(path, error) from None
        finally:
            with suppress(OSError):
                aside.unlink()
    raise AssertionError("unreachable")


def _write(path: Path, folder: Path, contents: Contents) -> dict[str, str]:
    """The digests of all members."""
    written = {}
    with suppress(FileNotFoundError):
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in _members(folder, contents):
            about = tarfile.TarInfo(name)
            about.size, about.mode = len(content), 0o600
            archive.addfile(about, io.BytesIO(content))
            written[name] = ledger.file_digest(content)
    with open(path, "rb") as again:
        os.fsync(again.fileno())
    return written


def _members(folder: Path, contents: Contents) -> Iterator[tuple[str, bytes]]:
    entries, there = contents.entries, {name for name, _ in ServerFiles(folder).stored()}
    yield ledger.FILE, _read(folder, ledger.FILE)[: contents.size]
    known = {name: value for entry in entries for name, value in entry.files.items()}
    membership = Membership.of(contents)
    wanted = needed(len(entries), membership.last_merges(entries)) & known.keys()
    # The last round first: a running server removes the files of earlier ones.
    for names in (wanted, *reversed(restorable(entries, membership, there).values())):
        for name in sorted(names & known.keys()):
            yield from _once(folder, name, known.pop(name))
    for entry in entries:
        if (name := f"trail/{entry.t + 1}") in known:
            yield from _once(folder, name, known.pop(name))
            for client, value in entry.reports.items():
                report = f"reports/{entry.t}-{client}.safetensors"
                content = _read(folder, report)
                if arrays_digest(Packet.from_bytes(content).arrays) != value:
                    raise _Moved(f"{report} is not the report that the ledger names")
                yield report, content
    start = _read(folder, "start.safetensors")
    require(
        arrays_digest(Packet.from_bytes(start).arrays) == contents.title.start,
        f"{folder}: start.safetensors is not the model that the ledger names: no backup was written",
    )
    yield "start.safetensors", start
    for name in (DEPLOYMENT_FILE, "run.json"):
        if expected := contents.may_be(name):
            content = _read(folder, name)
            if ledger.file_digest(content) not in expected:
                raise _Moved(f"{name} is not the file that the last start in the ledger names")
            yield name, content
            if name == DEPLOYMENT_FILE and len(entries) >= tomllib.loads(content.decode())["rounds"]:
                yield from _final_model(folder, contents)
    if contents.rows:
        yield HISTORY, history(contents.rows).to_csv().encode()


def _final_model(folder: Path, contents: Contents) -> Iterator[tuple[str, bytes]]:
    """If it is not there yet, the next start of the server writes it."""
    name = "model.safetensors"
    if (folder / name).is_file():
        content = _read(folder, name)
        if ledger.read(folder / ledger.FILE).size > contents.size:  # begun again, with more rounds
            raise _Moved(f"{name} may be of a later round")
        yield name, content


def _once(folder: Path, name: str, known: str) -> Iterator[tuple[str, bytes]]:
    content = _read(folder, f"{name}.safetensors")
    if ledger.file_digest(content) != known:
        raise _Moved(f"{name}.safetensors is not the file that the ledger names")
    yield f"{name}.safetensors", content


def _read(folder: Path, name: str) -> bytes:
    try:
        return read_whole(folder / name)
    except OSError:
        raise _Moved(f"{folder / name} is missing") from None


def _compare(path: Path, written: dict[str, str]) -> None:
    with tarfile.open(path, "r:") as archive:
        found = {}
        for member in archive:
            file = archive.extractfile(member)
            found[member.name] = ledger.file_digest(file.read() if file else b"")
    require(found == written, f"{path.parent}: what was written is not what is read again: use another disk")


# restoring ------------------------------------------------------------------------------------------------
def restore(file: Path | str, directory: Path | str) -> Restored:
    """Make a run directory from a backup."""
    path, folder = Path(file), Path(directory)
    require(path.is_file(), f"{path} is not a file")
    require(
        not folder.exists() or (folder.is_dir() and not any(folder.iterdir())),
        f"{folder} is not empty: choose another directory",
    )
    aside = aside_of(folder)
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700, parents=True)
        _extract(path, aside)
        contents = ledger.read(aside / ledger.FILE)
        failures = check_files(aside, contents)[0].failures
        require(not failures, f"{path} is not a backup of a sound run: {failures[0] if failures else ''}")
        foreign = bool(contents.unsealed)
        book = Ledger(aside / ledger.FILE, contents)
        try:
            book.append(Change("restore", len(contents.entries), reason="restored from a backup"))
        finally:
            book.close()
        ServerFiles(aside).create()
        for filled in (*(aside / name for name in FOLDERS), aside):
            sync_folder(filled)
        os.replace(aside, folder)
        sync_folder(folder.parent)
        return Restored(len(contents.entries), foreign)
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _extract(path: Path, folder: Path) -> None:
    """Only plain files with names that a run directory has."""
    names = set[str]()
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                require(
                    member.isreg() and not member.issparse() and _MEMBERS.fullmatch(member.name),
                    f"{path} is not a backup of a run: it holds {member.name[:80]!a}",
                )
                require(member.name not in names, f"{path} is not a backup of a run: {member.name} is there twice")
                names.add(member.name)
                source, target = archive.extractfile(member), folder / member.name
                assert source is not None
                target.parent.mkdir(mode=0o700, exist_ok=True)
                with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                    shutil.copyfileobj(source, out)
                    out.flush()
                    os.fsync(out.fileno())
                require(target.stat().st_size == member.size, f"{path} is incomplete")
    except (tarfile.TarError, EOFError) as error:
        raise FedsweError(f"{path} is not a complete backup: {error}") from None
    for name in (ledger.FILE, DEPLOYMENT_FILE, "start.safetensors"):
        require(name in names, f"{path} is not a backup of a run: it has no {name}")
