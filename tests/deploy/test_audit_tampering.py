"""Whatever is changed in a run directory, `verify` fails and names it; resuming refuses where it matters."""

import json
import shutil

import pytest

from fedswe.deploy import ServerEndpoint, ledger
from fedswe.deploy.audit.verify import Scope, verify, verify_client
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.deploy.rollback import rollback
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate
from tests.deploy.parts import Network, quadratic
from tests.deploy.storm import in_memory
from tests.deploy.tampering import (
    NO_KEY,
    OTHER_KEY,
    calculated,
    flip,
    of_kind,
    put_digest,
    rewrite,
    swap,
    tables,
)

ROUNDS = 6
AT_SERVER = ("mifa", "scaffold")
NAMES = ("fedswe", "fedavg", *AT_SERVER)


def made(name):
    evaluate = Evaluate(model=["server", "client_mean", "ema"], ema_decay=0.5, every=2)
    return quadratic(name, rounds=ROUNDS, m=3, p=0.9, trail=True, keep_rounds=2, evaluate=evaluate)


@pytest.fixture(scope="module")
def runs():
    """A finished run of each algorithm."""
    with in_memory() as folder:
        for name in NAMES:
            net = Network(folder / name, made(name))
            net.finish()
            net.server.release()
        yield folder


@pytest.fixture
def run(runs, scratch, request):
    """A copy of a run, to be changed."""
    name = getattr(request, "param", "fedswe")
    shutil.copytree(runs / name, scratch / "run")
    return scratch / "run"


def checked(run):
    return verify(run / "server", scope=Scope(clients=run / "clients", replay=False))


def refused(run, name="fedswe", match=""):
    with pytest.raises(FedsweError, match=match) as caught:
        ServerEndpoint.open(run / "server", made(name)).release()
    assert "\n" not in str(caught.value)


def failures(run):
    found = checked(run)
    assert not found.passed
    assert all("\n" not in failure for failure in found.failures)
    return " | ".join(found.failures)


@pytest.mark.parametrize("run", NAMES, indirect=True)
def test_what_was_not_changed_passes(run):
    found = checked(run)
    assert found.exact, found.failures
    assert (found.recomputed, found.replayed) == (found.rounds, found.reports)
    assert not [what for part in found.parts for what in part.skipped]


