"""The list that pages are sent: only changes, and nothing of what a hostile file holds."""

import json
import os
import shutil

import pytest

from fedswe.comparison.compare import compare
from fedswe.experiment import runner
from fedswe.experiment.configuration import load
from fedswe.live.hub import NOTHING, Hub
from fedswe.live.stream import _Seen
from fedswe.results.followed_file import FollowedFile
from fedswe.results.run_directory import RunDirectory
from tests.live.server import QUICK


def look(hub):
    hub._searched = float("-inf")  # not only every other second
    hub.look()


def changes(hub, version):
    version, text = hub.since(version)
    return version, json.loads(text) if text else None


def run(path, *settings):
    return runner.run(load(None, [*QUICK, "rounds=4", "evaluate.every=2", *settings]), path)


def test_only_what_changed_is_sent(tmp_path):
    hub = Hub([tmp_path])
    look(hub)
    version, first = changes(hub, NOTHING)
    assert (first["items"], first["all"]) == ([], True)
    assert changes(hub, version)[1] is None
    run(tmp_path / "one")
    run(tmp_path / "two")
    look(hub)
    version, second = changes(hub, version)
    assert sorted(item["name"].rpartition("/")[2] for item in second["items"]) == ["one", "two"]
    assert [(item["state"], item["round"], item["rounds"], item["served"]) for item in second["items"]] == [
        ("finished", 4, 4, "server")
    ] * 2
    (tmp_path / "one" / "history.csv").write_text("round,x\n1,1\n")
    (tmp_path / "two").rename(tmp_path.parent / f"{tmp_path.name}-gone")
    look(hub)
    _, third = changes(hub, version)
    assert [item["round"] for item in third["items"]] == [1]
    assert len(third["gone"]) == 1
    assert not third["all"]


def test_a_run_is_running_while_a_process_holds_it(tmp_path):
    run(tmp_path / "one")
    (tmp_path / "one" / "model.safetensors").unlink()
    hub = Hub([tmp_path])
    look(hub)
    version, found = changes(hub, NOTHING)
    if found["items"][0]["state"] == "unfinished":
        pytest.skip("this system does not list locks")
    assert found["items"][0]["state"] == "stopped"
    with RunDirectory(tmp_path / "one").held():
        look(hub)
        _, found = changes(hub, version)
        assert found["items"][0]["state"] == "running"
        with pytest.raises(Exception, match="in use"), RunDirectory(tmp_path / "one").held():
            pass  # the look has not taken the lock away


def test_curves_are_read_only_while_a_page_shows_them(tmp_path):
    run(tmp_path / "one")
    hub = Hub([tmp_path])
    look(hub)
    (item,) = changes(hub, NOTHING)[1]["items"]
    assert hub.curves == {}
    with hub.following([item["id"]]):
        assert len(hub.curves[item["id"]].rows) == 3
        assert hub.strips[item["id"]].rounds == 4
        with hub.following([item["id"]]):
            pass
        look(hub)
        assert len(hub.curves[item["id"]].rows) == 3
    look(hub)
    assert hub.curves == {}


def grid_of(hub):
    look(hub)
    return next(item for item in changes(hub, NOTHING)[1]["items"] if item["kind"] == "grid")


def test_a_comparison_shows_its_cells_done_running_and_waiting(tmp_path):
    base = load(None, [*QUICK, "rounds=4"])
    compare(base, ["fedavg"], seeds=[3, 4], out=tmp_path / "cmp", jobs=1)
    hub = Hub([tmp_path])
    names = ["fedavg-lr0.1-seed3", "fedavg-lr0.1-seed4"]
    assert [cell[:2] for cell in grid_of(hub)["cells"]] == [[name, "done"] for name in names]
    (tmp_path / "cmp" / "runs" / names[0] / "model.safetensors").unlink()
    shutil.rmtree(tmp_path / "cmp" / "runs" / names[1])
    assert [cell[1] for cell in grid_of(hub)["cells"]] == ["stopped", "waiting"]
    with RunDirectory(tmp_path / "cmp" / "runs" / names[0]).held():
        grid = grid_of(hub)
    assert [cell[1] for cell in grid["cells"]] == ["running", "waiting"]
    assert grid["counts"] == {"done": 0, "running": 1, "stopped": 0, "waiting": 1}


@pytest.mark.parametrize(
    "config",
    [b"", b"\xff\xfe\x00", b"rounds = [", b"a = " + b"[" * 5000,
     b'rounds = "x"\nevaluate = 3\nalgorithm = [1]\nseed = {}',
     b'[evaluate]\nmodel = [1, "./mine.py:Evil", "", "ema:of=x"]\nserve = 7\n[algorithm]\nname = "./mine.py:Evil"',
     b'rounds = 99999999999999999999999999\n[local]\nlr = nan', b"rounds = 0x" + b"f" * 6000],
    ids=range(8),
)  # fmt: skip
def test_hostile_configurations_are_listed_and_nothing_of_them_is_imported(tmp_path, config):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_bytes(config)
    (tmp_path / "run" / "mine.py").write_text("raise SystemExit('imported')")
    (tmp_path / "run" / "history.csv").write_bytes(b"\x00\xff,round\n" + b"9" * 400 + b",1e999\n")
    hub = Hub([tmp_path])
    look(hub)
    (item,) = changes(hub, NOTHING)[1]["items"]
    with hub.following([item["id"]]):
        look(hub)
    assert item["round"] == 0


