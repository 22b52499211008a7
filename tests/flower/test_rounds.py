"""Rounds that mean something: failures are told, and nothing ends without a merge."""

import json
import logging

import numpy as np
import pytest
from flwr.app import Error, Message

from fedswe.core.algorithm import Job
from fedswe.engine.work import Work, train_one
from fedswe.errors import FedsweError
from fedswe.flower import Strategy, strategy
from tests import problems
from tests.cli import command
from tests.flower.apps import LOCAL, arrays, client_app, reply, vector
from tests.flower.grid import LocalGrid

M = 4


def clients(m=M, d=5, **options):
    return LocalGrid(client_app(problems.quadratic(m, d, **options)), m)


def failing(message, reply):
    return Message(Error(code=1, reason="FileNotFoundError: no data\nmounted"), reply_to=message)


@pytest.fixture
def grid():
    return clients()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "f.db")


@pytest.fixture
def fedswe(monkeypatch, capsys):
    """A command in this process: its exit code, output and error."""
    return lambda *words: command.fedswe(monkeypatch, capsys, *words)


@pytest.fixture
def told(fedswe, path):
    """What `fedswe flower status` says of the store."""
    return lambda: json.loads(fedswe("flower", "status", path, "--json")[1])


def merged(told):
    return [client["merged"] for client in told()["clients"]]


def start(grid, rounds=3, rule="fedswe:k=2", timeout=0.05, **options):
    made = Strategy(rule, names=True, **options)
    return made.start(grid, arrays(np.zeros(5)), rounds, timeout)


def test_all_clients_failing_is_an_error_with_their_words(grid, caplog, fedswe, path, told):
    start(grid, 2, store=path)
    grid.instead = dict.fromkeys(range(M), failing)
    with pytest.raises(FedsweError, match=r"round 3 was tried 5 times .*min_reports=1.*0: .*no data mounted"):
        start(grid, 4, store=path)
    assert fedswe("flower", "status", path)[0] == 1
    found = told()
    assert (found["rounds"], len(found["alarms"])) == (2, 1 + M)
    assert found["alarms"][0].startswith("round 3 was tried 5 times")
    assert [client["why"] for client in found["clients"]] == ["FileNotFoundError: no data mounted"] * M
    grid.instead = {}
    assert set(start(grid, 4, store=path).train_metrics_clientapp) == {1, 2, 3, 4}
    assert fedswe("flower", "status", path)[0] == 0


def test_a_client_that_fails_every_round_is_an_alarm(grid, caplog, path, told):
    grid.instead = {2: failing}
    with caplog.at_level(logging.WARNING, "flwr"):
        start(grid, 3, store=path)
    assert caplog.text.count("client 2 failed: FileNotFoundError: no data mounted") == 3
    assert told()["alarms"] == ["client 2 failed 3 times in a row: FileNotFoundError: no data mounted"]
    assert merged(told) == [3, 3, 0, 3]


def test_a_client_away_longer_than_a_limit_is_an_alarm(grid, fedswe, path):
    start(grid, 1, store=path)
    grid.offline = {1}
    start(grid, 4, store=path)
    code, out, _ = fedswe("flower", "status", path, "--away", "2")
    assert code == 1
    assert "alarm: client 1 is away for 3 rounds" in out
    assert fedswe("flower", "status", path)[0] == 0
    start(grid, 30, store=path, fraction_train=0.1, min_train_nodes=1)  # who is there and not asked is not away
    assert "client 0 is away" not in fedswe("flower", "status", path, "--away", "5")[1]


def test_silence_and_too_few_reports_repeat_a_round(grid):
    grid.instead = {0: lambda message, reply: None, 1: failing}
    with pytest.raises(FedsweError, match=r"min_reports=3.*no reply in time"):
        start(grid, 1, min_reports=3)
    assert grid.asked.count(3) == 5
    start(grid, 1, min_reports=2)


def test_a_run_without_any_merge_is_an_error(grid):
    mask = np.zeros((3, M), bool)
    mask[2] = True
    with pytest.raises(FedsweError, match="no client reported in 2 rounds"):
        start(grid, 2, availability=mask)
    start(grid, 3, availability=mask)


def test_a_simulation_whose_nodes_are_all_new_is_an_error(tmp_path):
    """Node ids are new in every simulation, and the mask is of those of the first."""
    options = {"store": tmp_path / "f.db", "availability": np.ones((9, M)), "min_available_nodes": M}
    first, second = clients(), clients()
    Strategy("fedavg", **options).start(first, arrays(np.zeros(5)), 2)
    with pytest.raises(FedsweError, match="4 clients, all others are new: use names=True"):
        Strategy("fedavg", **options).start(second, arrays(np.zeros(5)), 9)


