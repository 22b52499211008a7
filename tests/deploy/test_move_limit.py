"""The limit on a move: by the moves of others, from the first round on, and never by one's own."""

import math

import pytest
import torch

from fedswe.deploy.ledger_lines import Change, Entry
from fedswe.deploy.move_limit import REFUSALS, MoveLimit

BOUND = 1e5


def after(limit, t, moves, rejected=None):
    limit.update(Entry(t, dict.fromkeys(moves, t - 1), "", "", moves=moves, rejected=rejected or {}))


def test_one_of_four_is_judged_in_the_first_round():
    limit = MoveLimit("auto")
    assert limit.exceeded({0: 1.0, 1: 2.0, 2: 1.5, 3: 6.1}, BOUND) == {3: 6.0}
    assert limit.exceeded({0: 1.0, 1: 2.0, 2: 1.5, 3: 5.9}, BOUND) == {}


def test_the_limit_is_lower_where_the_server_keeps_what_clients_send():
    assert MoveLimit("auto", kept=True).exceeded({0: 1.0, 1: 2.0, 2: 1.5, 3: 4.1}, BOUND) == {3: 4.0}


def test_a_client_cannot_raise_its_own_limit():
    limit, far = MoveLimit("auto"), 1.0
    for t in range(30):
        moves = {0: 1.0, 1: 1.0, 2: 1.0, 3: far}
        refused = limit.exceeded(moves, BOUND)
        after(limit, t, {client: move for client, move in moves.items() if client not in refused})
        far = far if refused else far * 1.5
    assert far < 4


def test_an_outlier_does_not_raise_the_limit_of_others():
    moves = dict.fromkeys(range(9), 1.0)
    limit = MoveLimit("auto")
    assert limit.exceeded({**moves, 9: 3.1, 10: 1e4}, BOUND).keys() == {9, 10}


def test_the_factor_is_the_spread_of_the_others_up_to_ten():
    limit = MoveLimit("auto")
    unequal = {0: 0.1, 1: 0.5, 2: 0.5, 3: 1.0, 4: 2.0, 5: 2.0, 6: 3.0, 7: 4.0, 8: 5.0}  # quartiles 0.5 and 3
    assert limit.exceeded({**unequal, 9: 17.9}, BOUND) == {}
    assert limit.exceeded({**unequal, 9: 18.1}, BOUND) == {9: 18.0}
    assert limit.exceeded({**dict.fromkeys(range(5), 1e-6), 5: 1.0, 6: 1.0, 7: 1.0, 8: 1.0, 9: 10.1}, BOUND) == {
        9: 10.0
    }


def test_without_two_others_only_the_bound_holds():
    limit = MoveLimit("auto")
    assert limit.exceeded({0: 1.0, 1: 900.0}, BOUND) == {}
    assert limit.bound(torch.zeros(100)) == 1000
    assert limit.bound(torch.full((100,), 3.0)) == pytest.approx(3000)


def test_the_last_moves_of_absent_clients_count():
    limit = MoveLimit("auto")
    after(limit, 0, {0: 1.0, 1: 1.0, 2: 1.0})
    assert limit.exceeded({3: 3.1}, BOUND) == {3: 3.0}


def test_a_client_that_returns_may_move_as_the_others_did_when_it_was_merged_last():
    limit = MoveLimit("auto")
    after(limit, 0, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})
    for t in range(1, 5):
        after(limit, t, {0: 0.1, 1: 0.1, 2: 0.1})
    assert limit.exceeded({3: 2.9, 4: 2.9}, BOUND * 0.01) == {}  # client 4 was never merged
    assert limit.exceeded({3: 3.1}, BOUND * 0.01) == {3: 3.0}


def test_moves_are_not_refused_where_the_others_have_converged():
    limit = MoveLimit("auto")
    assert limit.exceeded({0: 0.0, 1: 0.0, 2: 0.0, 3: 0.9}, BOUND) == {}


def test_a_number_and_off():
    assert MoveLimit(3.0).bound(torch.zeros(4)) == 3.0
    assert MoveLimit(3.0).exceeded({0: 1.0, 1: 1.0, 2: 1.0, 3: 2.9}, 3.0) == {}
    assert MoveLimit(0.0).off
    assert MoveLimit(0.0).bound(torch.zeros(4)) == math.inf


@pytest.mark.parametrize("action", ["evict", "leave"])
def test_the_moves_of_clients_that_are_not_asked_any_more_do_not_count(action):
    limit = MoveLimit("auto")
    after(limit, 0, {0: 1.0, 1: 1.0, 2: 1.0})
    after(limit, 1, {3: 2.4})
    assert limit.exceeded({0: 3.1}, BOUND) == {}
    limit.apply(Change(action, 2, 3))
    assert limit.exceeded({0: 3.1}, BOUND) == {0: 3.0}


def test_refusals_without_a_merged_report_between_them_count():
    limit = MoveLimit("auto")
    after(limit, 0, {}, {1: {"norm": 4}, 2: {"norm": 1}, 3: {"round": 9}})
    after(limit, 1, {2: 1.0}, {1: {"not finite": 1}, 3: {"malformed": 1}})
    after(limit, 2, {}, {-1: {"norm": 1}})  # client 1 did not report: this changes nothing
    for t in range(3, REFUSALS + 1):
        assert limit.refused_often() == set()
        after(limit, t, {}, {1: {"norm": 1}, 2: {"norm": 1}, 3: {"round": 1}})
    assert limit.refused_often() == {1}
    limit.apply(Change("admit", 9, 1))
    assert limit.refused_often() == set()
