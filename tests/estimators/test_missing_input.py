"""How users say that entries are missing, and what is refused: wherever the samples come from."""

from __future__ import annotations

import re

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import zarr

from coupledict import (
    CoupledDictionaryLearning,
    DictionaryLearning,
    OnlineDictionaryLearning,
    SparseCoder,
    sparse_encode,
)
from coupledict.views import Views
from support.learners import assert_same_model, make
from support.masked_twins import knock_out
from support.problems import random_dictionary

WIDTHS = (6, 4)


@pytest.fixture
def views(rng):
    return [rng.standard_normal((60, p)).astype(np.float32).astype(float) for p in WIDTHS]


@pytest.fixture
def damaged(rng, views):
    first, second = knock_out(rng, views, 0.2)
    first[:, 0], second[::7] = views[0][:, 0], np.nan  # each sample has something, and some lack the second view
    return [first, second]


@pytest.fixture
def Ds(rng):
    return [random_dictionary(rng, 10, p) for p in WIDTHS]


def masked(view):
    """The view as a masked array whose hidden numbers would spoil everything."""
    mask = np.isnan(view)
    return np.ma.array(np.where(mask, 1e30, view), mask=mask)


def masked_infinity(view):
    return np.ma.array(np.where(np.isnan(view), np.inf, view), mask=np.isnan(view))


def nullable(view):
    return pd.DataFrame(view, columns=[f"c{i}" for i in range(view.shape[1])]).astype("Float64")


def with_nulls(view):
    return pl.DataFrame({f"c{i}": [None if np.isnan(x) else x for x in column] for i, column in enumerate(view.T)})


MARKED = {"ma": masked, "hidden infinity": masked_infinity, "pandas": nullable, "polars": with_nulls}


def fits(missing="error"):
    """Everything that reads samples, as functions of a list of views."""
    common = {"n_nonzero_coefs": 2, "max_iter": 2, "random_state": 0, "predictor": "ridge", "missing": missing}
    return {
        "fit": lambda Xs: CoupledDictionaryLearning(8, **common).fit(Xs),
        "balanced": lambda Xs: CoupledDictionaryLearning(8, view_weights="balanced", **common).fit(Xs),
        "weight 0": lambda Xs: CoupledDictionaryLearning(8, view_weights=[1, 0], **common).fit(Xs),
        "partial_fit": lambda Xs: CoupledDictionaryLearning(8, **common).partial_fit(Xs),
        "online": lambda Xs: OnlineDictionaryLearning(8, batch_size=20, **common).fit(Xs),
        "ksvd": lambda Xs: CoupledDictionaryLearning(8, update="ksvd", **common).fit(Xs),
    }


# Marked by the arrays themselves


@pytest.mark.parametrize("kind", MARKED)
def test_marked_entries_need_no_word(kind, damaged, Ds):
    marked = [MARKED[kind](view) for view in damaged]
    for given, D, view in ((marked[0], Ds[0], damaged[0]), (marked, Ds, damaged)):
        one, other = (sparse_encode(X, D, n_nonzero_coefs=2, missing=m) for X, m in ((given, "error"), (view, "nan")))
        np.testing.assert_array_equal(one.toarray(), other.toarray())
        coder = SparseCoder(D, n_nonzero_coefs=2).fit(given)
        np.testing.assert_array_equal(coder.transform(given).toarray(), other.toarray())
    assert_same_model(make().fit(marked), make(missing="nan").fit(damaged))
    assert_same_model(make().fit(dict(zip("ab", marked, strict=True))), make(missing="nan").fit(damaged))
    assert_same_model(make().fit(Views(marked)), make(missing="nan").fit(damaged))
    assert_same_model(make().partial_fit(marked), make(missing="nan").partial_fit(damaged))
    one, other = (
        DictionaryLearning(8, n_nonzero_coefs=2, max_iter=2, random_state=0, missing=m).fit(X)
        for X, m in ((marked[0], "error"), (damaged[0], "nan"))
    )
    np.testing.assert_array_equal(one.components_, other.components_)
    assert one.score(marked[0]) == other.score(damaged[0])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int8", "float32"), ("uint16", "float32"), ("bool", "float32"), ("int32", "float64"), ("uint64", "float64")],
)
def test_masked_numbers_of_other_types(rng, dtype, expected):
    numbers = rng.integers(0, 2, (20, 6)).astype(dtype)
    X = np.ma.array(numbers, mask=rng.random((20, 6)) < 0.3)
    D = random_dictionary(rng, 9, 6).astype(np.float32)
    codes = sparse_encode(X, D, n_nonzero_coefs=2)
    assert codes.dtype == expected
    plain = np.where(X.mask, np.nan, numbers).astype(expected)
    np.testing.assert_array_equal(codes.toarray(), sparse_encode(plain, D, n_nonzero_coefs=2, missing="nan").toarray())