def test_pipes_and_folders_in_place_of_files_do_not_stop_it(tmp_path):
    for name in ("config.toml", "history.csv", "reported.txt"):
        other = tmp_path / name.partition(".")[0]
        other.mkdir()
        for file in ("config.toml", "history.csv", "reported.txt"):
            (os.mkfifo if file == name else lambda path: open(path, "w").close())(other / file)
    hub = Hub([tmp_path])
    look(hub)
    items = changes(hub, NOTHING)[1]["items"]
    with hub.following([item["id"] for item in items]):
        look(hub)
    assert len(items) == 3


def listed(hub):
    look(hub)
    return {item["name"].rpartition("/")[2]: item for item in changes(hub, NOTHING)[1]["items"]}


def test_what_cannot_be_read_is_said_and_the_others_are_shown(tmp_path):
    for name in ("good", "rate", "seed", "title", "field", "return", "link"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text("rounds = 9\n")
        (tmp_path / name / "history.csv").write_text("round,x\n3,1\n")
        (tmp_path / name / "reported.txt").write_text("clients 4\n80\n")
    (tmp_path / "rate" / "config.toml").write_text(f"local.lr = 1{'0' * 400}\n")
    (tmp_path / "seed" / "config.toml").write_text(f"seed = 0x{'f' * 6000}\n")
    (tmp_path / "title" / "reported.txt").write_text(f"clients 000000001{'0' * 5000}\n")
    (tmp_path / "field" / "history.csv").write_text(f"round,{'z' * 200_000}\n3,1\n")
    (tmp_path / "return" / "history.csv").write_bytes(b"round\rx,y\n3,1\n")
    for file in ("history.csv", "reported.txt"):
        (tmp_path / "link" / file).unlink()
        (tmp_path / "link" / file).symlink_to(tmp_path / "link" / file)
    hub = Hub([tmp_path])
    found = listed(hub)
    with hub.following([item["id"] for item in found.values()]):
        for _ in range(2):  # it is not forgotten
            found = listed(hub)
            assert {name for name, item in found.items() if item["state"] == "unreadable"} == {"rate", "seed"}
            assert found["rate"]["problem"].startswith("cannot be read (OverflowError")
            assert (found["good"]["round"], found["good"]["rounds"]) == (3, 9)
        good = found["good"]["id"]
        assert (len(hub.curves[good].rows), hub.strips[good].rounds) == (1, 1)
        (tmp_path / "good" / "history.csv").write_text("round,x\n3,1\n6,1\n")
        (tmp_path / "rate" / "config.toml").write_text("rounds = 9\n")
        found = listed(hub)
        assert (found["good"]["round"], len(hub.curves[good].rows)) == (6, 2)
        assert "problem" not in found["rate"]


def test_a_curve_that_cannot_be_read_is_a_problem_of_its_run(tmp_path, monkeypatch):
    run(tmp_path / "one")
    run(tmp_path / "two")
    hub = Hub([tmp_path])
    found = listed(hub)
    denied, usual = tmp_path / "one" / "history.csv", FollowedFile.new_lines

    def new_lines(file):  # a test that is run as root can read everything
        if file._path == denied:
            raise PermissionError(13, "Permission denied")
        return usual(file)

    monkeypatch.setattr(FollowedFile, "new_lines", new_lines)
    with hub.following([item["id"] for item in found.values()]):
        found = listed(hub)
        assert found["one"]["problem"] == "cannot be read (PermissionError: [Errno 13] Permission denied)"
        assert "problem" not in found["two"]
        assert len(hub.curves[found["two"]["id"]].rows) == 3


def test_a_page_is_told_which_curves_are_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("fedswe.live.hub._FOLLOWED", 1)
    run(tmp_path / "one")
    run(tmp_path / "two")
    hub = Hub([tmp_path])
    ids = [item["id"] for item in listed(hub).values()]
    page = _Seen()
    with hub.following(ids[:1]), hub.following(ids):
        assert news(page, hub, ids)["not_followed"] == {"ids": ids[1:]}
        assert "not_followed" not in news(page, hub, ids)
    with hub.following(ids[1:]):
        assert list(hub.curves) == ids[1:]
        assert news(page, hub, ids)["not_followed"] == {"ids": []}


def news(page, hub, ids):
    events = (event.split("\n") for event in page.news(hub, ids))
    return {name.removeprefix("event: "): json.loads(data.removeprefix("data: ")) for name, data, *_ in events}


def test_a_run_whose_directory_was_deleted_is_no_longer_listed(tmp_path):
    """At once, not with the next search: a gym deletes the directories of runs that it has measured."""
    run(tmp_path / "one")
    hub = Hub([tmp_path])
    look(hub)
    version, _ = changes(hub, NOTHING)
    shutil.rmtree(tmp_path / "one")
    hub.look()
    _, found = changes(hub, version)
    assert (found["items"], len(found["gone"])) == ([], 1)