def test_of_two_nodes_with_one_name_the_one_that_is_there_is_asked(grid):
    def score(t, x):
        if t == 1:
            grid.nodes[grid.add(0)] = "twin"
        grid.offline = {"twin"} if t >= 3 else set()

    Strategy("fedavg", names=True, fraction_evaluate=0.0).start(grid, arrays(np.zeros(5)), 5, evaluate_fn=score)
    assert grid.asked.count(0) == 5


def test_a_merge_that_is_not_finite_refuses_the_farthest(grid, path, told):
    grid.instead = {1: lambda message, _: reply(message, np.full(5, 1e150))}
    start(grid, 1, limit_moves=False, rule="fedavg:lr=1e200", store=path, min_reports=3)
    assert told()["alarms"] == ["client 1 failed 1 times in a row: with its report the merged model is not finite"]


def test_an_evaluation_that_was_cut_off_is_made_up_for(grid, tmp_path):
    calls = []

    def cut(t, x):
        calls.append(t)
        if len(calls) == 3:
            raise KeyboardInterrupt

    made = Strategy("fedavg", store=tmp_path / "f.db")
    with pytest.raises(KeyboardInterrupt):
        made.start(grid, arrays(np.zeros(5)), 4, evaluate_fn=cut)
    Strategy("fedavg", store=tmp_path / "f.db").start(grid, arrays(np.zeros(5)), 4, evaluate_fn=cut)
    assert calls == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rule": "fedswee"}, "did you mean fedswe"),
        ({"rule": "fedswe:k=-1"}, "k must be greater than or equal to 0"),
        ({"rule": "fedswe:j=1"}, "unknown key algorithm.j"),
        ({"serve": "best"}, "best has no meaning here"),
        ({"keep_reports": True}, "keep_reports needs a store"),
        ({"min_reports": -1}, "min_reports must be 0 or more"),
        ({"store": "nowhere/f.db"}, "there is no folder"),
        ({"rule": 5}, "rule must be a label or an algorithm, not int"),
        ({"fraction_train": 0.0}, "fraction_train must be above 0"),
        ({"availability": "sine:p=2"}, r"p must be within \[0, 1\]"),
        ({"availability": np.ones((1, M))}, "the availability has 1 rounds"),
    ],
)
def test_a_mistake_is_one_line(grid, options, words):
    with pytest.raises(FedsweError, match=words) as caught:
        start(grid, **options)
    assert "\n" not in str(caught.value)


# members -------------------------------------------------------------------------------------------------
def test_a_client_that_joins_has_the_last_model_and_a_new_clock():
    """FedSWE: the newcomer's first progress counts once, although it comes in round 4."""
    grid, models = LocalGrid(client_app(problem := problems.quadratic(3, d=5, noise=0.0)), 2), []

    def score(t, x):
        models.append(vector(x))
        if t == 3:
            grid.add(2)

    Strategy("fedswe:k=1", names=True).start(grid, arrays(np.zeros(5)), 4, evaluate_fn=score)
    np.testing.assert_array_equal(grid.starts[4, 2], models[3])
    ends = sum(train_one(Work(problem, Job(models[3]), np.array([i]), 3, LOCAL)).end for i in range(3))
    np.testing.assert_allclose(models[4], (ends + models[3]) / 4, atol=1e-12)


def test_a_node_that_is_gone_but_listed_is_no_new_client(grid, caplog, path, told):
    """Its node was killed and has another id now, and the ServerApp that knew its name was killed too."""
    start(grid, 2, store=path)
    old, answer, gone = min(grid.nodes), grid.answer, Error(code=3, reason="Node Unavailable")
    grid.add(grid.nodes[old])
    grid.answer = lambda m, context: Message(gone, reply_to=m) if context.node_id == old else answer(m, context)
    with caplog.at_level(logging.WARNING, "flwr"):
        start(grid, 4, store=path)
    assert f"node {old} does not say its name" in caplog.text
    assert (told()["m"], merged(told)) == (M, [4] * M)


