"""The contract of scikit-learn, for all estimators alike.

Where samples are one array, scikit-learn's own checks run (here for SparseCoder, elsewhere for the others). Lists of
views, pictures and sounds are not what those checks give; what they ask is asked here, in the same way of all.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, SparseCoder
from coupledict.audio import BandwidthExtension
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.images import MultiFocusFusion, StainSeparator, SuperResolution
from coupledict.matching import CrossModalMatcher
from coupledict.views import EachView

RNG = np.random.default_rng(0)
N = 60
SOURCES = RNG.standard_normal((N, 4)) * (RNG.random((N, 4)) < 0.6)
VIEWS = [SOURCES @ RNG.standard_normal((4, width)) + 0.1 * RNG.standard_normal((N, width)) for width in (5, 7)]
LABELS = np.array(["a", "b", "c"])[np.arange(N) % 3]
ATOMS = [RNG.standard_normal((6, width)) for width in (5, 7)]
PICTURES = [RNG.random((36, 40)).cumsum(axis=0) % 1]
FOCUS = [[RNG.random((24, 24))], [np.full((24, 24), 0.5) + 0.01 * RNG.random((24, 24))]]
SOUNDS = [RNG.standard_normal(8000).cumsum() % 1 - 0.5]
TILE = np.rint(255 * np.exp(-RNG.exponential(0.6, (30, 20, 2)) @ [[0.65, 0.70, 0.29], [0.21, 0.95, 0.22]]))
SMALL = {"n_nonzero_coefs": 2, "max_iter": 2, "random_state": 0}


@dataclass(frozen=True)
class Case:
    """An estimator, what it is fitted to, and how it is used; `use` returns arrays.

    `n_features` is what `n_features_in_` is to be; None where it has no meaning: pictures and sounds of any size.
    `free` means that the estimator can be used without a fit.
    """

    make: Callable[[], Any]
    X: Any
    use: Callable[[Any, Any], Any]
    y: Any = None
    n_features: Any = None
    free: bool = False


def codes(model, X):
    return np.asarray(model.transform(X).toarray())


def pairs(model, X):
    fused = model.fuse([X[0][0], X[1][0]])
    return np.stack([fused.image, fused.decision])


CASES = {
    "coupled": Case(lambda: CoupledDictionaryLearning(6, **SMALL), VIEWS, codes, n_features=[5, 7]),
    "single": Case(lambda: DictionaryLearning(6, **SMALL), VIEWS[0], codes, n_features=5),
    "online": Case(lambda: OnlineDictionaryLearning(6, **SMALL), VIEWS, codes, n_features=[5, 7]),
    "coder": Case(lambda: SparseCoder(ATOMS[0], n_nonzero_coefs=2), VIEWS[0], codes, n_features=5, free=True),
    "coder of views": Case(lambda: SparseCoder(ATOMS, n_nonzero_coefs=2), VIEWS, codes, n_features=[5, 7], free=True),
    "each view": Case(
        lambda: EachView(StandardScaler()), VIEWS, lambda m, X: np.asarray(m.transform(X)), n_features=[5, 7]
    ),
    "classifier": Case(
        lambda: CoupledClassifier(6, n_dictionaries=1, **SMALL),
        VIEWS,
        lambda m, X: m.predict_proba(X),
        LABELS,
        [5, 7],
    ),
    "representation": Case(
        lambda: SparseRepresentationClassifier(n_nonzero_coefs=2),
        VIEWS[0],
        lambda m, X: m.decision_function(X),
        LABELS,
        5,
    ),
    "matcher": Case(
        lambda: CrossModalMatcher(6, n_dictionaries=1, **SMALL), VIEWS, lambda m, X: m.similarity(*X), None, [5, 7]
    ),
    "super-resolution": Case(
        lambda: SuperResolution(
            2, n_components=8, patch_size=3, n_neighbors=30, n_detail_components=4, max_samples=400, max_iter=2,
            random_state=0,
        ),
        PICTURES,
        lambda m, X: m.upscale(X[0][:12, :11]),
    ),
    "fusion": Case(
        lambda: MultiFocusFusion(8, n_nonzero_coefs=2, patch_size=4, max_samples=100, random_state=0),
        FOCUS,
        pairs,
        free=True,
    ),
    "bandwidth": Case(
        lambda: BandwidthExtension(
            8, n_nonzero_coefs=2, n_features=6, n_details=4, n_dictionaries=1, max_samples=400, random_state=0
        ),
        SOUNDS,
        lambda m, X: m.extend(X[0][:900]),
    ),
    "stains": Case(StainSeparator, TILE.astype(np.uint8), lambda m, X: m.transform(X[:9, :7])),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def fitted(case):
    return case.make().fit(case.X, *([] if case.y is None else [case.y]))


def arrays_of(value):
    """Return the arrays in nested lists."""
    return [value] if isinstance(value, np.ndarray) else [array for part in value for array in arrays_of(part)]


# scikit-learn's own checks that need no samples.
WITHOUT_SAMPLES = [
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_parameters_default_constructible",
    "check_mixin_order",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("check", WITHOUT_SAMPLES)
def test_checks_without_samples(case, check):
    estimator = case.make()
    before = copy.deepcopy(estimator.get_params(deep=False))
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)
    np.testing.assert_equal(estimator.get_params(deep=False).keys(), before.keys())


def test_fit_returns_self_and_changes_no_parameter(case):
    estimator = case.make()
    before = copy.deepcopy(estimator.get_params(deep=False))
    own = set(vars(estimator))
    assert estimator.fit(case.X, *([] if case.y is None else [case.y])) is estimator
    for name, value in before.items():
        if not hasattr(value, "get_params"):
            np.testing.assert_equal(getattr(estimator, name), value)
    added = set(vars(estimator)) - own
    assert not case.n_features or "n_features_in_" in added
    assert all(name.endswith("_") or name.startswith("_") for name in added)


def test_fit_twice_is_fit_once(case):
    once = case.use(fitted(case), case.X)
    twice = case.use(fitted(case).fit(case.X, *([] if case.y is None else [case.y])), case.X)
    assert np.isfinite(once).all()
    np.testing.assert_array_equal(once, twice)


def test_a_clone_is_not_fitted_and_fits_alike(case):
    model = fitted(case)
    other = clone(model)
    assert not [name for name in vars(other) if name.endswith("_") and not name.startswith("_")]
    other.fit(case.X, *([] if case.y is None else [case.y]))
    np.testing.assert_array_equal(case.use(other, case.X), case.use(model, case.X))


def test_use_before_fit(case):
    estimator = case.make()
    if case.free:
        if isinstance(estimator, MultiFocusFusion):  # it comes with a dictionary for patches of another size
            estimator = MultiFocusFusion()
        assert np.isfinite(case.use(estimator, case.X)).all()
        return
    with pytest.raises(NotFittedError):
        case.use(estimator, case.X)


def test_use_changes_nothing(case):
    model = fitted(case)
    before = pickle.dumps(model)
    case.use(model, case.X)
    assert pickle.dumps(model) == before


def test_pickles(case):
    model = fitted(case)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(case.use(other, case.X), case.use(model, case.X))


def test_input_is_not_changed(case):
    X = copy.deepcopy(case.X)
    for array in arrays_of(X):
        array.setflags(write=False)
    model = case.make().fit(X, *([] if case.y is None else [case.y]))
    case.use(model, X)
    for array, original in zip(arrays_of(X), arrays_of(case.X), strict=True):
        np.testing.assert_array_equal(array, original)


def test_n_features_in(case):
    estimator = case.make()
    assert not hasattr(estimator, "n_features_in_")
    assert getattr(fitted(case), "n_features_in_", None) == case.n_features


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.n_features is not None])
def test_bad_samples_are_refused(name):
    """NaN, infinity, no samples, and another number of features."""
    case = CASES[name]
    several = isinstance(case.X, list)
    y = [] if case.y is None else [case.y]

    def changed(change):
        return [change(case.X[0]), *case.X[1:]] if several else change(case.X)

    for bad, word in ((np.nan, "NaN"), (np.inf, "inf")):
        X = changed(lambda X, bad=bad: np.where(np.arange(N)[:, None] == 3, bad, X))
        if name == "each view" and np.isnan(bad):  # scalers take NaN for missing entries
            continue
        with pytest.raises(ValueError, match=rf"(?i){word}"):
            case.make().fit(X, *y)
    empty = [view[:0] for view in case.X] if several else case.X[:0]
    with pytest.raises(ValueError, match="sample"):
        case.make().fit(empty, *[labels[:0] for labels in y])
    model = fitted(case)
    with pytest.raises(ValueError, match="features"):
        case.use(model, changed(lambda X: X[:, 1:]))


# SparseCoder, by all checks of scikit-learn


def coder(width: int, **parameters: Any) -> SparseCoder:
    dtype = parameters.pop("dtype", float)
    return SparseCoder(np.random.default_rng(0).standard_normal((12, width)).astype(dtype), **parameters)


KINDS = {
    "sparse": {},
    "dense": {"sparse_output": False},
    "float32": {"dtype": np.float32},
    "missing": {"missing": "nan", "sparse_output": False},
    "lasso": {"pursuit": "lasso", "alpha": 0.1},
}
NOT_FOR_US = {"check_array_api_input": "it needs SCIPY_ARRAY_API in the environment, and is for other array libraries"}


def check_name(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


CHECKS = {
    f"{kind}-{check_name(check)}": (kind, check)
    for kind in KINDS
    for _, check in estimator_checks_generator(coder(3, **KINDS[kind]))
    if check_name(check) not in (NOT_FOR_US if kind == "sparse" else {*NOT_FOR_US, *WITHOUT_SAMPLES})
}


@pytest.mark.parametrize("name", CHECKS)
def test_coder_passes_the_checks_of_scikit_learn(name):
    """The checks give samples of some number of features; the dictionary gets the number that an error asks for."""
    kind, check = CHECKS[name]
    tried = [3]
    while True:
        try:
            check(coder(tried[-1], **KINDS[kind]))
        except Exception as error:
            texts, link = [], error
            while link is not None:
                texts.append(str(link))
                link = link.__cause__ or link.__context__
            asked = re.search(r"Expected X to have \d+ features, as its dictionary has, got (\d+)", " ".join(texts))
            if asked is None or int(asked[1]) in tried:
                raise
            tried.append(int(asked[1]))
        else:
            break
    assert len(tried) <= 3


def test_coder_with_names():
    table = pd.DataFrame(VIEWS[0], columns=list("abcde"))
    model = SparseCoder(ATOMS[0]).fit(table)
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (5, list("abcde"))
    assert SparseCoder(ATOMS[0]).fit().n_features_in_ == 5
    assert SparseCoder([ATOMS[0], None]).fit().n_features_in_ == [5, None]
