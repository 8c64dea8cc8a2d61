"""Classification of samples that lack entries or views: what is accepted, what it teaches, what it is worth."""

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

import coupledict
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.classification._heads import fit_head
from coupledict.classification._kernel import fit_kernel_head
from coupledict.classification._scaling import Scaler


def make(**parameters):
    return CoupledClassifier(**{"n_dictionaries": 2, "missing": "nan", "random_state": 0} | parameters)


def planted(rng, n=360, widths=(8, 6, 7), noise=0.3, apart=4.0):
    """Classes in the plane, three blobs each, seen through several noisy maps."""
    y = rng.integers(3, size=n)
    centres = apart * rng.standard_normal((3, 3, 4))
    hidden = centres[y, rng.integers(3, size=n)] + 0.5 * rng.standard_normal((n, 4))
    return [hidden @ rng.standard_normal((4, p)) + noise * rng.standard_normal((n, p)) for p in widths], y


def without_views(rng, Xs, share=0.4):
    gone = rng.random((len(Xs[0]), len(Xs))) < share
    gone[np.arange(len(gone)), rng.integers(len(Xs), size=len(gone))] = False
    return [np.where(gone[:, [v]], np.nan, X) for v, X in enumerate(Xs)]


def without_entries(rng, Xs, share=0.3):
    return [np.where(rng.random(X.shape) < share, np.nan, X) for X in Xs]


def part(Xs, rows):
    return [X[rows] for X in Xs]


@pytest.mark.parametrize("lose", [without_views, without_entries])
@pytest.mark.parametrize("head", ["auto", "codes+features", "codes", "dictionary"])
def test_incomplete_samples_are_learned_from_and_classified(rng, lose, head):
    Xs, y = planted(rng)
    Xs = lose(rng, Xs)
    model = make(head=head).fit(part(Xs, slice(0, 240)), y[:240])
    assert model.score(part(Xs, slice(240, None)), y[240:]) > (0.65 if head == "dictionary" else 0.85)
    np.testing.assert_allclose(model.predict_proba(Xs).sum(axis=1), 1)


def test_one_view(rng):
    (X,), y = planted(rng, widths=(12,))
    X = without_entries(rng, [X])[0]
    assert make().fit(X[:240], y[:240]).score(X[240:], y[240:]) > 0.85


def test_samples_without_a_view_teach(rng):
    """Few samples have both views, but the others count."""
    train, test = slice(0, 400), slice(400, None)
    gains = []
    for _ in range(3):
        Xs, y = planted(rng, n=600, widths=(9, 9), noise=1.0, apart=1.5)
        gaps = [X[train].copy() for X in Xs]
        gaps[0][15:200], gaps[1][200:] = np.nan, np.nan
        everything = make().fit(gaps, y[train])
        pairs = make().fit(part(Xs, slice(0, 15)), y[:15])
        given = ([Xs[0][test], None], [None, Xs[1][test]], part(Xs, test))
        gains += [everything.score(views, y[test]) - pairs.score(views, y[test]) for views in given]
    assert np.mean(gains) > 0.05


def test_an_absent_view_is_a_row_of_nan_or_none(rng):
    Xs, y = planted(rng)
    for head in ("auto", "codes+features"):
        model = make(head=head).fit(without_views(rng, Xs), y)
        absent = model.decision_function([Xs[0], None, Xs[2]])
        rows = model.decision_function([Xs[0], np.full_like(Xs[1], np.nan), Xs[2]])
        np.testing.assert_array_equal(absent, rows)
        assert (
            model.encode([Xs[0], None, Xs[2]]) != model.encode([Xs[0], np.full_like(Xs[1], np.nan), Xs[2]])
        ).nnz == 0


