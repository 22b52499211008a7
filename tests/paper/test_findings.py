"""The texts about the measurements: every number in them is computed from the stored runs."""

import ast
import re
import textwrap
from pathlib import Path

import pytest
from experiments.findings import EXPRESSION, TEXTS, names, rendered, write

from fedswe.errors import FedsweError

FOLDER = Path(__file__).parents[2] / "experiments"
TEMPLATES = {name: (FOLDER / "templates" / name).read_text() for name in TEXTS}

# Whole numbers that templates may hold: settings of the experiments, and the numbers of tables and figures. Settings
# that are no whole numbers are written without a zero (.05), measured ones never are.
SETTINGS = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "15", "16", "20", "50", "64", "100", "200",
    "31", "300", "500", "600", "1000", "3000", "3900", "5000", "10,000", "20,000",
}  # fmt: skip
CODE_OR_LINK = re.compile(r"`[^`]*`|\]\([^)]*\)")
NAMES = re.compile(r"CI(FAR|NIC)-10|H200|bf16|fp32|tf32|F3AST")
PLAIN = re.compile(r"(?<![\d.])(\d[\d,]*\d|\d)(?![\d.]*\d)")
IN_A_LINE = re.compile(r"\b(alpha|gamma|p|rate|hold_out|clip)=\d[\d.]*")  # a setting in the words for a run


@pytest.fixture(scope="module")
def known():
    return names(FOLDER / "results")


@pytest.mark.parametrize("name", TEXTS)
def test_the_committed_text_is_what_the_stored_runs_give(name, known):
    found = rendered(TEMPLATES[name], known)
    assert found == (FOLDER / name).read_text(), "run python experiments/findings.py"


def literals(template: str) -> list[str]:
    """Numbers of a template that may be measured ones written by hand."""
    template = template.replace("level 95 %", "")
    text = NAMES.sub("", CODE_OR_LINK.sub("", EXPRESSION.sub("", template)))
    found = re.findall(r"\d+\.\d+", text) + re.findall(r"\d+ (?:points?|%)", text) + re.findall(r"\S* ?± ?\d\S*", text)
    return found + [number for number in PLAIN.findall(text) if number not in SETTINGS]


def literals_in_expressions(template: str) -> list[str]:
    """The same for what stands in expressions, and expressions that are nothing but a constant."""
    found = []
    for expression in EXPRESSION.findall(template):
        tree = ast.parse(textwrap.dedent(f"({expression.strip()})"), mode="eval")
        found += [expression] if isinstance(tree.body, ast.Constant) else []
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                found.append(str(node.value))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += re.findall(r"\d+\.\d+", IN_A_LINE.sub("", node.value))
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_no_measured_number_is_written_by_hand(name):
    assert literals(TEMPLATES[name]) == []
    assert literals_in_expressions(TEMPLATES[name]) == []


@pytest.mark.parametrize("text", ["ahead by 2.4", "ahead by 2 points", "about 86 %", "has 86 there", "86 ± 1"])
def test_the_rule_finds_numbers_written_by_hand(text):
    assert literals(text) != []


def slugs(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)]+)\)", (FOLDER / name).read_text())
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        file = FOLDER / (path or name)
        assert file.exists(), link
        assert not anchor or anchor in slugs(file.read_text()), link


def test_findings_are_one_page():
    assert len((FOLDER / "FINDINGS.md").read_text().splitlines()) <= 105


# rendering ------------------------------------------------------------------------------------------------------
def test_expressions_are_replaced_and_paragraphs_filled():
    text = "# Head\n\nLong {{ word }}\ntext.\n{{ nothing }}\n\n- one {{ 1 + 1 }}\n- k = 0 {{ long }}\n\n{{ rows }}\n"
    values = {"word": "short", "nothing": "", "long": "x" * 118, "rows": "| a |\n| - |"}
    assert rendered(text, values) == (
        f"# Head\n\nLong short text.\n\n- one 2\n- k = 0\n  {'x' * 118}\n\n| a |\n| - |\n"
    )


def test_what_is_said_and_no_longer_so_stops_the_rendering(known):
    assert rendered("a{{ sure(True, True) }}", known) == "a\n"
    with pytest.raises(FedsweError, match=r"no longer so: facts \[1\]"):
        rendered("{{ sure(True, False) }}", known)
    ahead, behind = known["Number"](1.04, 0.3, signed=True), known["Number"](-0.1, signed=True)
    assert rendered("{{ by(x) }}", known | {"x": ahead}) == "1.0 ± 0.3\n"
    with pytest.raises(FedsweError, match="no longer ahead"):
        rendered("{{ by(x) }}", known | {"x": behind})


def test_the_share_of_the_linear_speed_up_on_the_digits(tmp_path):
    (tmp_path / "speedup-digits.csv").write_text(
        "clients,steps,rate 0.16,rate 0.32\n2,2,400,320\n8,2,100,160\n16,2,80,inf\n8,1,inf,120\n8,4,60,inf\n"
    )
    known = names(tmp_path)
    for what, rounds, shares in (
        ("clients", {2: 320, 8: 100, 16: 80}, ["100", "80", "50"]),
        ("local steps", {1: 120, 2: 100, 4: 60}, ["100", "60", "50"]),
    ):
        needed = known["digits_rounds"](what)  # at the best rate
        assert needed.to_dict() == rounds
        assert [known["linear"](needed, size) for size in rounds] == shares


def test_an_error_names_its_expression():
    with pytest.raises(NameError) as caught:
        rendered("{{ unknown }}", {})
    assert caught.value.__notes__ == ["in {{ unknown }}"]


def test_none_is_written_where_one_cannot_be(tmp_path):
    for name, text in zip(TEXTS, ("{{ 1 + 1 }}", "{{ sure(False) }}"), strict=True):
        (tmp_path / "templates").mkdir(exist_ok=True)
        (tmp_path / "templates" / name).write_text(text)
    with pytest.raises(FedsweError, match="no longer so"):
        write(tmp_path)
    assert not any((tmp_path / name).exists() for name in TEXTS)
    (tmp_path / "templates" / TEXTS[1]).write_text("{{ sure(True) }}two")
    write(tmp_path)
    assert [(tmp_path / name).read_text() for name in TEXTS] == ["2\n", "two\n"]
