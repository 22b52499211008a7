"""The files of a run directory: each has the content whose digest the ledger has, and none is missing."""

from __future__ import annotations

from pathlib import Path

from fedswe.deploy import ledger
from fedswe.deploy.audit.chain import LedgerInOrder
from fedswe.deploy.audit.findings import Part
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.durable_files import read_whole
from fedswe.deploy.evaluation import HISTORY, history
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_lines import Change, Entry, Start
from fedswe.deploy.membership import Membership
from fedswe.deploy.packet import Packet, arrays_digest
from fedswe.deploy.server_files import FOLDERS, ServerFiles, needed, rounds_with_reports
from fedswe.errors import FedsweError
from fedswe.experiment import configuration
from fedswe.results.history import Row

# Besides the files of rounds: what a run directory may hold.
_KNOWN = {
    *(ledger.FILE, DEPLOYMENT_FILE, HISTORY, "run.json", "start.safetensors", "model.safetensors"),
    *("clients", "flower", "control"),
    *FOLDERS,
}
_KNOWN_BEGINNINGS = ("process.lock", "server.log", ".")


def check_files(folder: Path, contents: Contents) -> tuple[Part, set[str]]:
    """Also the names of the files of rounds that have the digests in the ledger."""
    part, files = Part("files"), ServerFiles(folder, contents.entries)
    known, required, kept = dict[str, str](), set[str](), rounds_with_reports(contents.entries)
    for entry in contents.entries:
        known |= entry.files
        if entry.t in kept:  # these are never removed
            required |= {f"trail/{entry.t + 1}", *(f"reports/{entry.t}-{client}" for client in entry.merged)}
    rounds, same = len(contents.entries), set[str]()
    required |= needed(rounds, Membership.of(contents).last_merges(contents.entries)) & known.keys()
    stored = dict(files.stored())
    for name in sorted(required - stored.keys()):
        part.failures.append(f"{name}.safetensors is missing")
    for name, t in stored.items():
        path = folder / f"{name}.safetensors"
        if name.startswith("reports/"):
            if _check_report(part, path, contents, kept):
                same.add(name)
        elif name in known and part.require(
            ledger.file_digest(_content(path) or b"") == known[name],
            f"{name}.safetensors is not the file that the ledger names",
        ):
            same.add(name)
        part.require(
            t <= contents.reached + 1,
            f"{name}.safetensors is of a later round than the {contents.reached} in the ledger: the ledger was cut",
        )
    part.attempt(_check_start, part, folder, contents)
    for path in sorted(folder.iterdir()):
        if path.name not in _KNOWN and not path.name.startswith(_KNOWN_BEGINNINGS):
            part.notes.append(f"{path.name} does not belong to a run")
    for name in FOLDERS:
        for path in sorted((folder / name).glob("*")):
            if f"{name}/{path.stem}" not in stored or path.suffix != ".safetensors":
                part.notes.append(f"{name}/{path.name} does not belong to a run")
    part.checked = f"{len(same) + 1} files have the digests in the ledger"
    return part, same


def check_earlier_rounds(part: Part, folder: Path, ordered: LedgerInOrder) -> None:
    """The files of the rounds that deploy.keep_rounds keeps, besides those of the last one."""
    contents = ordered.contents
    content = _content(folder / DEPLOYMENT_FILE)
    if content is None or (digest := ledger.file_digest(content)) not in contents.may_be(DEPLOYMENT_FILE):
        return  # a finding of its own
    keep = configuration.read(folder / DEPLOYMENT_FILE).get("deploy", {}).get("keep_rounds", Deployment.keep_rounds)
    entries, membership = contents.entries, Membership.of(contents)
    stored = {name for name, _ in ServerFiles(folder).stored()}
    known = {name for entry in entries for name in entry.files}
    rounds, first = len(entries), _first_kept(ordered, digest, keep)
    missing, lost = set[str](), list[int]()
    for t in range(max(rounds - keep, 0), rounds):
        names = (needed(t, membership.last_merges(entries[:t])) & known) - stored
        if t >= first:
            missing |= names
        elif names:
            lost.append(t)
    missing -= needed(rounds, membership.last_merges(entries))  # named already
    part.failures += [f"{name}.safetensors is missing: deploy.keep_rounds keeps it" for name in sorted(missing)]
    if lost:
        shown = ", ".join(map(str, lost[:5])) + ("..." if len(lost) > 5 else "")
        part.skipped.append(
            f"the files to continue after {shown} rounds, which are not there: deploy.keep_rounds was changed, "
            "or rounds were taken back or restored"
        )