def test_what_is_missing_does_not_depend_on_the_others(rng):
    """Decisions about samples are those about each alone."""
    Xs, y = planted(rng, n=120)
    gaps = without_entries(rng, without_views(rng, Xs), 0.1)
    for head in ("auto", "codes+features"):
        model = make(head=head).fit(gaps, y)
        together = model.decision_function(gaps)
        alone = np.vstack([model.decision_function(part(gaps, slice(i, i + 1))) for i in range(20)])
        np.testing.assert_allclose(together[:20], alone, atol=1e-9)


def test_nan_must_be_asked_for(rng):
    Xs, y = planted(rng)
    gaps = [Xs[0], Xs[1].copy(), Xs[2]]
    gaps[1][7] = np.nan
    words = r"X\[1\] to be finite, got NaN in sample 7, feature 0. If NaN stands for a missing entry, use missing='nan'"
    with pytest.raises(ValueError, match=words):
        make(missing="error").fit(gaps, y)
    complete = make(missing="error").fit(Xs, y)
    with pytest.raises(ValueError, match=words):
        complete.predict(gaps)
    with pytest.raises(ValueError, match="X to be finite, got NaN in sample 7"):
        make(missing="error").fit(gaps[1], y)
    with pytest.raises(ValueError, match="missing to be one of"):
        make(missing="none").fit(Xs, y)
    gaps[1][7, 2] = np.inf
    for given in (gaps, gaps[1]):
        with pytest.raises(ValueError, match="got infinity in sample 7, feature 2"):
            make().fit(given, y)
    with pytest.raises(ValueError, match="got infinity in sample 7"):
        make().fit(Xs, y).predict(gaps)
    with pytest.raises(ValueError, match="Expected samples that have view 1, got none"):
        make().fit([Xs[0], np.full_like(Xs[1], np.nan)], y)


def test_arrays_and_tables_that_mark_missing_entries(rng):
    Xs, y = planted(rng)
    gaps = without_entries(rng, Xs)
    expected = make().fit(gaps, y).decision_function(gaps)
    masked = [np.ma.masked_array(X, np.isnan(gap)) for X, gap in zip(Xs, gaps, strict=True)]
    model = make(missing="error").fit(masked, y)
    np.testing.assert_array_equal(model.decision_function(masked), expected)
    tables = [pd.DataFrame(gap).astype("Float64") for gap in gaps]
    for table in tables:
        table.columns = [f"c{c}" for c in range(table.shape[1])]
    np.testing.assert_array_equal(make(missing="error").fit(tables, y).decision_function(tables), expected)
    single = make().fit(gaps[0], y).decision_function(gaps[0])
    np.testing.assert_array_equal(make(missing="error").fit(masked[0], y).decision_function(masked[0]), single)
    # A model of complete samples classifies marked ones too.
    assert make(missing="error").fit(Xs, y).score(masked, y) > 0.85


def test_the_other_classifier_says_that_it_takes_none(rng):
    Xs, y = planted(rng)
    gap = without_entries(rng, Xs)[0]
    for given in (gap, np.ma.masked_array(Xs[0], np.isnan(gap))):
        with pytest.raises(ValueError, match=r"finite, got NaN|CoupledClassifier"):
            SparseRepresentationClassifier().fit(given, y)
        with pytest.raises(ValueError, match=r"finite, got NaN|CoupledClassifier"):
            SparseRepresentationClassifier().fit(Xs[0], y).predict(given)


@pytest.mark.filterwarnings("ignore:.*known:UserWarning")
def test_a_sample_of_which_nothing_is_known(rng):
    Xs, y = planted(rng)
    model = make().fit(without_views(rng, Xs), y)
    nothing = [np.full((1, X.shape[1]), np.nan) for X in Xs]
    assert np.isfinite(model.decision_function(nothing)).all()
    assert np.isfinite(make(head="codes+features").fit(without_views(rng, Xs), y).decision_function(nothing)).all()