def test_nullable_integers(rng):
    numbers = rng.integers(-9, 9, (20, 6)).astype(float)
    numbers[rng.random((20, 6)) < 0.3] = np.nan
    D = random_dictionary(rng, 9, 6)
    expected = sparse_encode(numbers, D, n_nonzero_coefs=2, missing="nan").toarray()
    for table in (pd.DataFrame(numbers).astype("Int16"), with_nulls(numbers).cast(pl.Int32)):
        np.testing.assert_array_equal(sparse_encode(table, D, n_nonzero_coefs=2).toarray(), expected)
    frame = pd.DataFrame(numbers, columns=list("abcdef"))
    mixed = frame.astype({"a": "Int64", "c": "Float32"})  # the other columns are plain, with NaN
    with pytest.raises(ValueError, match="where it is not marked as missing, got NaN in sample"):
        sparse_encode(mixed, D, n_nonzero_coefs=2)
    np.testing.assert_array_equal(sparse_encode(mixed, D, n_nonzero_coefs=2, missing="nan").toarray(), expected)


def test_a_mask_that_hides_nothing_is_no_mask(views, Ds):
    for mask in (np.ma.nomask, np.zeros(views[0].shape, bool)):
        given = [np.ma.array(views[0], mask=mask), views[1]]
        codes = sparse_encode(given, Ds, n_nonzero_coefs=2)
        np.testing.assert_array_equal(codes.toarray(), sparse_encode(views, Ds, n_nonzero_coefs=2).toarray())
    given[1][3, 1] = np.nan
    with pytest.raises(ValueError, match=r"got NaN in X\[1\], sample 3\. If NaN stands for a missing entry, use"):
        sparse_encode(given, Ds, n_nonzero_coefs=2)


@pytest.mark.parametrize("kind", ["ma", "polars"])
@pytest.mark.parametrize("place", ["same view", "other view"])
def test_nan_that_is_not_marked_is_refused(kind, place, damaged, Ds, rng):
    holes = np.where(np.isnan(damaged[0]), 0, damaged[0])
    holes[7, 2] = np.nan
    if kind == "ma":
        marked = np.ma.array(holes, mask=np.zeros(holes.shape, bool))
        marked[9, 1] = np.ma.masked
    else:
        columns = holes.T.tolist()
        columns[1][9] = None
        marked = pl.DataFrame({f"c{i}": column for i, column in enumerate(columns)})
    other = np.nan_to_num(damaged[1])
    given = [marked, other]
    if place == "other view":
        marked, other = masked(damaged[0]), other.copy()
        other[7, 2] = np.nan
        given = [marked, other]
    name = "X[0]" if place == "same view" else "X[1]"
    words = re.escape(f"Expected {name} to be finite where it is not marked as missing, got NaN in sample 7, feature 2")
    with pytest.raises(ValueError, match=words):
        sparse_encode(given, Ds, n_nonzero_coefs=2)
    for run in fits().values():
        with pytest.raises(ValueError, match=words):
            run(given)
    sparse_encode(given, Ds, n_nonzero_coefs=2, missing="nan")
    if place == "same view":
        with pytest.raises(ValueError, match="Expected X to be finite where it is not marked"):
            DictionaryLearning(8).fit(marked)
        DictionaryLearning(8, max_iter=2, missing="nan").fit(marked)


# NaN and infinity


@pytest.mark.parametrize("way", fits())
def test_nan_is_an_error_that_names_view_sample_and_remedy(way, views):
    views[1][17, 3] = np.nan
    words = r"got NaN in X\[1\], sample 17\. If NaN stands for a missing entry, use missing='nan'; otherwise"
    with pytest.raises(ValueError, match=words):
        fits()[way](views)
    fits("nan")[way](views)


def test_nan_is_an_error_in_every_call(views, Ds):
    learner, single = make().fit(views), DictionaryLearning(8, n_nonzero_coefs=2, max_iter=2).fit(views[0])
    views[0][17, 3] = np.nan
    words = r"got NaN in X\[0\], sample 17\. If NaN stands for a missing entry, use missing='nan'"
    for call in (learner.transform, learner.score, learner.impute, lambda X: learner.predict(X, view=1)):
        with pytest.raises(ValueError, match=words):
            call(views)
    learner.predict(views, view=0)  # a view that is predicted is not looked at
    words = r"Expected X to be finite, got NaN in sample 17\. If NaN stands for a missing entry, use missing='nan'"
    for call in (single.transform, single.score, single.impute, single.fit, single.partial_fit):
        with pytest.raises(ValueError, match=words):
            call(views[0])
    with pytest.raises(ValueError, match=words):
        SparseCoder(Ds[0]).transform(views[0])


