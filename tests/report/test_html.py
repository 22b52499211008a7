"""The page as text: what stands in it, and what cannot get into it."""

import json
import re

import pytest

from fedswe.errors import FedsweError
from fedswe.report.blocks import Cell, Listing, Report, Section, Table, Text, name_in_text
from fedswe.report.build import report_on
from fedswe.report.charts import Bars
from fedswe.report.html import embedded, to_html
from tests.report.conftest import EMOJI, HEBREW, MARKUP

EVIL = "</script><!-- \"'&\u2028\u2029 <img src=x onerror=alert(1)>"


def test_text_of_the_user_is_escaped_everywhere():
    page = to_html(
        Report(
            EVIL,
            [EVIL],
            [
                Section(
                    EVIL,
                    [
                        Text([EVIL]),
                        Table(EVIL, [EVIL, EVIL], [[EVIL, Cell(EVIL, "first")]], EVIL),
                        Listing(EVIL, EVIL),
                        Bars(EVIL, [EVIL], [1.0], EVIL, EVIL, EVIL),
                    ],
                )
            ],
        )
    )
    assert "<img" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page).group(1)
    assert "<" not in data
    (chart,) = json.loads(data)
    assert (chart["labels"], chart["x"]) == ([EVIL], EVIL)


def test_data_cannot_end_their_element():
    text = embedded([EVIL])
    assert not set("<>\u2028\u2029") & set(text)
    assert json.loads(text) == [EVIL]


def test_control_characters_and_broken_names_are_shown():
    page = to_html(Report("a\x00b\udcff\x1b[31m", []))
    assert "<title>a\\x00b\\udcff\\x1b[31m</title>" in page
    page.encode()


def test_marks_of_direction_do_not_turn_a_sentence():
    """U+202E turns what follows, U+2069 would end the isolation of a name."""
    name = "x\u2069\u202eevil \u05d0"
    assert name_in_text(name) == "\u2068x\u202eevil \u05d0\u2069"
    page = to_html(Report("", [f"{name_in_text(name)} is lower."]))
    assert "<li>\u2068x\\u202eevil \u05d0\u2069 is lower.</li>" in page


def test_a_page_that_is_too_large_is_one_line(monkeypatch):
    monkeypatch.setattr("fedswe.report.html._LARGEST", 1_000_000)
    to_html(Report("", [], [Section("", [Text(["x" * 900_000])])]))
    with pytest.raises(FedsweError, match="the page would have 1 MB: name fewer directories"):
        to_html(Report("", [], [Section("", [Text(["x" * 1_100_000])])]))


def test_nothing_is_loaded_and_only_its_scripts_run(comparison):
    page = to_html(report_on([comparison]))
    assert len(page.encode()) < 6_000_000
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!#)', own)
    assert "http:" not in own
    assert "https:" not in own


def test_what_a_page_about_a_comparison_says(comparison):
    report = report_on([comparison])
    titles = [section.title for section in report.sections]
    assert titles == [
        "Final scores",
        "Scores over the rounds",
        "Echoes and reports",
        "Clients",
        "Configuration",
        "How to reproduce this",
    ]
    (table,) = report.sections[0].blocks
    assert {row[0] for row in table.rows} == {MARKUP, EMOJI, HEBREW}
    assert table.columns[1] == "server model"


def test_the_same_runs_give_the_same_page(comparison):
    assert to_html(report_on([comparison])) == to_html(report_on([comparison]))
