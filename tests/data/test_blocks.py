"""Blocks of samples: who comes when, what is held at once, and how their sums are added up."""

from __future__ import annotations

import functools
import operator
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coupledict.data.blocks import Blocked, find_blocks
from coupledict.data.jobs import SumCodes, TreeSum
from coupledict.data.memory import InMemory
from coupledict.data.order import Order, even_shares, take_pieces
from support import twins
from support import twins_of_updates as twin
from support.inner import RUN_AHEAD, Cancelled, CancelToken, CodingRule, Piece, Recipe, Threads, check_finite, in_order
from support.problems import random_dictionary
from support.waiting import PATIENCE, count_threads, wait_for_threads, wait_until

WIDTHS = (6, 9)


def make_chunks(rng, sizes, widths=WIDTHS, dtype=np.float64):
    return [[rng.standard_normal((n, p)).astype(dtype) for p in widths] for n in sizes]


def opened(chunks):
    return Blocked(find_blocks(chunks, single=False, name="X"))


# The tree of sums


def tree_of(leaves):
    """Every node adds up to eight neighbours, left to right."""
    while len(leaves) > 1:
        leaves = [functools.reduce(operator.add, leaves[i : i + 8]) for i in range(0, len(leaves), 8)]
    return leaves[0]


@pytest.mark.parametrize("n", [*range(1, 71), 72, 512, 513, 600])
def test_sums_are_those_of_the_tree(n):
    rng = np.random.default_rng(n)
    leaves = [rng.standard_normal(5) * 10.0 ** rng.integers(-8, 8) for _ in range(n)]
    expected, tree = tree_of(leaves), TreeSum()
    for leaf in leaves:
        tree.add(leaf.copy())
    np.testing.assert_array_equal(tree.total(), expected)
    if n > 64:
        assert np.any(expected != functools.reduce(operator.add, leaves)), "another order would do as well here"
        assert len(tree._levels) <= 4, "one partial sum a level is all that is kept"


def test_no_things_have_no_sum():
    assert TreeSum().total() is None


# Which rows a pass takes


sizes_of_blocks = st.lists(st.integers(0, 1200), min_size=1, max_size=40).filter(any)


@given(sizes_of_blocks, st.floats(0, 1), st.integers(0, 1000), st.integers(0, 2**32 - 1))
def test_pieces(sizes, share, place, seed):
    size = max(1, round(share * sum(sizes)))
    pieces, end = take_pieces(sizes, Order.random(len(sizes), np.random.default_rng(seed)), place, size)
    numbers = [piece.block for piece in pieces]
    assert numbers == sorted(set(numbers)), "each block comes at most once, in order"
    assert all(0 <= piece.start < piece.stop <= sizes[piece.block] for piece in pieces)
    assert sum(piece.stop - piece.start for piece in pieces) == size
    if size == sum(sizes):
        assert numbers == [number for number, rows in enumerate(sizes) if rows]
    else:
        assert len(pieces) <= end - place <= len(sizes)


@given(sizes_of_blocks, st.floats(0, 0.9), st.integers(0, 2**32 - 1))
def test_blocks_take_turns(sizes, share, seed):
    order, place = Order.random(len(sizes), np.random.default_rng(seed)), 0
    turns = np.zeros(len(sizes), int)
    for _ in range(25):
        pieces, place = take_pieces(sizes, order, place, min(max(1, round(share * sum(sizes))), max(1, sum(sizes) - 1)))
        for piece in pieces:
            turns[piece.block] += 1
    filled = turns[np.array(sizes) > 0]
    assert sum(sizes) == 1 or filled.max() - filled.min() <= 1


def test_few_rows_are_not_all_neighbours():
    """1600 of a million rows come as runs from four blocks, not from one; and from other places the next time."""
    order = Order.random(100, np.random.default_rng(0))
    first, place = take_pieces([10_000] * 100, order, 0, 1600)
    assert [piece.stop - piece.start for piece in first] == [400] * 4
    again, _ = take_pieces([10_000] * 100, order, place, 1600)
    assert not {piece.block for piece in first} & {piece.block for piece in again}
    cycle, _ = take_pieces([10_000] * 100, order, 100, 1600)
    assert {p.block for p in cycle} == {p.block for p in first}
    assert [p.start for p in cycle] != [p.start for p in first]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.floats(0, 1))
def test_shares_are_even(sizes, share):
    total = round(share * sum(sizes))
    shares = even_shares(sizes, total)
    assert sum(shares) == total
    assert all(0 <= own <= size for own, size in zip(shares, sizes, strict=True))
    cut = [own for own, size in zip(shares, sizes, strict=True) if own < size]
    if cut:
        assert max(shares) - min(cut) <= 1, "who gets less than the others has no more"


# Draws