@pytest.mark.parametrize("way", fits())
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside NaN"])
def test_infinity_is_always_an_error(way, beside, damaged):
    damaged[1][17] = 1.0
    damaged[1][17, 2] = -np.inf
    if beside:
        damaged[1][17, 1] = np.nan
    with pytest.raises(ValueError, match=r"got infinity in X\[1\], sample 17\. Remove such samples, or replace"):
        fits("nan")[way](damaged)


def test_infinity_is_an_error_in_every_call(views, damaged, Ds):
    learner = make(missing="nan").fit(damaged)
    damaged[0][17, :2] = np.inf, np.nan
    words = r"got infinity in X\[0\], sample 17\."
    for call in (learner.transform, learner.score, learner.impute, lambda X: learner.predict(X, view=1)):
        with pytest.raises(ValueError, match=words):
            call(damaged)
    for arguments in ({"n_nonzero_coefs": 2}, {"pursuit": "lasso", "alpha": 0.1}):
        with pytest.raises(ValueError, match=words):
            sparse_encode(damaged, Ds, missing="nan", **arguments)
    with pytest.raises(ValueError, match="infinity"):
        DictionaryLearning(8, missing="nan").fit(damaged[0])


def test_the_lasso_sees_infinity_in_a_view_of_weight_0(damaged):
    damaged[1][17, :2] = np.inf, np.nan
    learner = CoupledDictionaryLearning(8, pursuit="lasso", alpha=0.1, max_iter=2, missing="nan", view_weights=[1, 0])
    with pytest.raises(ValueError, match=r"got infinity in X\[1\], sample 17\."):
        learner.fit(damaged)


