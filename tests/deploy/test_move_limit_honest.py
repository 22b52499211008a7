"""The limit on a move and honest clients: hardly any report is refused, whatever the algorithm."""

from dataclasses import replace

import pytest

from fedswe.availability import Markov
from fedswe.deploy.ledger import FILE, read
from fedswe.tasks import Digits, Quadratic
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.deploy.parts import Network, deployment
from tests.deploy.storm import in_memory

CLIENTS = 10
TASKS = {
    "digits": Digits(clients=CLIENTS, alpha=0.1),
    # curvatures that differ by a factor of 300
    "quadratic": Quadratic(
        centers=problems.centers(CLIENTS),
        curvature=[0.01 * 300 ** (i / (CLIENTS - 1)) for i in range(CLIENTS)],
        noise=0.1,
    ),
}


def refused(name, task, seed, rounds):
    """Refused and all reports of a run of ten clients with long absences, and the clients evicted."""
    run = deployment(name, TASKS[task], rounds, "lazy", seed=seed)
    run = replace(run, experiment=replace(run.experiment, availability=Markov(p=0.4, on=0.1)))
    with in_memory() as folder:
        net = Network(folder, run)
        net.finish()
        entries = read(folder / "server" / FILE).entries
        turned = sum(entry.rejected[i].get("norm", 0) for entry in entries for i in entry.rejected)
        found = turned, turned + sum(len(entry.merged) for entry in entries), len(net.server.evicted)
        net.server.release()
    return found


@pytest.mark.parametrize("name", ["fedswe", "mifa"])
def test_no_honest_report_is_refused_on_the_digits(name):
    assert refused(name, "digits", 1, 25)[::2] == (0, 0)


@pytest.mark.campaign
@pytest.mark.parametrize("task", TASKS)
def test_honest_reports_at_length(task):
    """Prints the table of docs/deployment.md."""
    counts = {name: [refused(name, task, seed, 60) for seed in (1, 2)] for name in sorted(ALGORITHMS)}
    for name, found in counts.items():
        print(f"{task}: {name}: {found}", flush=True)
    turned, reports, evicted = (sum(run[k] for found in counts.values() for run in found) for k in range(3))
    print(f"{task}: {turned} of {reports} reports refused, {evicted} clients evicted")
    assert turned <= 0.01 * reports