def test_a_repeated_round_asks_the_same_after_a_crash(tmp_path, monkeypatch):
    """The draw of a fraction depends on how often a round was tried, which the store knows."""
    asked = []
    for attempts in (6, 3):
        grid, store = clients(), tmp_path / f"{attempts}.db"
        grid.instead = dict.fromkeys(range(M), failing)
        monkeypatch.setattr(strategy, "_PAUSES", (0,) * attempts)
        for _ in range(6 // attempts):
            with pytest.raises(FedsweError, match="was tried"):
                start(grid, 1, rule="fedavg", fraction_train=0.5, min_train_nodes=1, store=store)
        asked.append(grid.asked)
    assert asked[0] == asked[1]
    assert len(asked[0]) == 12


def test_clients_that_failed_give_up_their_seats(grid):
    grid.instead = {0: failing, 1: failing}
    start(grid, 4, rule="f3ast:budget=1", fraction_evaluate=0.0)
    assert {2, 3} <= set(grid.asked)


def test_members_of_a_fixed_rule_do_not_change(grid, tmp_path):
    start(grid, 1, rule="mifa", store=tmp_path / "f.db")
    with pytest.raises(FedsweError, match="other members: 0 there, 9 here"):
        start(grid, 2, rule="mifa", store=tmp_path / "f.db", members=9)


def test_a_removal_does_not_outlive_a_rollback(grid, fedswe, path, told):
    grid.offline = {3}
    start(grid, 2, store=path)
    grid.offline = set()
    start(grid, 4, store=path)
    assert fedswe("flower", "remove", path, "3")[0] == 0
    assert fedswe("flower", "rollback", path, "--to", "2")[0] == 0
    start(grid, 4, store=path)
    assert told()["clients"][3]["merged"] == 2


@pytest.mark.parametrize("rule", ["mifa", "fedvarp", "fedswe:k=2", "fedavg"])
@pytest.mark.parametrize("m", [3, 4, 5, 8])
def test_all_of_a_few_honest_clients_are_merged(rule, m):
    made = Strategy(rule, names=True, fraction_evaluate=0.0)
    made.start(clients(m, d=3), arrays(np.full(3, 0.3)), 20)
    assert {member.merged for member in made._federation.members.values()} == {20}


def test_a_failed_evaluation_is_told(grid, caplog):
    broken = lambda m, reply: failing(m, reply) if m.metadata.message_type == "evaluate" else reply  # noqa: E731
    grid.instead = dict.fromkeys(range(M), broken)
    with caplog.at_level(logging.WARNING, "flwr"):
        start(grid, 1)
    assert "could not evaluate: FileNotFoundError: no data mounted" in caplog.text


def test_a_rule_that_keeps_updates_of_all_clients_takes_as_many_as_it_was_told(grid, caplog):
    made, added = Strategy("mifa", fraction_evaluate=0.0, members=M + 1), []

    def score(t, x):
        if t in (1, 2):
            added.append(grid.add(t))

    with caplog.at_level(logging.WARNING, "flwr"):
        made.start(grid, arrays(np.zeros(5)), 4, evaluate_fn=score)
    assert f"client {added[1]} is not asked" in caplog.text
    assert f"client {added[0]} is not asked" not in caplog.text


def test_a_removed_client_is_not_asked(grid, fedswe, path, told):
    start(grid, 2, store=path)
    assert fedswe("flower", "remove", path, "2")[0] == 0
    assert "is no client" in fedswe("flower", "remove", path, "9")[2]
    grid.asked.clear()
    start(grid, 3, store=path)
    assert 2 not in grid.asked
    assert fedswe("flower", "remove", path, "2", "--undo")[0] == 0
    start(grid, 4, store=path)
    assert merged(told) == [4, 4, 3, 4]


def test_a_client_with_a_name_is_the_same_after_a_restart():
    """A new id of the node, as after a restart without keys, changes nothing; without a name it is a new client."""
    ends = {}
    for names, restart in ((True, False), (True, True), (False, True)):
        grid = clients()
        made, after = Strategy("fedswe:k=2", names=names), {}

        def score(t, x, grid=grid, restart=restart, after=after):
            after[t] = vector(x).numpy().copy()
            if restart and t == 2:
                node = next(node for node, partition in grid.nodes.items() if partition == 1)
                grid.nodes[node], grid.offline = "gone", {"gone"}
                grid.add(1)

        made.start(grid, arrays(np.zeros(5)), 5, evaluate_fn=score)
        ends[names, restart] = after[5], len(made._federation.members)
    np.testing.assert_array_equal(ends[True, False][0], ends[True, True][0])
    assert ends[True, True][1] == M
    assert ends[False, True][1] == M + 1


def test_only_a_fraction_is_asked_and_all_in_turn(grid):
    start(grid, 6, rule="fedavg", fraction_train=0.5, min_train_nodes=1, fraction_evaluate=0.0)
    assert len(grid.asked) == 6 * 2
    assert set(grid.asked) == set(range(M))


def test_metrics_are_weighted_as_in_flower(grid, told):
    x = np.zeros(5)
    odd = [{"num-examples": float("nan")}, {"loss": [5.0]}, {"loss": [0.0] * 10**5}, {"loss": np.inf}, {"more": 1.0}]
    for told in odd:
        grid.instead = {
            0: lambda message, _: reply(message, x, **{"num-examples": 12, "loss": 5.0}),
            1: lambda message, _, told=told: reply(message, x, **told),
        }
        result = start(grid, 1, rule="fedavg", fraction_evaluate=0.0)
        assert result.train_metrics_clientapp[1]["loss"] == pytest.approx((12 * 5 + 4 + 4) / 20)
