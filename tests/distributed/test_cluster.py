"""The learner on a cluster of separate processes: the bits of a local fit on the same chunks, and only sums travel."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client

from coupledict import DictionaryLearning, open_codes
from coupledict.distributed import DaskData, _graph, persist
from support.dask_cluster import as_dask, cut, readers, traced
from support.inner import FAN_IN, Job, TreeSum
from support.learners import assert_same_model, make, plain, planted_views
from support.waiting import PATIENCE

ROWS = 70  # of a chunk; the last has fewer


@pytest.fixture(scope="module")
def connection(cluster):
    while len(cluster.workers) < 2:  # another file may have killed some
        cluster.start_worker()
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


@pytest.fixture
def client(connection):
    """The client as the current one, for one test."""
    with connection.as_current():
        yield connection


@pytest.fixture
def Xs(rng):
    return planted_views(rng, n=1000)[0]


def fit_both(Xs, views=None, **parameters):
    """Return the same learner fitted here, to chunks, and on Dask."""
    local = make(**parameters).fit(cut(Xs, ROWS))
    return local, make(**parameters).fit(as_dask(Xs, ROWS) if views is None else views)


def assert_same_codes(one, other):
    assert one.dtype == other.dtype
    for a, b in zip((one.data, one.indices, one.indptr), (other.data, other.indices, other.indptr), strict=True):
        np.testing.assert_array_equal(a, b)


# The same bits


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"view_weights": "balanced", "unused_atoms": "worst", "n_components": 40, "growth": None},
        {"coupling": "support"},
        {"tol": 0.1, "update": "mod"},
    ],
    ids=["default", "worst", "support", "mod"],
)
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_a_fit_on_a_cluster_has_the_bits_of_a_local_one(client, Xs, dtype, parameters):
    Xs = [X.astype(dtype) for X in Xs]
    local, remote = fit_both(Xs, **parameters)
    assert remote.components_[0].dtype == dtype
    assert_same_model(local, remote)


def test_codes_predictions_and_scores_are_the_same(client, Xs):
    local, remote = fit_both(Xs)
    views, chunks = as_dask(Xs, ROWS), cut(Xs, ROWS)
    codes = remote.transform(views)
    assert isinstance(codes, da.Array)
    assert (codes.shape, codes.chunks[0]) == ((1000, 12), views[0].chunks[0])
    for computed in (codes.compute(), codes.persist().compute(), codes[:].compute()):
        assert_same_codes(computed, local.transform(chunks))
    predicted = remote.predict([views[0], None], view=1)
    assert (predicted.shape, predicted.dtype) == ((1000, 9), np.float64)
    np.testing.assert_array_equal(predicted.compute(), local.predict([[first, None] for first, _ in chunks], view=1))
    assert remote.score(views) == local.score(chunks)


def test_a_worker_that_puts_codes_together_gets_the_module_that_knows_how(Xs):
    codes = make().fit(Xs).transform(as_dask(Xs, ROWS))
    for array in (codes, codes.persist(), pickle.loads(pickle.dumps(codes))):
        together, _ = array.__dask_postcompute__()
        assert together.__module__.startswith("coupledict.distributed")


@pytest.mark.slow
def test_every_view_has_codes_of_its_own_with_coupling_support(client, Xs):
    local, remote = fit_both(Xs, coupling="support")
    found = dask.compute(*remote.transform(as_dask(Xs, ROWS)))
    for one, other in zip(found, local.transform(cut(Xs, ROWS)), strict=True):
        assert_same_codes(one, other)


def test_single_view(client, Xs):
    X = Xs[0]
    views, (chunks,) = as_dask([X], ROWS), zip(*cut([X], ROWS), strict=True)
    local, remote = (
        DictionaryLearning(9, n_nonzero_coefs=2, max_iter=4, random_state=0).fit(given)
        for given in (list(chunks), views[0])
    )
    np.testing.assert_array_equal(local.components_, remote.components_)
    assert_same_codes(remote.transform(views[0]).compute(), local.transform(list(chunks)))
    assert remote.score(views[0]) == local.score(list(chunks))


def test_samples_and_dictionaries_of_two_number_types(client, Xs):
    learner, narrow = make().fit(Xs), [X.astype(np.float32) for X in Xs]
    views = as_dask(narrow, ROWS)
    assert learner.score(views) == pytest.approx(learner.score(narrow), rel=1e-12)
    assert_same_codes(learner.transform(views).compute(), learner.transform(narrow))
    predicted = learner.predict([views[0], None], view=1)
    assert predicted.dtype == predicted.compute().dtype == np.float64


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_without_a_client_dask_works_in_this_process(Xs, scheduler):
    with dask.config.set(scheduler=scheduler):
        local, remote = fit_both(Xs)
        assert_same_model(local, remote)
        assert_same_codes(remote.transform(as_dask(Xs, ROWS)).compute(), local.transform(cut(Xs, ROWS)))


def test_codes_are_written_by_the_workers(client, Xs, tmp_path):
    local, remote = fit_both(Xs)
    written = remote.transform(as_dask(Xs, ROWS), out=tmp_path / "codes")
    assert written.sizes == [70] * 14 + [20]
    assert_same_codes(open_codes(tmp_path / "codes").load(), local.transform(cut(Xs, ROWS)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes"]
    with pytest.raises(ValueError, match=r"a name that does not end in '\.zarr'"):
        remote.transform(as_dask(Xs, ROWS), out=tmp_path / "codes.zarr")


@pytest.mark.slow
def test_a_bar_is_shown_as_in_a_local_fit(client, Xs, capsys):
    make(verbose=1).fit(as_dask(Xs, ROWS))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"CoupledDictionaryLearning {k}/4" for k in (1, 2, 3, 4)]


# Where the samples come from


def in_stores(Xs, folder, rows=ROWS):
    """Views in Zarr stores, as Dask arrays."""
    for v, X in enumerate(Xs):
        zarr.create_array(folder / f"{v}.zarr", data=X, chunks=(rows, X.shape[1]))
    return [da.from_zarr(folder / f"{v}.zarr") for v in range(len(Xs))]


def sources(Xs, kind, folder):
    plain = as_dask(Xs, ROWS)
    if kind == "zarr":
        return in_stores(Xs, folder)
    if kind == "mixed":
        return [Xs[0], plain[1]]
    if kind == "stored beside":
        in_stores(Xs, folder)
        return [plain[0], zarr.open_array(folder / "1.zarr", mode="r")]
    if kind == "other chunks":
        return [plain[0], da.from_array(Xs[1], chunks=(33, 4))]
    if kind == "computed":
        return [plain[0] * 2 / 2, plain[1][:, ::-1][:, ::-1]]
    if kind == "persisted":
        return list(dask.persist(*plain))
    if kind == "persisted together":
        return persist(plain)
    if kind == "empty chunks":
        rows = ((0, *plain[0].chunks[0][:3], 0, *plain[0].chunks[0][3:], 0),)
        return [view.rechunk((*rows, (view.shape[1],))) for view in plain]
    raise AssertionError(kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["zarr", "mixed", "stored beside", "other chunks", "computed", "persisted", "persisted together"],
)
def test_samples_may_come_from_anywhere(client, Xs, kind, tmp_path):
    assert_same_model(*fit_both(Xs, sources(Xs, kind, tmp_path), predictor="dictionary", max_iter=3))


@pytest.mark.slow
def test_chunks_without_rows_are_passed_over(client, Xs, tmp_path):
    views = sources(Xs, "empty chunks", None)
    remote = make(init=[X[:12] for X in Xs], growth=None).fit(views)
    assert_same_model(make(init=[X[:12] for X in Xs], growth=None).fit(cut(Xs, ROWS)), remote)
    assert remote.transform(views).compute().shape == (1000, 12)
    assert remote.transform(views, out=tmp_path / "codes").sizes == list(views[0].chunks[0])
    assert remote.score([view[:0] for view in views]) == 1


def test_absent_views_are_persisted_as_such(Xs):
    first, second = persist([None, as_dask(Xs, ROWS)[1]])
    assert first is None
    np.testing.assert_array_equal(second.compute(), Xs[1])


@pytest.mark.slow
def test_codes_outlive_the_samples_they_are_made_of(client, Xs):
    local, remote = fit_both(Xs)
    views = persist(as_dask(Xs, ROWS))
    codes = remote.transform(views)
    del views
    assert_same_codes(codes.compute(), local.transform(cut(Xs, ROWS)))


def test_every_chunk_is_read_once_an_iteration(client, Xs, tmp_path):
    views = [traced(view, tmp_path / "reads") for view in as_dask(Xs, ROWS)]
    make(init=[X[:12] for X in Xs], growth=None, predictor="dictionary", scale=None).fit(views)
    assert len(readers(tmp_path / "reads")) == 2 * 15 * (1 + 4), "once for the scale of the samples, then once a pass"


# The tree


class Values(Job):
    """Makes a number of each block."""

    def __init__(self, values):
        self.values = values

    def do(self, samples, resources):
        return self.values[samples.origin.block]

    def join(self, parts):
        return list(parts)


@pytest.mark.parametrize("n_blocks", [1, 7, 8, 9, 64, 65, 73, 600])
@pytest.mark.parametrize("n_threads", [1, 1000])
def test_the_tree_adds_up_in_the_order_of_a_local_fit(rng, n_blocks, n_threads):
    values = rng.standard_normal(n_blocks) * 10.0 ** rng.integers(-8, 8, n_blocks)
    tree = TreeSum()
    for value in values:
        tree.add(value)
    reading = _graph.Reading((), {}, ())
    dtype = np.dtype(float)
    blocks = [
        _graph.Block(i, _graph.Piece(i, 0, 1), 1, (), (), reading, 1.0, dtype, False, False) for i in range(n_blocks)
    ]
    graph, key = _graph.sum_graph("values", "job", blocks, n_threads)
    graph["job"] = _graph.Task("job", _graph.WorkerJob, Values(values))
    assert dask.get(graph, key) == tree.total()
    assert max(len(task.dependencies) for task in graph.values()) <= FAN_IN


def test_what_is_added_up_stays_as_it_is():
    parts = [np.ones(3), np.ones(3)]
    np.testing.assert_array_equal(_graph.add_up(*parts), [2, 2, 2])
    np.testing.assert_array_equal(parts, np.ones((2, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("groups_per_thread", [0, 100])
def test_tasks_of_many_blocks_give_the_same_bits(client, Xs, sizes, groups_per_thread):
    sizes(groups_per_thread=groups_per_thread)
    assert_same_model(*fit_both(Xs))


# What travels


def received(client):
    """Return the size of everything that workers got from each other, by its name; forgets it afterwards."""

    def empty_log(dask_worker):
        entries = [dict(entry["keys"]) for entry in dask_worker.transfer_incoming_log]
        dask_worker.transfer_incoming_log.clear()
        return entries

    sizes = {}
    for entries in client.run(empty_log).values():
        for entry in entries:
            for key, size in entry.items():
                name = (key if isinstance(key, str) else key[0]).rpartition("-")[0]
                sizes[name] = max(size, sizes.get(name, 0))
    return sizes


@pytest.mark.slow
def test_only_sums_and_dictionaries_travel(client, rng, tmp_path):
    sizes = []
    for rows in (100, 1000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        Xs = planted_views(rng, n=16 * rows)[0]
        views = in_stores(Xs, folder, rows)
        received(client)
        make(growth=None, init=[X[:12] for X in Xs]).fit(views)
        sizes.append(received(client))
    for found in sizes:
        # "original-from-zarr" names the store, not what is in it.
        sums = {"sumcodes", "sum-sumcodes", "findlargest", "sum-findlargest"}
        assert {"sumcodes", "job"} <= set(found) <= {*sums, "job", "original-from-zarr"}
        assert max(found.values()) < 8 * (12 * 12 + 12 * 15) + 500
    assert sizes[0]["sumcodes"] == sizes[1]["sumcodes"]


def test_what_a_chunk_leaves_and_what_it_needs_have_a_size_of_their_own(rng, monkeypatch):
    seen, run_job = [], DaskData.run

    def listen(self, job, threads, portion=None):
        found = run_job(self, job, threads, portion)
        seen.append([len(pickle.dumps(thing)) for thing in (job, found)])
        return found

    monkeypatch.setattr(DaskData, "run", listen)
    for n in (500, 5000):
        Xs = planted_views(rng, n=n)[0]
        with dask.config.set(scheduler="synchronous"):
            make(growth=None, init=[X[:12] for X in Xs], max_iter=1, predictor="dictionary").fit(as_dask(Xs, n // 5))
    (_, few), (_, many) = seen[:2], seen[2:]  # first comes the scale of the samples
    np.testing.assert_allclose(few, many, atol=20)


# Bad days


def test_a_chunk_with_nan_is_named(client, Xs):
    Xs[1][3 * ROWS + 5, 2] = np.nan
    Xs[0][3 * ROWS + 9, 0] = np.inf
    learner = make(init=[np.eye(12, X.shape[1]) + 1 for X in Xs], growth=None)
    messages = []
    for given in (cut(Xs, ROWS), as_dask(Xs, ROWS)):
        with pytest.raises(ValueError, match=r"got infinity in X\[0\], chunk 3, rows 9 of that chunk") as caught:
            learner.fit(given)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_chunk_of_other_features_than_it_should_have_is_named(client, Xs):
    def narrow(rows, block_id):
        return rows[:, :-1] if block_id[0] == 2 else rows

    views = as_dask(Xs, ROWS)
    views[1] = views[1].map_blocks(narrow, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"Expected chunk 2 of X\[1\] to have shape \(70, 9\), .* got \(70, 8\)"):
        make().fit(views)


def test_a_chunk_that_cannot_be_read_is_named(client, Xs, tmp_path):
    views = in_stores(Xs, tmp_path)
    file = tmp_path / "1.zarr" / "c" / "4" / "0"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(OSError, match="Could not read chunk 4"):
        make(growth=None).fit(views)


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda x: x[x[:, 0] > 0], ValueError, r"X\[1\] to have chunks of known sizes.*compute_chunk_sizes"),
        (lambda x: x[:-1], ValueError, r"same number of samples in every view, got 1000 and 999 \(X\[1\]\)"),
        (lambda x: x[:, 0], ValueError, r"Expected X\[1\] to have 2 dimensions, got shape \(1000,\)"),
        (lambda x: x[:, :0], ValueError, r"Expected X\[1\] to have 2 dimensions and at least one feature"),
        (lambda x: x.astype(complex), TypeError, r"Expected X\[1\] to hold real numbers"),
        (lambda x: x.to_delayed()[0, 0], TypeError, r"Expected X\[1\] to be a Dask array, got a Dask Delayed"),
        (lambda x: None, ValueError, "Expected every view to be present in fit, got None for view 1"),
    ],
)
def test_views_that_do_not_fit_are_refused(Xs, spoil, error, words):
    first, second = as_dask(Xs, ROWS)
    with pytest.raises(error, match=words):
        make().fit([first, spoil(second)])


def test_other_features_than_the_dictionaries_have_are_refused(Xs):
    learner = make().fit(Xs)
    with pytest.raises(ValueError, match=r"Expected views of \[6, 9\] features.*got \[6, 5\]"):
        learner.transform([as_dask(Xs, ROWS)[0], as_dask([Xs[1][:, :5]], ROWS)[0]])


def test_updates_that_need_all_residuals_say_why_they_cannot(Xs):
    with pytest.raises(ValueError, match="update='sequential' goes through the residuals of all samples"):
        plain(12, update="sequential").fit(as_dask(Xs, ROWS))