@pytest.mark.parametrize("sizes", [[50] * 40, [400], [1] * 30 + [1000], [0, 3, 0, 500, 0]], ids=str)
@pytest.mark.parametrize("count", [1, 20, 300, 100_000])
def test_draws(rng, sizes, count):
    chunks = make_chunks(rng, sizes)
    rows = [np.concatenate(view) for view in zip(*chunks, strict=True)]
    drawn = opened(chunks).draw(count, np.random.default_rng(1))
    assert [view.shape for view in drawn] == [(min(count, sum(sizes)), p) for p in WIDTHS]
    places = {row.tobytes(): i for i, row in enumerate(rows[0])}
    numbers = [places[row.tobytes()] for row in drawn[0]]
    assert len(set(numbers)) == len(numbers), "without putting back"
    np.testing.assert_array_equal(drawn[1], rows[1][numbers])  # the views stay together
    again = opened(chunks).draw(count, np.random.default_rng(1))
    np.testing.assert_array_equal(again[0], drawn[0])
    if count == 20 and len(sizes) == 40:
        assert len({number // 50 for number in numbers}) > 5, "spread over the blocks"
        other = opened(chunks).draw(count, np.random.default_rng(2))
        assert np.any(other[0] != drawn[0])


# Sums over blocks


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_statistics_equal_the_twin(rng, dtype, n_jobs):
    chunks = make_chunks(rng, [40, 0, 700, 1, 90, 33], dtype=dtype)
    dictionaries, weights = [random_dictionary(rng, 20, p).astype(dtype) for p in WIDTHS], np.array([0.5, 2.0])
    recipe = Recipe(dictionaries, weights, np.dtype(dtype), CodingRule(3), 864)
    found = opened(chunks).run(SumCodes(recipe, n_worst=7), Threads(n_jobs))
    Xs = [np.concatenate(view) for view in zip(*chunks, strict=True)]
    codes = twins.sparse_encode(Xs, dictionaries, n_nonzero_coefs=3, view_weights=weights, dtype=dtype)
    A, Bs = twin.statistics(Xs, codes)
    left = sum(w * np.sum((X - codes @ D) ** 2, axis=1) for w, X, D in zip(weights, Xs, dictionaries, strict=True))
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.sums[0].a, A, atol=tolerance * np.abs(A).max())
    np.testing.assert_allclose(found.sums[0].b, np.hstack(Bs), atol=tolerance * np.abs(A).max())
    np.testing.assert_array_equal(found.uses, np.count_nonzero(codes, axis=0))
    assert found.n_samples == 864
    assert found.n_nonzeros == np.count_nonzero(codes)
    assert found.energy == pytest.approx(left.sum(), rel=10 * tolerance)
    np.testing.assert_allclose(found.view_energy, [np.sum(X.astype(float) ** 2) for X in Xs], rtol=1e-6)
    worst = np.argsort(-left)[:7]
    np.testing.assert_allclose(found.worst.energy, left[worst], rtol=1e-4)
    np.testing.assert_array_equal(found.worst.rows[1], Xs[1][worst])
    alone = opened(chunks).run(SumCodes(recipe, n_worst=7), Threads())
    np.testing.assert_array_equal(found.sums[0].a, alone.sums[0].a)
    np.testing.assert_array_equal(found.sums[0].b, alone.sums[0].b)


def test_a_part_of_the_samples(rng):
    chunks = make_chunks(rng, [40, 50])
    dictionaries = [random_dictionary(rng, 20, p) for p in WIDTHS]
    recipe = Recipe(dictionaries, np.ones(2), np.dtype(float), CodingRule(3), 90)
    found = opened(chunks).run(SumCodes(recipe), Threads(2), [Piece(0, 5, 20), Piece(1, 0, 3)])
    views = [np.concatenate([chunks[0][v][5:20], chunks[1][v][:3]]) for v in (0, 1)]
    expected = InMemory(views).run(SumCodes(recipe), Threads())
    np.testing.assert_allclose(found.sums[0].b, expected.sums[0].b, rtol=1e-12, atol=1e-12)
    assert found.n_samples == 18
    nothing = opened([[view[:0] for view in chunks[0]]]).run(SumCodes(recipe), Threads(2))
    assert (nothing.n_samples, nothing.energy, nothing.sums[0].a.any()) == (0, 0.0, False)


def test_energies_of_the_views(rng):
    chunks = make_chunks(rng, [40, 0, 70, 1])
    chunks[2] = [np.round(10 * view).astype(np.int16) for view in chunks[2]]
    expected = [np.mean(np.sum(np.concatenate(view) ** 2, axis=1)) for view in zip(*chunks, strict=True)]
    for n_jobs in (1, 3):
        np.testing.assert_allclose(opened(chunks).mean_energies(Threads(n_jobs)), expected, rtol=1e-14)


def test_many_bad_rows_are_counted():
    X = np.zeros((30, 2))
    X[4:20, 1] = np.inf
    with pytest.raises(ValueError, match=r"in chunk 3, rows 104, 105, 106, 107, 108 and 11 more of that chunk\."):
        check_finite([np.zeros((30, 1)), X], Piece(3, 100, 130))


# Tasks that are taken one after the other


def flag():
    return CancelToken()


@pytest.fixture
def no_thread_left():
    """The threads that were there before are there afterwards."""
    before = count_threads()
    yield
    wait_for_threads(before)


both_ways = pytest.mark.parametrize("take_part", [True, False])


@both_ways
@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("slow", ["task", "consumer"])
def test_run_ahead_is_bounded(no_thread_left, n_threads, take_part, slow):
    """However slow the first task is, or whoever takes the results, the others get only so far."""
    taken, ahead = [], []

    def tasks():
        for i in range(100):
            taken.append(i)
            yield i

    def wait_for_the_others():
        if n_threads > 1:
            at_least = RUN_AHEAD * n_threads // 2
            wait_until(lambda: len(taken) >= at_least, "the others went on: a slow task must not stop them at once")
        while True:  # they take no more once they have been still for a while
            before = len(taken)
            time.sleep(0.15)
            if len(taken) == before:
                ahead.append(before)
                return

    def work(i):
        if i == 0 and slow == "task":
            wait_for_the_others()
        return i

    results = []
    for result in in_order(work, tasks(), n_threads, flag(), take_part=take_part):
        results.append(result)
        if result == 0 and slow == "consumer":
            wait_for_the_others()
    assert results == list(range(100))
    assert ahead[0] <= RUN_AHEAD * n_threads


def within(seconds, function):
    """Run a function that might never return."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return found[0]


@both_ways
@pytest.mark.parametrize("n_threads", [0, 1, 2, 4])
@pytest.mark.parametrize("n_tasks", [0, 1, 9])
def test_any_number_of_threads_and_tasks(no_thread_left, n_threads, take_part, n_tasks):
    def run():
        return list(in_order(lambda i: -i, iter(range(n_tasks)), n_threads, flag(), take_part=take_part))

    assert within(PATIENCE, run) == [-i for i in range(n_tasks)]


@both_ways
@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("where", ["tasks", "function"])
def test_an_error_comes_when_it_is_due(no_thread_left, n_threads, take_part, where):
    """The results before it come first; of several errors it is that of the first task, however fast the others are."""

    def tasks():
        for i in range(100):
            if i == 7 and where == "tasks":
                raise RuntimeError("task 7")
            yield i

    def work(i):
        if i == 3:
            time.sleep(0.03)
        if i in (7, 8, 9) and where == "function":
            time.sleep(0.03 if i == 7 else 0)
            raise RuntimeError(f"task {i}")
        return i

    results, stop = [], flag()
    with pytest.raises(RuntimeError, match="task 7"):
        results.extend(in_order(work, tasks(), n_threads, stop, take_part=take_part))
    assert results == list(range(7))
    assert stop.cancelled


@both_ways
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_leaving_early_ends_all_threads(no_thread_left, n_threads, take_part):
    stop, closed = flag(), []

    def tasks():
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    results = in_order(lambda i: i, tasks(), n_threads, stop, take_part=take_part)
    assert next(results) == 0
    results.close()
    assert stop.cancelled
    del results
    assert closed, "the user's iterator is closed, too"


@both_ways
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_pass_within_a_pass(no_thread_left, n_threads, take_part):
    """It hears that the outer one stops, but an error of its own does not stop the outer one."""
    stop = flag()

    def fail(i):
        if i == 2:
            raise RuntimeError("two")
        return i

    with pytest.raises(RuntimeError, match="two"):
        list(in_order(fail, range(50), n_threads, CancelToken(stop), take_part=take_part))
    assert not stop.cancelled

    def stop_at_two(i):
        if i == 2:
            stop.cancel()
        return i

    with pytest.raises(Cancelled):
        list(in_order(stop_at_two, range(50), n_threads, CancelToken(stop), take_part=take_part))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_memory_is_that_of_a_few_blocks(n_jobs):
    """Chunks of a megabyte that were worked on are let go: one is being read, and one a thread worked on."""

    def chunks():
        return ([np.full((2048, 64), 1.0 + i)] for i in range(40))

    data = opened(chunks)
    recipe = Recipe([np.eye(64)], np.ones(1), np.dtype(float), CodingRule(1), 81_920)
    tracemalloc.start()
    try:
        found = data.run(SumCodes(recipe), Threads(n_jobs))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.n_samples == 81_920
    sums = 3 * 64 * 64 * 8  # A, B and some change
    assert peak < (n_jobs + 2) * 2**20 + (RUN_AHEAD + 2) * n_jobs * sums + 2**20
