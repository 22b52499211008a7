"""How the text of arguments is read."""

import pytest

from fedswe.cli.arguments import whole_numbers
from fedswe.cli.run import directory, split
from fedswe.errors import FedsweError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3,4,6", [3, 4, 6]), ("1-5", [1, 2, 3, 4, 5]), ("7,1-3,9-9", [7, 1, 2, 3, 9]), ("-1", [-1]), ("", [])],
)
def test_whole_numbers(text, expected):
    assert whole_numbers(text, "--seeds") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("three", "--seeds must be whole numbers"),
        ("1-", "--seeds must be whole numbers"),
        ("1.5", "or ranges such as 1-5"),
        ("5-1", "the range 5-1 must go up"),
        ("0-4000000000", "over at most 100000 numbers"),
        (f"0-{10**20}", "over at most 100000 numbers"),
    ],
)
def test_other_text_is_refused(text, message):
    with pytest.raises(FedsweError, match=message):
        whole_numbers(text, "--seeds")


def test_a_file_and_overrides():
    assert split(["a=1", "mine.toml", "b=2"]) == ("mine.toml", ["a=1", "b=2"])
    assert split([]) == (None, [])
    with pytest.raises(FedsweError, match=r"one configuration file at a time, not a.toml and b.toml"):
        split(["a.toml", "b.toml"])


def test_numbers_of_directories_go_on_beyond_a_thousand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("999-old", "1000-old", "notes", "12b-mine"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    with directory(None, "new") as place:
        assert place.name == "1001-new"
        (place / "kept").touch()
    with directory(None, "unused") as place:
        assert place.name == "1002-unused"
    assert not (tmp_path / "runs" / "1002-unused").exists()