def _first_kept(ordered: LedgerInOrder, digest: str, keep: int) -> int:
    """The least number of rounds after which the run can continue for certain.

    `keep` is known of the starts with the deployment.toml of this digest; others may have kept none.
    """
    rounds = first = keeps = 0
    for line in ordered.lines:
        match line:
            case Entry():
                rounds += 1
            case Start():
                keeps = keep if line.files.get(DEPLOYMENT_FILE) == digest else 0
            case Change(action="rollback"):
                rounds, first = line.t, min(first, line.t)
                continue  # removes later files only
            case Change(action="restore"):
                first = rounds  # a server may have removed files while the backup was made
        first = max(first, rounds - keeps)
    return first


def _check_report(part: Part, path: Path, contents: Contents, kept: set[int]) -> bool:
    """Kept with deploy.trail = true; the ledger has the digest of its arrays."""
    t, client = map(int, path.stem.split("-"))
    name, entries = f"reports/{path.name}", contents.entries
    if t >= len(entries):
        return False  # of the round that is under way
    if t not in kept:
        part.notes.append(f"{name} was left by a server that ended in round {t}; the next start removes it")
        return False
    try:
        content = read_whole(path)
        packet = Packet.from_bytes(content)
    except (OSError, FedsweError):
        return part.require(False, f"{name} is damaged")
    if client not in entries[t].reports:
        part.notes.append(f"{name} was not merged")
        return False
    written = Packet("report", {}, packet.arrays).to_bytes()
    same = content == written and arrays_digest(packet.arrays) == entries[t].reports[client]
    return part.require(same, f"{name} is not the report that the ledger names")


def _check_start(part: Part, folder: Path, contents: Contents) -> None:
    content = _content(folder / "start.safetensors") or b""
    if part.require(content, "start.safetensors is missing"):
        arrays = Packet.from_bytes(content).arrays
        same = arrays_digest(arrays) == contents.title.start and content == Packet("start", {}, arrays).to_bytes()
        part.require(same, "start.safetensors is not the model that the ledger names")


def check_derived(folder: Path, ordered: LedgerInOrder) -> Part:
    """Files that are written from the ledger, or at a start of the server."""
    part, contents, compared = Part("derived files"), ordered.contents, []
    if contents.rows:
        compared.append(HISTORY)
        found = _content(folder / HISTORY)
        if found != _history(contents.rows) and found == _history(ordered.rows_before_the_last_line()):
            part.notes.append(f"{HISTORY} was not written after the last line: the next start of the server writes it")
        else:
            part.require(
                found == _history(contents.rows),
                f"{HISTORY} is not what the ledger's evaluations give: the next start of the server writes it again",
            )
    elif (folder / HISTORY).exists():
        part.failures.append(f"{HISTORY} is there, but the ledger has no evaluations")
    if not contents.starts:
        part.skipped.append(f"{DEPLOYMENT_FILE} and run.json: the ledger has no start of a server")
        return part
    for name in contents.starts[-1].files:
        compared.append(name)
        check_start_file(part, folder, name, contents)
    part.checked = ", ".join(compared)
    return part


def _history(rows: list[Row]) -> bytes | None:
    """None: the file is not there."""
    return history(rows).to_csv().encode() if rows else None


def check_start_file(part: Part, folder: Path, name: str, contents: Contents) -> bool:
    """A file that is written at a start of the server."""
    content = _content(folder / name)
    return part.require(
        content is not None and ledger.file_digest(content) in contents.may_be(name),
        f"{name} is {'missing' if content is None else 'not the file that the last start in the ledger names'}",
    )


def _content(path: Path) -> bytes | None:
    try:
        return read_whole(path)
    except OSError:
        return None
