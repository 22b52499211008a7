"""The report for print: pages of text and charts, without a browser."""

import re

from fedswe.report.blocks import Cell, Report, Section, Table
from fedswe.report.build import report_on
from fedswe.report.charts import Bars
from fedswe.report.pdf import to_pdf


def pages(content):
    return len(re.findall(rb"/Type /Page\b", content))


def test_a_page_for_every_chart(comparison):
    content = to_pdf(report_on([comparison]))
    assert content.startswith(b"%PDF-")
    assert pages(content) >= 6 + 2  # charts, and text before and after


def test_long_tables_go_on_on_the_next_page():
    table = Table("many", ["name", "value"], [[f"row {i}", Cell("1.0", "first")] for i in range(59)])
    assert pages(to_pdf(Report("title", ["a sentence"], [Section("a", [table]), Section("b", [table])]))) == 2


def test_equal_reports_give_equal_bytes():
    report = Report("title", ["a sentence"], [Section("a", [Bars("bars", ["0", "1"], [1.0, 2.0], "x", "y")])])
    assert to_pdf(report) == to_pdf(report)
