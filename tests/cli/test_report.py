"""fedswe report as a user runs it: files, errors of one line, and the report of a comparison."""

from pathlib import Path

from tests.cli.command import fedswe
from tests.figures.runs import write_run


def test_the_page_is_written_into_the_directory_and_that_of_several_here(tmp_path, monkeypatch, capsys):
    runs = [write_run(tmp_path / name, seed) for name, seed in (("a", 3), ("b", 4))]
    monkeypatch.chdir(tmp_path)
    for words, page in ((runs[:1], f"{runs[0]}/report.html"), (runs, "report.html")):
        assert fedswe(monkeypatch, capsys, "report", *words)[:2] == (0, f"report    {page}\n")
        assert Path(page).read_text().startswith("<!DOCTYPE html>")


def test_a_comparison_writes_its_report_and_can_be_continued(tmp_path, monkeypatch, capsys):
    words = [
        "compare", "task.clients=5", "rounds=4", "--algorithms", "fedavg,mifa", "--seeds", "3", "--jobs", "1", "--out",
        tmp_path / "c",
    ]  # fmt: skip
    for _ in range(2):
        code, out, _ = fedswe(monkeypatch, capsys, *words)
        assert code == 0
        assert out.splitlines()[-1] == f"report    {tmp_path}/c/report.html"
    assert "mifa" in (tmp_path / "c" / "report.html").read_text()


OWN = """
from fedswe.tasks import Digits


class Own(Digits):
    pass
"""


def test_the_clients_of_a_task_of_the_user(tmp_path, monkeypatch, capsys):
    file = tmp_path / "own_task_of_a_report.py"
    file.write_text(OWN)
    run = write_run(tmp_path / "a", task={"name": f"{file}:Own", "clients": 30})
    assert fedswe(monkeypatch, capsys, "report", run)[0] == 0
    assert "Labels of each client" in (run / "report.html").read_text()