# files ----------------------------------------------------------------------------------------------------
LAST = f"state/{ROUNDS}"
HARMS = {
    "NaN": lambda path: calculated(path, lambda v: v * float("nan")),
    "+100": lambda path: calculated(path, lambda v: v + 100),
    "bit": flip,
    "first bit": lambda path: flip(path, 9),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(("name", "files"), [
    ("fedswe", LAST), ("fedswe", "versions"), ("fedswe", f"outputs/{ROUNDS}"), ("fedswe", "trail/2"),
    ("fedswe", "reports"), ("fedswe", "start"), ("fedswe", "model"), ("mifa", "rows"), ("scaffold", LAST),
])  # fmt: skip
def test_a_changed_file_is_named(runs, scratch, name, files, harm):
    shutil.copytree(runs / name, run := scratch / "run")
    found = sorted((run / "server" / files).glob("*.safetensors"))
    path = found[-1] if found else run / "server" / f"{files}.safetensors"
    if files == "versions":  # one that the next round needs
        t = max(e.t for e in ledger.read(run / "server" / ledger.FILE).entries if e.merged)
        path = run / "server" / f"versions/{t}.safetensors"
    elif files == "rows":
        entry = next(e for e in reversed(ledger.read(run / "server" / ledger.FILE).entries) if e.merged)
        path = run / "server" / f"rows/{min(entry.merged)}-{entry.t}.safetensors"
    HARMS[harm](path)
    shown = str(path.relative_to(run / "server"))
    assert shown in failures(run)
    if files != "model":
        refused(run, name, path.name)


@pytest.mark.parametrize(("a", "b"), [
    (f"state/{ROUNDS}", f"state/{ROUNDS - 1}"), ("trail/1", "trail/2"), ("reports/0-0", "reports/0-1"),
    (f"outputs/{ROUNDS}", f"outputs/{ROUNDS - 1}"),
])  # fmt: skip
def test_swapped_files_are_named(run, a, b):
    swap(*(run / "server" / f"{name}.safetensors" for name in (a, b)))
    said = failures(run)
    assert a in said
    assert b in said


@pytest.mark.parametrize(("name", "change", "expected"), [
    ("history.csv", lambda text: text.replace("\n2,", "\n3,"), "history.csv"),
    ("history.csv", None, "history.csv"),
    ("deployment.toml", lambda text: text.replace("deadline = 60.0", "deadline = 61.0"), "deployment.toml"),
    ("deployment.toml", lambda text: text.replace("seed = 5", "seed = 6"), "deployment.toml"),
    ("deployment.toml", lambda text: "rounds = [", "deployment.toml"),
    ("deployment.toml", None, "deployment.toml"),
    ("run.json", lambda text: text.replace("{", '{"mine": 1,', 1), "run.json"),
    ("run.json", None, "run.json"),
])  # fmt: skip
def test_a_changed_derived_file_is_named(run, name, change, expected):
    path = run / "server" / name
    if change is None:
        path.unlink()
    else:
        changed = change(path.read_text())
        assert changed != path.read_text()
        path.write_text(changed)
    assert expected in failures(run)
    if name == "run.json" and change is not None:
        refused(run, match=r"run\.json")
        path.unlink()
    ServerEndpoint.open(run / "server", made("fedswe")).release()
    if name == "deployment.toml":
        assert checked(run).passed  # it was written again


# lines ----------------------------------------------------------------------------------------------------
def text_of(run):
    return (run / "server" / ledger.FILE).read_bytes().splitlines(keepends=True)


CUTS = {
    "dropped": lambda lines: lines[:4] + lines[5:],
    "repeated": lambda lines: [*lines[:5], lines[4], *lines[5:]],
    "reordered": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "first dropped": lambda lines: lines[1:],
    "garbage appended": lambda lines: [*lines, b"{}\n"],
    "text in the middle": lambda lines: [*lines[:4], b"x\n", *lines[5:]],
    "not UTF-8": lambda lines: [*lines[:4], b"\xff\xfe\n", *lines[5:]],
    "spaces": lambda lines: [*lines[:4], lines[4].replace(b": ", b":  ", 1), *lines[5:]],
    "a repeated key": lambda lines: [*lines[:4], lines[4].replace(b"{", b'{"kind": "round", ', 1), *lines[5:]],
    "deep": lambda lines: [*lines[:4], b"[" * 100_000 + b"\n", *lines[5:]],
    "infinite": lambda lines: [*lines[:4], lines[4][:-2] + b', "x": 1e999}\n', *lines[5:]],
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_changed_chain_is_named_by_its_line(run, cut):
    path = run / "server" / ledger.FILE
    path.write_bytes(b"".join(CUTS[cut](text_of(run))))
    assert f"{ledger.FILE}: line " in failures(run)
    refused(run, match=r"line \d+ is damaged")


@pytest.mark.parametrize("kind", ["run", "round", "evaluation", "start"])
def test_every_field_of_every_line_is_part_of_the_chain(run, kind):
    path, original = run / "server" / ledger.FILE, tables(run / "server")
    number, line = next((n, line) for n, line in enumerate(original) if line["kind"] == kind)
    for name, value in line.items():
        other = {
            str: lambda v: ("1" if v[:1] != "1" else "2") + v[1:],
            int: lambda v: v + 1,
            float: lambda v: v + 1.0,
            dict: lambda v: {**v, "9": v.get("9", 7)} if "9" not in v else {},
        }[type(value)](value)
        changed = [json.dumps(table) for table in original]
        changed[number] = json.dumps({**line, name: other})
        path.write_text("\n".join(changed) + "\n")
        if name == "version":
            assert "of a later version of fedswe" in failures(run) or "by a later version of fedswe" in failures(run)
            continue
        # Another seal is noticed by the line that follows.
        damaged = f"line {number + 1 + (name == 'seal')} is damaged"
        assert ("by a later version of fedswe" if name == "version" else damaged) in failures(run), name


def test_a_cut_ledger_is_noticed_by_the_files_that_remain(run):
    lines = text_of(run)
    path = run / "server" / ledger.FILE
    kept = [n for n, line in enumerate(lines) if b'"kind": "round"' in line][3]
    path.write_bytes(b"".join(lines[:kept]))
    assert "the ledger was cut" in failures(run)
    refused(run, match="which was cut")


@pytest.mark.parametrize("key", [NO_KEY, OTHER_KEY])
def test_a_rewritten_chain_lacks_the_seals(run, key):
    rewrite(run / "server", lambda lines: of_kind("round", lines)[2].update(seconds=7.0), key)
    assert "not sealed with the key" in failures(run)
    refused(run, match="not sealed with the key")
    # Who says that it is of another machine gets the rest checked; the clients still find it out.
    found = verify(run / "server", scope=Scope(own_seals=False, replay=False))
    assert found.passed
    assert "of another machine" in str(found.parts)
    assert not verify_client(run / "server", 0, run / "clients").passed


def test_a_forged_seal_is_named(run):
    forged = LedgerKey(b"mine")
    name = LedgerKey.find().name

    class Forged:
        @staticmethod
        def seal(body):
            return f"{name}:{forged.seal(body).split(':')[1]}"

    rewrite(run / "server", lambda lines: None, Forged)
    assert "its seal is not of this line" in failures(run)


def test_one_line_with_another_seal_is_named(run):
    lines = text_of(run)
    table = json.loads(lines[-1])
    del table["seal"]
    (run / "server" / ledger.FILE).write_bytes(b"".join(lines[:-1]) + json.dumps(table).encode() + b"\n")
    assert f"line {len(lines)}" in failures(run)
    refused(run, match=f"line {len(lines)} is not sealed")


def test_without_a_key_the_seals_are_not_checked(run, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSWE_LEDGER_KEY", str(tmp_path / "none"))
    found = checked(run)
    assert found.passed
    assert any("there is no key" in what for part in found.parts for what in part.skipped)
    assert not (tmp_path / "none").exists()


# a chain that is valid again, with the right seals: by who has the key ------------------------------------
def every(name, value):
    def change(lines):
        for line in of_kind("round", lines):
            old = line[name]
            if isinstance(old, dict):
                line[name] = dict.fromkeys(old, value)
            elif old:
                line[name] = value

    return change


def one(index, **changes):
    return lambda lines: of_kind("round", lines)[index].update(changes)


def drop_client(lines):
    line = of_kind("round", lines)[2]
    for table in ("merged", "reports", "moves"):
        line[table].pop(next(iter(line["merged"])) if table == "merged" else next(iter(line[table])))


ZERO = "0" * 32
FIELDS = {
    "all models zeroed": (every("model", ZERO), "not the model that the ledger names"),
    "all replies zeroed": (every("reply", ZERO), "not the reply that the ledger names"),
    "all downs zeroed": (every("down", ZERO), "round 0: down"),
    "all reports zeroed": (every("reports", ZERO), "not the report that the ledger names"),
    "all files zeroed": (every("files", ZERO), "not the file that the ledger names"),
    "one model": (one(2, model=ZERO), "trail/3.safetensors is not the model"),
    "one reply": (one(2, reply=ZERO), "round 2: reply"),
    "one down": (one(2, down=ZERO), "round 2: down"),
    "no digest": (one(2, model=""), "a digest is not one"),
    "merged since": (lambda lines: _first_merged(lines, 4, lambda t: 0), "its last merge was"),
    "merged nobody": (one(2, merged={}), "round 2: its reports are not those"),
    "merged a stranger": (one(2, merged={"9": -1}), "there are only 3 clients"),
    "dropped client": (drop_client, "round 2"),
    "no files": (one(2, files={}), "round 2: it names the files none"),
    "available": (one(2, available=0), "counts are impossible"),
    "declined": (one(2, declined=-1), "counts are impossible"),
    "traffic": (one(2, traffic={"up report": -5}), "impossible"),
    "start digest": (lambda lines: lines[0].update(start=ZERO), "start.safetensors is not the model"),
    "m": (lambda lines: lines[0].update(m=4), "deployment.toml is not of this run"),
    "evaluation": (lambda lines: _row(lines, "server_train_loss"), "the evaluation after"),
    "average": (lambda lines: _row(lines, "ema_train_loss"), "ema_train_loss"),
    "counts": (lambda lines: of_kind("evaluation", lines)[1]["row"].update(echo_max=99), "echo_max"),
    "start at": (lambda lines: of_kind("start", lines)[0].update(t=3), "a start at round 3"),
    "start files": (lambda lines: of_kind("start", lines)[-1]["files"].update({"run.json": ZERO}), "run.json"),
}


def _first_merged(lines, index, since):
    table = of_kind("round", lines)[index]["merged"]
    client = next(iter(table))
    table[client] = since(table[client])


def _row(lines, column):
    row = of_kind("evaluation", lines)[1]["row"]
    (column,) = [name for name in row if name == column]
    row[column] += 0.01


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_rewritten_with_the_right_seals_is_found_by_what_it_says(run, field):
    change, expected = FIELDS[field]
    rewrite(run / "server", change)
    found = verify(run / "server", scope=Scope(replay=False))
    assert expected in " | ".join(found.failures)


@pytest.mark.parametrize("field", ["seconds", "traffic", "rejected", "moves", "declined"])
def test_what_nobody_can_compute_again_is_found_by_any_client_that_came_later(run, field):
    values = {"seconds": 0.5, "traffic": {}, "rejected": {"0": {"norm": 1}}, "moves": {}, "declined": 1}
    rewrite(run / "server", one(1, **{field: values[field]}))
    shown = verify_client(run / "server", 1, run / "clients")
    assert any("names a line that this ledger does not have" in failure for failure in shown.failures)


@pytest.mark.parametrize("run", ["mifa", "scaffold"], indirect=True)
def test_jobs_and_client_states_at_the_server_are_computed_again(run):
    shutil.copytree(run, run.parent / "other")
    rewrite(run / "server", every("jobs", ZERO))
    assert "job of client" in failures(run)
    run = run.parent / "other"
    entry = next(e for e in reversed(ledger.read(run / "server" / ledger.FILE).entries) if e.merged)
    name = f"rows/{min(entry.merged)}-{entry.t}"
    calculated(run / "server" / f"{name}.safetensors", lambda v: v + 100)
    put_digest(run / "server", name)
    assert f"{name}.safetensors is not what the kept reports give" in failures(run)


@pytest.mark.parametrize("run", NAMES, indirect=True)
def test_a_model_that_the_reports_do_not_give_is_found_with_all_digests_right(run):
    """The server's own computation is checked, not only its notes of it."""
    server = run / "server"
    calculated(server / "trail" / "3.safetensors", lambda v: v + 1)
    put_digest(server, "trail/3")
    assert "trail/3.safetensors is not" in failures(run)


def test_a_report_that_the_data_do_not_give_is_found_by_its_client(run):
    """The server invents a report and computes everything from it: only the client can know."""
    found = verify_client(run / "server", 0, run / "clients")
    assert found.passed, found.failures
    entry = next(e for e in ledger.read(run / "server" / ledger.FILE).entries if 0 in e.merged)
    rewrite(run / "server", lambda lines: of_kind("round", lines)[entry.t]["reports"].update({"0": ZERO}))
    found = verify_client(run / "server", 0, run / "clients")
    assert any("another report than the client has sent" in failure for failure in found.failures)


def test_a_foreign_file_does_no_harm_and_is_named(run):
    server = run / "server"
    (server / "state" / "lost+found").mkdir()
    (server / "state" / "mine.safetensors").write_text("x")
    (server / "versions" / "x.safetensors").mkdir()
    (server / "notes.txt").write_text("x")
    ServerEndpoint.open(server, made("fedswe")).release()
    found = checked(run)
    assert found.passed
    notes = " ".join(note for part in found.parts for note in part.notes)
    assert all(name in notes for name in ("state/lost+found", "state/mine.safetensors", "versions/x", "notes.txt"))
    assert (server / "state" / "mine.safetensors").exists()


# a server that has the key and lies -------------------------------------------------------------------------
def test_scores_of_a_start_that_never_was_are_found(run):
    """The evaluation claims to be of another configuration, so that its scores are not computed again."""

    def forge(lines):
        at = max(n for n, line in enumerate(lines) if line["kind"] == "evaluation")
        start = dict(of_kind("start", lines)[-1], t=ROUNDS, scores="0" * 16)
        lines[at]["row"] |= {name: 0.0 for name in lines[at]["row"] if name.endswith("objective")}
        return [*lines[:at], start, *lines[at:]]

    rewrite(run / "server", forge)
    assert f"the start at round {ROUNDS} names another task or evaluation" in failures(run)


def test_evaluations_that_are_missing_are_found(run):
    rewrite(run / "server", lambda lines: [line for n, line in enumerate(lines) if not _is_evaluation_of(line, 2)])
    assert "the evaluations after 2 rounds are missing" in failures(run)


def _is_evaluation_of(line, t):
    return line["kind"] == "evaluation" and line["row"]["round"] == t


def test_a_client_finds_a_run_that_it_never_took_part_in(run, scratch):
    """The operator shows the ledger of another run, under another id and with the right seals."""
    net = Network(scratch / "invented", made("fedswe"))
    net.finish()
    net.server.release()
    shown = verify_client(scratch / "invented" / "server", 1, run / "clients")
    assert any("has records of other runs only" in failure for failure in shown.failures)


def test_a_client_finds_reports_that_it_never_sent_behind_a_restore(run):
    """Rounds 0 to 2 are replaced, and a line says that a backup was restored before them."""

    def forge(lines):
        for line in of_kind("round", lines)[:3]:
            line["reports"] = dict.fromkeys(line["reports"], "1" * 32)
        restore = {"kind": "change", "action": "restore", "t": 0, "client": -1, "reason": "", "time": 0.0}
        return [lines[0], restore, *lines[1:]]

    rewrite(run / "server", forge)
    shown = verify_client(run / "server", 1, run / "clients")
    assert any("report of which the client has no record" in failure for failure in shown.failures)


def test_code_is_not_run_that_a_changed_deployment_names(run, monkeypatch):
    """Somebody who can write to the directory, and has no key."""
    (run / "evil_task.py").write_text(f"open({str(run / 'it_ran')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(run))
    path = run / "server" / "deployment.toml"
    path.write_text(path.read_text().replace('name = "quadratic"', 'name = "evil_task:Own"'))
    assert "evil_task" in path.read_text()
    assert "deployment.toml is not the file" in failures(run)
    digest = ledger.file_digest(path.read_bytes())

    def named(lines):
        for line in of_kind("start", lines):
            line["files"]["deployment.toml"] = digest

    rewrite(run / "server", named, NO_KEY)
    assert "not sealed" in failures(run)
    assert not (run / "it_ran").exists()


# clients that were not to be merged -------------------------------------------------------------------------
def change_line(action, t, client):
    return {"kind": "change", "action": action, "t": t, "client": client, "reason": "", "time": 0.0}


def with_change(lines, *changes):
    """The lines, each change before the round it names."""
    place = {table["t"]: n for n, table in enumerate(lines) if table["kind"] == "round"}
    for change in sorted(changes, key=lambda change: -change["t"]):
        lines = [*lines[: place[change["t"]]], change, *lines[place[change["t"]] :]]
    return lines


def first_merge_from(run, client, t):
    return next(e.t for e in ledger.read(run / "server" / ledger.FILE).entries if e.t >= t and client in e.merged)


@pytest.mark.parametrize("client", [0, 2])
def test_a_merge_of_an_evicted_client_is_found(run, client):
    t = first_merge_from(run, client, 2)
    rewrite(run / "server", lambda lines: with_change(lines, change_line("evict", 2, client)))
    said = failures(run)
    assert f"round {t}: client {client} was merged, but is evicted from round 2 on" in said
    assert f"round {t}: client {client} was merged, but is evicted" in str(
        verify_client(run / "server", 1, run / "clients").failures
    )


def test_a_client_that_was_admitted_again_may_be_merged(run):
    changes = [change_line("evict", 2, 1), change_line("admit", 2, 1)]
    rewrite(run / "server", lambda lines: with_change(lines, *reversed(changes)))
    assert "evicted" not in str(verify(run / "server").failures)


def test_a_merge_of_a_client_that_has_left_is_found(run):
    t = first_merge_from(run, 1, 2)
    rewrite(run / "server", lambda lines: with_change(lines, change_line("leave", 2, 1)))
    assert f"round {t}: clients 1 were merged and are no members" in failures(run)


@pytest.mark.parametrize("action", ["evict", "admit", "leave", "pause"])
def test_a_change_that_names_another_round_than_its_place_is_found(run, action):
    """Otherwise a line could hide an eviction by the round that it names."""

    def late(lines):
        lines = with_change(lines, change_line(action, 2, 1))
        next(line for line in lines if line["kind"] == "change")["t"] = ROUNDS
        return lines

    rewrite(run / "server", late)
    assert f"a line {action} of round {ROUNDS} stands after 2 rounds" in failures(run)


# rounds that are kept ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("run", "folder"), [("fedswe", "state"), ("fedavg", "state"), ("mifa", "rows")],
                         indirect=["run"])  # fmt: skip
def test_files_of_earlier_rounds_that_were_deleted_are_named(run, folder):
    """deploy.keep_rounds is 2."""
    entries = ledger.read(run / "server" / ledger.FILE).entries
    last = {path.name for path in (run / "server" / folder).iterdir()}
    name = f"{ROUNDS - 1}.safetensors" if folder == "state" else None
    if name is None:
        newest = {client: e.t for e in entries for client in e.merged}
        name = next(n for n in sorted(last) if int(n.split("-")[1].split(".")[0]) < newest[int(n.split("-")[0])])
    (run / "server" / folder / name).unlink()
    assert f"{folder}/{name} is missing" in failures(run)


def test_rounds_that_are_no_longer_kept_are_said_not_to_be_there(scratch):
    """After a rollback, and after keep_rounds was raised, fewer rounds can be taken back: no finding."""
    net = Network(scratch, quadratic("fedswe", rounds=6, keep_rounds=1))
    for _ in range(4):
        net.round()
    net.restart(quadratic("fedswe", rounds=6, keep_rounds=3))
    net.round()
    found = verify(scratch / "server")
    assert found.passed, found.failures
    assert "the files to continue after 2 rounds, which are not there" in str(found.parts)
    net.finish()
    net.server.release()
    rollback(scratch / "server", 4)
    found = verify(scratch / "server")
    assert found.passed, found.failures
    assert "the files to continue after 1, 2 rounds" in str(found.parts)
    (scratch / "server" / "state" / "4.safetensors").unlink()
    assert not verify(scratch / "server").passed