@pytest.mark.parametrize("head", ["auto", "codes+features"])
def test_files(rng, tmp_path, head):
    Xs, y = planted(rng)
    gaps = without_entries(rng, without_views(rng, Xs), 0.1)
    model = make(head=head).fit(gaps, y)
    model.save(tmp_path / "model")
    again = coupledict.load(tmp_path / "model")
    assert again.missing == "nan"
    assert again.head == head
    np.testing.assert_array_equal(again.predict_proba(gaps), model.predict_proba(gaps))


def test_threads_change_nothing(rng):
    Xs, y = planted(rng)
    gaps = without_entries(rng, without_views(rng, Xs), 0.1)
    np.testing.assert_array_equal(
        make(n_jobs=1).fit(gaps, y).decision_function(gaps), make(n_jobs=3).fit(gaps, y).decision_function(gaps)
    )


@pytest.mark.slow
@parametrize_with_checks(
    [CoupledClassifier(missing="nan", n_dictionaries=1, random_state=0)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "Atoms start from samples that are drawn."
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# The parts


def test_the_scaler_counts_known_entries_only(rng):
    X = 3 + rng.standard_normal((500, 6)) * [1, 2, 3, 1, 1, 30]
    gap = without_entries(rng, [X])[0]
    gap[0] = np.nan
    for preprocess in ("auto", "standardize", "common", "unit", None):
        scaler = Scaler.of(gap, preprocess)
        np.testing.assert_allclose(scaler.center, np.nanmean(gap, axis=0))
        coded = scaler.coded(gap)
        assert np.isnan(coded[0]).all()
        np.testing.assert_array_equal(np.isnan(coded[:, :6]), np.isnan(gap))
        # What is known has nearly the size that it has in the whole sample.
        whole = scaler.coded(X)[1:]
        known = ~np.isnan(coded[1:])
        np.testing.assert_allclose(np.median(np.abs(coded[1:][known] / whole[known])), 1, atol=0.05)
        # A coded sample that is filled in gives the sample back.
        if scaler.extended:
            np.testing.assert_allclose(scaler.filled(gap, scaler.coded(X))[0], X[0])
        np.testing.assert_array_equal(scaler.filled(X, coded), X)


def test_the_kernel_head_is_kernel_ridge_regression(rng):
    X, y = rng.standard_normal((80, 5)), rng.integers(3, size=80)
    targets = np.eye(3)[y]
    head, left_out = fit_kernel_head(X, targets, np.ones(80), 0.1, np.arange(80))
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(1 / head.rate, np.median(distances[~np.eye(80, dtype=bool)]))
    # scikit-learn's has no intercept, so both get centred features of the kernel.
    kernel = np.exp(-head.rate * distances)
    centring = np.eye(80) - 1 / 80
    centred = centring @ kernel @ centring
    penalty = 0.1 * np.trace(centred) / 80
    oracle = KernelRidge(alpha=penalty, kernel="precomputed").fit(centred, targets - targets.mean(axis=0))
    np.testing.assert_allclose(head(X), oracle.predict(centred) + targets.mean(axis=0), atol=1e-6)
    rest = np.arange(80) != 3
    inner = kernel[np.ix_(rest, rest)]
    mean = inner.mean(axis=0)
    centring = np.eye(79) - 1 / 79
    oracle = KernelRidge(alpha=penalty, kernel="precomputed").fit(
        centring @ inner @ centring, targets[rest] - targets[rest].mean(axis=0)
    )
    row = kernel[3, rest] - kernel[3, rest].mean() - mean + mean.mean()
    np.testing.assert_allclose(left_out[3], oracle.predict(row[None])[0] + targets[rest].mean(axis=0), atol=1e-5)


def test_the_penalty_of_a_head_with_more_inputs_than_samples(rng):
    """Noise must not be fitted: with the mean left out of the leverages, the error of an exact fit seemed 0."""
    X, targets = rng.standard_normal((60, 200)), np.eye(2)[rng.integers(2, size=60)]
    assert fit_head(X, targets, np.ones(60), "auto")[0].ridge_alpha >= 1
