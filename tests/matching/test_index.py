"""Prepared galleries beside matching without one; galleries without partners."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.foundation.block_sizes import SIZES
from coupledict.matching import CrossModalMatcher, mean_reciprocal_rank
from support.learners import planted_views

SMALL = {"n_components": 12, "n_nonzero_coefs": 2, "n_dictionaries": 2, "max_iter": 3, "random_state": 0}
SMALL |= {"preprocess": None, "whiten_shrinkage": 3.0, "kernel_weight": 0.5, "direct_weight": 0.0}


def make(**parameters):
    return CrossModalMatcher(**(SMALL | parameters))


@pytest.fixture(scope="module")
def Xs():
    return [X.astype(np.float32) for X in planted_views(np.random.default_rng(0), n=300, widths=(9, 9, 7))[0]]


@pytest.fixture(scope="module")
def matcher(Xs):
    return make(compare="both").fit(Xs)


@pytest.mark.parametrize("compare", ["both", "target", "source", "codes", 2])
def test_it_matches_as_the_matcher_does(matcher, Xs, compare):
    matcher.set_params(compare=compare)
    index = matcher.index(Xs[1])
    assert len(index) == index.n_gallery == 300
    assert "300 samples" in repr(index)
    expected = matcher.match(Xs[0], Xs[1], n_matches=7, return_similarity=True)
    for found, other in zip(index.match(Xs[0], n_matches=7, return_similarity=True), expected, strict=True):
        np.testing.assert_array_equal(found, other)
    np.testing.assert_allclose(index.similarity(Xs[0]), matcher.similarity(Xs[0], Xs[1]), atol=1e-6)
    np.testing.assert_array_equal(index.match(Xs[0][:5], n_matches=None), matcher.match(Xs[0][:5], Xs[1]))
    matcher.set_params(compare="both")


def test_float64_is_rounded(Xs):
    wide = [X.astype(np.float64) for X in Xs[:2]]
    model = make().fit(wide)
    index = model.index(wide[1])
    found, values = index.match(wide[0], return_similarity=True)
    assert index.vectors.dtype == values.dtype == np.float32
    assert found.shape == (300, 10)
    np.testing.assert_allclose(values, model.match(*wide, n_matches=10, return_similarity=True)[1], atol=1e-6)


def test_labels_and_direct_comparison(Xs):
    y = np.arange(300) % 3
    for model in (make().fit(Xs[:2], y), make(direct_weight=0.7).fit(Xs[:2])):
        expected = model.match(Xs[0], Xs[1], n_matches=5)
        np.testing.assert_array_equal(model.index(Xs[1]).match(Xs[0], n_matches=5), expected)


def test_other_directions_and_several_views(matcher, Xs):
    back = matcher.index(Xs[0], source=2, target=0)
    np.testing.assert_array_equal(back.match(Xs[2]), matcher.match(Xs[2], Xs[0], source=2, target=0, n_matches=10))
    several = matcher.index(Xs[1], source=[0, 2], target=1)
    expected = matcher.match([Xs[0], Xs[2]], Xs[1], source=[0, 2], target=1, n_matches=10)
    np.testing.assert_array_equal(several.match([Xs[0], Xs[2]]), expected)


def test_views_by_name(Xs):
    model = make().fit({"text": Xs[0], "picture": Xs[1]})
    index = model.index(Xs[1], source="text", target="picture")
    expected = model.match(Xs[0], Xs[1], source="text", target="picture", n_matches=10)
    np.testing.assert_array_equal(index.match(Xs[0]), expected)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blocks_and_threads_do_not_matter(Xs, matcher, n_jobs):
    gallery = np.repeat(Xs[1], 2, axis=0)  # every similarity twice: the lower number comes first
    expected = matcher.index(gallery).match(Xs[0], n_matches=6)
    np.testing.assert_array_equal(expected[:, 1::2], expected[:, ::2] + 1)
    matcher.set_params(n_jobs=n_jobs)
    with SIZES.changed(gallery_rows=16, query_rows=64, ranked_parts=3):
        found = matcher.index(gallery).match(Xs[0], n_matches=6)
    matcher.set_params(n_jobs=None)
    assert np.mean(found == expected) > 0.99  # rounding may swap near ties


def test_a_gallery_on_disk(matcher, Xs, tmp_path):
    np.save(tmp_path / "gallery.npy", np.resize(Xs[1], (5000, 9)))
    gallery = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    index = matcher.index(gallery)
    np.testing.assert_array_equal(index.match(Xs[0], n_matches=3), matcher.match(Xs[0], gallery, n_matches=3))


def test_another_fit_does_not_change_it(Xs):
    model = make().fit(Xs[:2])
    index = model.index(Xs[1])
    before = index.match(Xs[0])
    model.fit([Xs[0], Xs[2]])
    np.testing.assert_array_equal(index.match(Xs[0]), before)


def test_edges_and_errors(matcher, Xs):
    assert matcher.index(Xs[1]).match(Xs[0][:0]).shape == (0, 10)
    assert matcher.index(Xs[1][:3]).match(Xs[0]).shape == (300, 3)
    empty = matcher.index(Xs[1][:0])
    assert empty.match(Xs[0]).shape == (300, 0)
    assert empty.similarity(Xs[0]).shape == (300, 0)
    index = matcher.index(Xs[1])
    with pytest.raises(ValueError, match="queries to have the 9 features of view 0, got 7"):
        index.match(Xs[2])
    with pytest.raises(ValueError, match="n_matches to be at least 1"):
        index.match(Xs[0], n_matches=0)
    with pytest.raises(ValueError, match="gallery to be finite"):
        matcher.index(np.full((3, 9), np.nan))
    with pytest.raises(ValueError, match="differ from the source view"):
        matcher.index(Xs[1], source=1)


def test_progress(matcher, Xs):
    reports = []
    matcher.set_params(callback=lambda progress: reports.append((progress.stage, progress.completed, progress.total)))
    with SIZES.changed(gallery_rows=200):
        matcher.index(Xs[1])
    matcher.set_params(callback=None)
    assert reports == [("indexing", 200, 300), ("indexing", 300, 300)]


# Galleries without partners


def test_partners_anywhere_in_a_gallery_of_any_size(Xs):
    A, B = Xs[:2]
    model = make().fit([A, B])
    rng = np.random.default_rng(0)
    order = rng.permutation(300)
    gallery, partners = np.vstack([B[order], B[:40] + 3]), np.argsort(order)
    queries = A[:100]
    expected = mean_reciprocal_rank(model.similarity(queries, gallery), partners[:100])
    assert model.score([queries, gallery], partners=partners[:100]) == pytest.approx(expected)
    some = np.where(np.arange(100) < 30, -1, partners[:100])
    expected = mean_reciprocal_rank(model.similarity(queries[30:], gallery), partners[30:100])
    assert model.score([queries, gallery], partners=some) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("partners", "y", "message"),
    [
        (np.arange(4), None, r"5 integers, one for each sample of X\[0\]"),
        (np.zeros(5), None, "5 integers"),
        ([0, 1, 2, 3, 9], None, "indices of the 9 samples"),
        ([0, 1, 2, 3, -2], None, "indices of the 9 samples"),
        ([-1] * 5, None, "not all -1"),
        (np.arange(5), [np.arange(5) % 2, np.arange(9) % 2], "only without labels"),
    ],
)
def test_partners_are_checked(Xs, partners, y, message):
    model = make().fit(Xs[:2])
    with pytest.raises(ValueError, match=message):
        model.score([Xs[0][:5], Xs[1][:9]], y, partners=partners)
