"""What consoles and notebooks show by themselves: results, comparisons, histories, figures, progress."""

import base64
import os
import pty
import re
import subprocess
import sys

import pytest

import fedswe
from fedswe.analysis.description import describe, of_scenario
from fedswe.analysis.scenario import scenario

SCRIPT = """
import fedswe
from unittest import mock

with mock.patch("fedswe.progress._PATIENCE", 0), mock.patch("fedswe.progress._PAUSE", 0):
    fedswe.run(fedswe.Experiment(rounds=3, task="digits:clients=5"))
"""


def pictures(html):
    return [base64.b64decode(text) for text in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]


def test_results_comparisons_and_descriptions_show_tables_and_figures():
    experiment = fedswe.Experiment(rounds=4, task="digits:clients=5:alpha=1", evaluate=fedswe.Evaluate(every=2))
    result = fedswe.run(experiment)
    name = "<b>fedavg</b>"
    comparison = fedswe.compare({name: experiment}, seeds=[3, 4], jobs=1)
    for shown, holds in [(result, "client_mean"), (comparison, "test_accuracy_mean"), (describe("sine"), "Gini")]:
        html = shown._repr_html_()
        assert holds in repr(shown)
        assert holds in html
        assert [picture[:4] for picture in pictures(html)] == [b"\x89PNG"] * (holds != "Gini")
    assert "&lt;b&gt;fedavg" in comparison._repr_html_()
    assert name not in comparison._repr_html_()
    assert not pictures(result.history._repr_html_())
    assert len(repr(result.history)) < 2000
    assert fedswe.plot(comparison)._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("what", ["sine:period=9", fedswe.Experiment(availability="sine:period=9", rounds=40)])
def test_a_label_and_an_experiment_are_described_as_on_the_command_line(what):
    experiment = what if isinstance(what, fedswe.Experiment) else fedswe.Experiment(availability=what)
    expected = describe(of_scenario(scenario(experiment, "sine", None, True)))
    assert repr(describe(what)) == repr(expected)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere(terminal):
    ours, theirs = pty.openpty()
    options = {"stderr": theirs} if terminal else {"stderr": subprocess.PIPE}
    environment = {**os.environ, "TERM": "xterm"}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, env=environment, check=True, **options)
    os.close(theirs)
    seen = os.read(ours, 10_000).decode() if terminal else ran.stderr.decode()
    os.close(ours)
    assert ran.stdout == b""
    assert [text.split("  ")[0] for text in seen.split("\r\x1b[K")] == (
        ["", "rounds 1/3", "rounds 2/3", "rounds 3/3", ""] if terminal else [""]
    )
