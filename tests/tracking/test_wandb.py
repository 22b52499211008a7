"""Weights & Biases without a network: what its offline files hold. Skipped where wandb is not installed."""

import struct

import pytest

from fedswe import run
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import load
from fedswe.experiment.runner import StopRun, resume

pytest.importorskip("wandb")

WORDS = ["task.name=quadratic", "availability.p=0.5", "rounds=6", "evaluate.every=2", "track=wandb:mode=offline"]
SECRET = "0123456789abcdef0123456789abcdef01234567"


def records(data):
    """The records of a .wandb file: LevelDB's log format, blocks of 32 KiB after a header of 7 bytes."""
    at, record = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # the rest of a block is empty
            at += 32768 - at % 32768
            continue
        length, part = struct.unpack_from("<HB", data, at + 4)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if part in (1, 4):  # whole, or the last part
            yield record
            record = b""


def logged(folder):
    """Round and values of each row in the file of one offline run."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("run-*.wandb")
    rows = []
    for data in records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            values = {(item.key or "/".join(item.nested_key)): float(item.value_json) for item in record.history.item}
            rows.append((record.history.step.num, values))
    return rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_offline_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", SECRET)

    def stop(t, row):
        if t == 3:
            raise StopRun

    with pytest.raises(StopRun):
        run(load(None, WORDS), tmp_path / "run", stop)
    result = resume(tmp_path / "run")
    folders = sorted((tmp_path / "run" / "wandb").glob("offline-run-*"), key=lambda p: p.stat().st_mtime)
    rows = dict(row for folder in folders for row in logged(folder))
    assert len({folder.name.rpartition("-")[2] for folder in folders}) == 1  # one id, so that a sync gives one run
    assert {t: values["server_distance"] for t, values in rows.items()} == {
        r["round"]: r["server_distance"] for r in result.history.rows
    }
    assert not list((tmp_path / "run" / "wandb").rglob("requirements.txt"))
    for file in (tmp_path / "run").rglob("*"):
        assert SECRET.encode() not in (file.read_bytes() if file.is_file() else b"")


def test_no_key_is_one_line_before_the_run(tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FedsweError, match="wandb has no key: run `wandb login`"):
        run(load(None, [*WORDS[:-1], "track=wandb"]), tmp_path / "run")