def test_other_words_than_these_are_refused(views, Ds):
    words = r"Expected missing to be one of \('error', 'nan'\), got 'drop'\."
    learner = CoupledDictionaryLearning(8, missing="drop")
    single = DictionaryLearning(8, missing="drop")
    for call in (
        lambda: sparse_encode(views, Ds, missing="drop"),
        lambda: SparseCoder(Ds, missing="drop").fit(views),
        lambda: learner.fit(views),
        lambda: learner.partial_fit(views),
        lambda: OnlineDictionaryLearning(8, missing="drop").fit(views),
        lambda: single.fit(views[0]),
        lambda: single.partial_fit(views[0]),
        lambda: make().fit(views).set_params(missing="drop").transform(views),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_views_with_codes_of_their_own_cannot_miss_anything(damaged, views):
    words = r"Missing entries are offered with coupling='code' only"
    learner = make(coupling="support").fit(views).set_params(missing="nan")
    online = OnlineDictionaryLearning(8, coupling="support", missing="nan")
    for call in (learner.transform, learner.score, learner.fit, learner.partial_fit, online.fit):
        with pytest.raises(ValueError, match=words):
            call(damaged)
    with pytest.raises(ValueError, match=r"With coupling='support' views have no code in common"):
        learner.impute(damaged)


def test_a_dictionary_misses_nothing(views, Ds):
    hidden = np.ma.array(Ds[0], mask=Ds[0] < -1)
    with pytest.raises(ValueError, match="Expected dictionary to be finite"):
        sparse_encode(views[0], hidden, missing="nan")
    with pytest.raises(ValueError, match=r"Expected init\[0\] to be finite"):
        DictionaryLearning(10, init=hidden, missing="nan").fit(views[0])


# Layouts and places


def strided(view):
    wide = np.full((2 * view.shape[0], 3 * view.shape[1]), np.inf)
    wide[::2, ::3] = view
    return wide[::2, ::3]


def read_only(view):
    view = view.copy()
    view.flags.writeable = False
    return view


def reversed_rows(view):
    return np.ascontiguousarray(view[::-1])[::-1]


def swapped(view):
    return view.astype(view.dtype.newbyteorder())


@pytest.mark.parametrize("layout", [read_only, np.asfortranarray, strided, reversed_rows, swapped])
def test_layouts(layout, damaged, Ds):
    given, before = [layout(view) for view in damaged], [view.copy() for view in damaged]
    codes = sparse_encode(given, Ds, n_nonzero_coefs=3, missing="nan").toarray()
    np.testing.assert_array_equal(codes, sparse_encode(damaged, Ds, n_nonzero_coefs=3, missing="nan").toarray())
    fitted, expected = make(missing="nan").fit(given), make(missing="nan").fit(damaged)
    assert_same_model(fitted, expected)
    for one, other in zip(fitted.impute(given), expected.impute(damaged), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(given, before, strict=True):
        np.testing.assert_array_equal(one, other)  # the input is never changed


def test_float16_and_memory_maps(damaged, Ds, tmp_path):
    narrow = [view.astype(np.float16) for view in damaged]
    expected = sparse_encode([view.astype(np.float32) for view in narrow], Ds, n_nonzero_coefs=3, missing="nan")
    codes = sparse_encode(narrow, Ds, n_nonzero_coefs=3, missing="nan")
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    np.save(tmp_path / "X.npy", damaged[0])
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        sparse_encode(mapped, Ds[0], n_nonzero_coefs=3, missing="nan").toarray(),
        sparse_encode(damaged[0], Ds[0], n_nonzero_coefs=3, missing="nan").toarray(),
    )


def test_chunks_mark_entries_like_whole_arrays(damaged, sizes, tmp_path):
    sizes(block_rows=20)
    plain = [[view[i : i + 20] for view in damaged] for i in (0, 20, 40)]
    expected = make(missing="nan").fit(plain)
    marked = [[masked(view) for view in chunk] for chunk in plain]
    assert_same_model(make().fit(marked), expected)
    assert_same_model(make().fit(lambda: iter(marked)), expected)
    tables = [{"a": with_nulls(a), "b": nullable(b)} for a, b in plain]
    assert_same_model(make().fit(tables), expected)
    lazy = [da.from_array(masked(view), chunks=(20, -1)) for view in damaged]
    assert_same_model(make().fit(lazy), expected)
    assert_same_model(make().fit([lazy[0], masked(damaged[1])]), expected)
    stored = zarr.create_array(tmp_path / "X.zarr", shape=(60, 6), chunks=(20, 6), dtype="f8")
    stored[:] = damaged[0]
    assert_same_model(make(missing="nan").fit([stored, damaged[1]]), expected)
    stored[:] = np.nan_to_num(damaged[0])
    half = [np.nan_to_num(damaged[0]), damaged[1]]
    whole = make(missing="nan").fit([[view[i : i + 20] for view in half] for i in (0, 20, 40)])
    assert_same_model(make().fit([stored, masked(damaged[1])]), whole)


def test_chunks_refuse_nan_that_is_not_marked(damaged, sizes, tmp_path):
    sizes(block_rows=20)
    views = [np.nan_to_num(view) for view in damaged]
    views[0][27, 2] = np.nan
    marked = [views[0], masked(damaged[1])]
    chunks = [[view[i : i + 20] for view in marked] for i in (0, 20, 40)]
    stored = zarr.create_array(tmp_path / "X.zarr", shape=(60, 6), chunks=(20, 6), dtype="f8")
    stored[:] = views[0]
    lazy = [da.from_array(view, chunks=(20, -1)) for view in marked]
    learner = make(growth=None)
    for given, words in (
        (chunks, r"chunk 1\[0\] to be finite where it is not marked as missing, got NaN in sample 7, feature 2"),
        (lambda: iter(chunks), r"chunk 1\[0\] to be finite where it is not marked as missing"),
        ([stored, marked[1]], r"X\[0\] to be finite where it is not marked as missing, got NaN in sample 27"),
        (lazy, r"chunk 1 of X\[0\] to be finite where it is not marked as missing, got NaN in sample 7"),
    ):
        with pytest.raises(ValueError, match=words):
            learner.set_params(missing="error").fit(given)
        learner.set_params(missing="nan").fit(given)


def test_chunks_name_nan_and_infinity(views):
    chunks = [[view[i : i + 20].copy() for view in views] for i in (0, 20, 40)]
    chunks[1][1][4, 0] = np.nan
    with pytest.raises(ValueError, match=r"got NaN in X\[1\], chunk 1, rows 4 of that chunk\. If NaN stands for"):
        make(growth=None).fit(chunks)
    with pytest.raises(ValueError, match=r"got NaN in X\[1\], chunk 1, rows 4 of that chunk\. If NaN stands for"):
        make(view_weights="balanced").fit(chunks)
    chunks[2][0][5, 1] = np.inf
    for weights in (None, "balanced", [0, 1]):
        with pytest.raises(ValueError, match=r"got infinity in X\[0\], chunk 2, rows 5 of that chunk\. Remove such"):
            make(growth=None, missing="nan", view_weights=weights).fit(chunks)
