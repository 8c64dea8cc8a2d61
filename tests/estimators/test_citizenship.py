"""Views and learners among scikit-learn's tools: searches, pipelines, tables, routing, notebooks."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    cross_val_predict,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.validation import check_is_fitted

import coupledict
from coupledict import (
    CoupledDictionaryLearning,
    DictionaryLearning,
    ModelFileError,
    OnlineDictionaryLearning,
    PredictionWarning,
    SparseCoder,
    sparse_encode,
)
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.estimators import display
from coupledict.files import read_model, write_model
from coupledict.matching import CrossModalMatcher
from coupledict.views import EachView, Views


def make(**parameters):
    return CoupledDictionaryLearning(
        **({"n_components": 12, "n_nonzero_coefs": 2, "max_iter": 5, "random_state": 0} | parameters)
    )


@pytest.fixture
def views(rng):
    sources = rng.standard_normal((120, 5)) * (rng.random((120, 5)) < 0.4)
    return [sources @ rng.standard_normal((5, width)) + 0.01 * rng.standard_normal((120, width)) for width in (4, 9)]


@pytest.fixture
def frames(views):
    index = pd.Index([f"sample {i}" for i in range(120)])
    return [
        pd.DataFrame(view, index=index, columns=[f"{name}{i}" for i in range(view.shape[1])])
        for view, name in zip(views, "ab", strict=True)
    ]


# Views


def test_views_are_one_table(views):
    both = Views(views)
    assert (len(both), both.shape, both.ndim) == (120, (120, 13), 2)
    assert [view is given for view, given in zip(both, views, strict=True)] == [True, True]
    np.testing.assert_array_equal(np.asarray(both), np.hstack(views))
    assert np.asarray(both, dtype=np.float32).dtype == np.float32
    assert repr(both) == "Views(120 samples of 4 + 9 features)"
    assert Views(both).views == both.views


@pytest.mark.parametrize("rows", [slice(3, 9), np.array([5, 2, 2]), np.arange(120) % 7 == 0, [1, 0]])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, lambda view: pl.DataFrame(np.array(view))])
def test_rows_are_those_of_all_views(views, rows, kind):
    chosen = Views([kind(views[0]), None, kind(views[1])])[rows]
    assert isinstance(chosen, Views)
    assert chosen.views[1] is None
    for given, found in zip(views, chosen.views[::2], strict=True):
        assert type(found) is type(kind(given))
        np.testing.assert_array_equal(np.asarray(found), given[rows])


def test_views_say_what_is_wrong(views):
    both = Views(views)
    with pytest.raises(IndexError, match=r"got 0\. A single row is \[0:1\]; the views themselves are in the list"):
        both[0]
    with pytest.raises(IndexError, match="rows alone"):
        both[:3, 2]
    with pytest.raises(ValueError, match=r"same number of samples in every view, got 120 and 7 \(views\[1\]\)"):
        Views([views[0], views[1][:7]])
    with pytest.raises(TypeError, match=r"list of arrays, one per view, .*got ndarray"):
        Views(views[0])
    with pytest.raises(ValueError, match=r"views\[0\] to have 2 dimensions, got shape \(3,\)"):
        Views([[1, 2, 3]])
    with pytest.raises(ValueError, match="at least one view"):
        Views([None])
    with pytest.raises(ValueError, match="every view to be present to put them side by side"):
        np.asarray(Views([views[0], None]))
    with pytest.raises(ValueError, match=r"table of 12 columns for views of \[4, 8\], got shape \(120, 13\)"):
        Views.split(np.hstack(views), [4, 8])


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, pl.DataFrame, lambda table: table.tolist()])
def test_a_table_becomes_views(views, kind):
    found = Views.split(kind(np.hstack(views)), [4, 9])
    for own, view in zip(found, views, strict=True):
        np.testing.assert_array_equal(np.asarray(own), view)


def test_every_estimator_takes_views(views):
    both, y = Views(views), np.arange(120) % 2
    np.testing.assert_array_equal(make().fit(both).components_[1], make().fit(views).components_[1])
    learner = make().fit(views)
    for given, plain in ((both, views), (Views([views[0], None]), [views[0], None])):
        np.testing.assert_array_equal(learner.transform(given).toarray(), learner.transform(plain).toarray())
        np.testing.assert_array_equal(learner.predict(given, view=1), learner.predict(plain, view=1))
        assert learner.score(given) == learner.score(plain)
        codes = sparse_encode(given, learner.components_).toarray()
        np.testing.assert_array_equal(codes, sparse_encode(plain, learner.components_).toarray())
    online = OnlineDictionaryLearning(6, n_nonzero_coefs=2, max_iter=3, random_state=0)
    expected = clone(online).fit(views).partial_fit(views).components_[0]
    np.testing.assert_array_equal(online.fit(both).partial_fit(both).components_[0], expected)
    classifier = CoupledClassifier(8, n_dictionaries=1, random_state=0)
    known = clone(classifier).fit(views, y)
    given = Views([None, views[1]])
    np.testing.assert_array_equal(classifier.fit(both, y).predict(given), known.predict([None, views[1]]))
    matcher = CrossModalMatcher(8, n_dictionaries=1, max_iter=2, random_state=0)
    assert matcher.fit(both).score(both) == clone(matcher).fit(views).score(views)
    alone = DictionaryLearning(8, max_iter=2, random_state=0)  # takes one table, and views are one side by side
    np.testing.assert_array_equal(alone.fit(both).components_, clone(alone).fit(np.hstack(views)).components_)


# Searches and splits


def explains_second(learner, Xs, y=None):
    """Tell how well the second view is predicted from the first."""
    found = learner.predict(Views([Xs.views[0], None]), view=1)
    return -float(np.mean((found - Xs.views[1]) ** 2))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_over_views(views, n_jobs):
    grid = {"n_nonzero_coefs": [1, 3], "n_components": [6, 12]}
    search = GridSearchCV(make(predictor="ridge"), grid, cv=KFold(3), n_jobs=n_jobs).fit(Views(views))
    best = search.best_params_
    folds = [
        make(predictor="ridge", **best).fit([view[train] for view in views]).score([view[test] for view in views])
        for train, test in KFold(3).split(views[0])
    ]
    assert search.best_score_ == pytest.approx(np.mean(folds), rel=1e-12)
    assert best["n_nonzero_coefs"] == 3
    assert search.transform(Views(views)).shape == (120, best["n_components"])
    assert search.score(views) == make(predictor="ridge", **best).fit(views).score(views)


def test_searches_with_a_scorer_of_ones_own(views):
    search = GridSearchCV(make(predictor="ridge"), {"n_nonzero_coefs": [1, 4]}, scoring=explains_second, cv=3).fit(
        Views(views)
    )
    assert search.best_params_ == {"n_nonzero_coefs": 4}
    halving = HalvingGridSearchCV(
        make(predictor="ridge"), {"n_nonzero_coefs": [1, 2, 4]}, min_resources=40, cv=2, random_state=0
    ).fit(Views(views))
    assert halving.n_resources_ == [40, 120]
    assert halving.best_params_ == {"n_nonzero_coefs": 4}


def test_cross_validation_and_splits(views):
    y = np.arange(120) % 2
    found = cross_validate(make(predictor="ridge"), Views(views), cv=4)["test_score"]
    assert found.shape == (4,)
    assert found.min() > 0.5
    train, test, y_train, _ = train_test_split(Views([views[0], None, views[1]]), y, stratify=y, random_state=0)
    assert (len(train), len(test), train.views[1]) == (90, 30, None)
    rows = {row.tobytes(): i for i, row in enumerate(views[0])}
    order = [rows[row.tobytes()] for row in train.views[0]]
    np.testing.assert_array_equal(train.views[2], views[1][order])
    np.testing.assert_array_equal(y_train, y[order])
    classifier = CoupledClassifier(8, n_dictionaries=1, max_iter=2, random_state=0)
    first, second = np.arange(60), np.arange(60, 120)
    found = cross_val_predict(classifier, Views(views), y, cv=[(first, second), (second, first)])
    expected = classifier.fit([view[first] for view in views], y[first]).predict([view[second] for view in views])
    np.testing.assert_array_equal(found[second], expected)


# Pipelines


def test_each_view_is_scaled_by_itself(views):
    scaled = EachView(StandardScaler()).fit([views[0], 1000 * views[1] + 7])
    found = scaled.transform([views[0], 1000 * views[1] + 7])
    for own, view in zip(found, views, strict=True):
        np.testing.assert_allclose(own, StandardScaler().fit_transform(view), rtol=1e-6, atol=1e-9)
    back = scaled.inverse_transform(found)
    np.testing.assert_allclose(back.views[1], 1000 * views[1] + 7)
    assert scaled.transform([None, views[1]]).views[0] is None
    assert scaled.get_feature_names_out()[[0, 4]].tolist() == ["view0__x0", "view1__x0"]
    mixed = EachView([None, StandardScaler()]).fit(views)
    assert mixed.transform(views).views[0] is views[0]
    with pytest.raises(ValueError, match="Expected 2 transformers, one per view, got 1"):
        EachView([StandardScaler()]).fit(views)
    with pytest.raises(ValueError, match=r"Expected 2 views in X .*got 1"):
        scaled.transform([views[0]])
    with pytest.raises(ValueError, match=r"None for X\[1\]"):
        EachView(StandardScaler()).fit([views[0], None])


def test_a_search_over_a_pipeline_of_views(views):
    pipeline = make_pipeline(EachView(StandardScaler()), make())
    grid = {"eachview__transformer__with_std": [True, False], "coupleddictionarylearning__n_nonzero_coefs": [1, 3]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(Views(views))
    assert search.best_params_["coupleddictionarylearning__n_nonzero_coefs"] == 3
    best = search.best_estimator_
    assert best.predict([views[0], None], view=1).shape == (120, 9)
    assert best.get_feature_names_out()[-1] == "coupleddictionarylearning11"


def test_codes_beside_features_and_columns(views):
    y = views[1] @ np.arange(9.0)
    union = FeatureUnion([("codes", make()), ("features", EachView(StandardScaler()))])
    joined = union.fit_transform(Views(views))
    np.testing.assert_array_equal(joined.toarray()[:, :12], make().fit_transform(views).toarray())
    model = make_pipeline(FunctionTransformer(Views.split, kw_args={"widths": [4, 9]}), union, Ridge()).fit(
        np.hstack(views), y
    )
    assert model.score(np.hstack(views), y) > 0.9
    table = pd.DataFrame(np.hstack(views), columns=[f"f{i}" for i in range(13)])
    columns = ColumnTransformer(
        [
            ("left", DictionaryLearning(6, max_iter=2, sparse_output=False, random_state=0), table.columns[:4]),
            ("right", SparseCoder(np.eye(9), n_nonzero_coefs=2, sparse_output=False), table.columns[4:]),
        ]
    ).set_output(transform="pandas")
    found = columns.fit_transform(table)
    assert found.columns[[0, 6]].tolist() == ["left__dictionarylearning0", "right__sparsecoder0"]
    digits, labels = load_digits(return_X_y=True)
    chain = make_pipeline(DictionaryLearning(32, n_nonzero_coefs=4, random_state=0), LogisticRegression(max_iter=2000))
    assert cross_validate(chain, digits[:600] / 16, labels[:600], cv=2)["test_score"].min() > 0.7


# Tables


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_codes_as_tables(views, frames, library):
    names = [f"coupleddictionarylearning{t}" for t in range(12)]
    learner = make(sparse_output=False).set_output(transform=library)
    codes = make().fit(views).transform(views).toarray()
    for given in (views, frames, Views(frames)):
        found = learner.fit_transform(given)
        assert list(found.columns) == names
        np.testing.assert_array_equal(found.to_numpy(), codes)
        if library == "pandas":
            assert isinstance(found, pd.DataFrame)
            expected = range(120) if given is views else frames[0].index
            assert found.index.tolist() == list(expected)
        else:
            assert isinstance(found, pl.DataFrame)
    assert clone(learner).fit(views).transform(views).shape == (120, 12)
    with sklearn.config_context(transform_output=library):
        assert list(make(sparse_output=False).fit(views).transform(X=views).columns) == names
    for other in (OnlineDictionaryLearning(6, sparse_output=False), DictionaryLearning(6, sparse_output=False)):
        given = views[0] if isinstance(other, DictionaryLearning) else views
        found = other.set_output(transform=library).set_params(random_state=0, max_iter=2).fit_transform(given)
        assert list(found.columns) == [f"{type(other).__name__.lower()}{t}" for t in range(6)]
    coder = SparseCoder(learner.components_, sparse_output=False).set_output(transform=library).fit(frames)
    assert list(coder.transform(frames).columns)[:1] == ["sparsecoder0"]
    pipeline = make_pipeline(EachView(StandardScaler()), make(sparse_output=False)).set_output(transform=library)
    pipeline.fit(frames)
    assert pipeline[-1].view_feature_names_in_[1].tolist() == frames[1].columns.tolist()


def test_what_is_no_table(views, tmp_path):
    learner = make().fit(views).set_output(transform="pandas")
    for own, given in ((learner, views), (DictionaryLearning(6, max_iter=1).fit(views[0]), views[0])):
        own.set_output(transform="pandas")
        with pytest.raises(ValueError, match=r"outputs a scipy sparse matrix.*\(sparse_output=False\)"):
            own.transform(given)
        codes = own.transform(given, out=tmp_path / f"{type(own).__name__}.codes")
        assert isinstance(codes, coupledict.CodeFile)
    support = make(coupling="support", sparse_output=False).fit(views)
    assert [type(table) for table in support.transform(views)] == [np.ndarray] * 2
    with pytest.raises(ValueError, match="each view has codes of its own, not one table: there is no pandas output"):
        support.set_output(transform="pandas").transform(views)
    assert learner.set_output(transform=None).set_output(transform="default").transform(views).shape == (120, 12)
    with pytest.raises(ValueError, match="'default', 'pandas' or 'polars', got 'arrow'"):
        learner.set_output(transform="arrow").transform(views)


@pytest.mark.parametrize("library", [pd.DataFrame, lambda frame: pl.DataFrame(frame.to_dict(orient="list"))])
def test_names_are_kept_and_checked(views, frames, library):
    tables = [library(frame) for frame in frames]
    other = library(frames[1].rename(columns={"b0": "new"}))
    y = np.arange(120) % 2
    fitted = [
        make().fit(tables),
        OnlineDictionaryLearning(6, max_iter=2, random_state=0).fit(tables),
        SparseCoder([np.eye(4), np.eye(4, 9)]).fit(tables),
        CoupledClassifier(8, n_dictionaries=1, max_iter=1, random_state=0).fit(tables, y),
        CrossModalMatcher(8, n_dictionaries=1, max_iter=1, random_state=0).fit(tables),
    ]
    uses = [model.transform for model in fitted[:3]] + [fitted[3].predict, fitted[4].score]
    for model, use in zip(fitted, uses, strict=True):
        assert [names.tolist() for names in model.view_feature_names_in_] == [list(frame) for frame in frames]
        use(tables)
        with pytest.raises(ValueError, match=r"should match those that were passed during fit(.|\n)*- new"):
            use([tables[0], other])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            use([tables[0], views[1]])
    np.testing.assert_array_equal(fitted[0].components_[0], make().fit(views).components_[0])
    assert fitted[0].transform([None, tables[1]]).shape == (120, 12)
    with pytest.raises(ValueError, match=r"^X\[1\]: The feature names"):
        fitted[0].partial_fit([tables[0], other])
    assert make().fit([views[0], tables[1]]).view_feature_names_in_[0] is None
    assert not hasattr(fitted[0].fit(views), "view_feature_names_in_")


def test_numbers_of_every_kind(views):
    whole = np.rint(10 * views[0]).astype(np.int64)
    flags = views[1] > 0
    tables = {
        "pandas": (pd.DataFrame(whole), pd.DataFrame(flags)),
        "nullable": (pd.DataFrame(whole).astype("Int64"), pd.DataFrame(flags).astype("boolean")),
        "mixed": (
            pd.DataFrame(whole).astype({0: "Float64", 1: "Int32", 2: "int8"}),
            pd.DataFrame(flags).astype({0: "int16"}),
        ),
        "polars": (pl.DataFrame(whole), pl.DataFrame(flags)),
    }
    expected = make().fit([whole, flags])
    for kind, given in tables.items():
        np.testing.assert_array_equal(make().fit(list(given)).components_[1], expected.components_[1], err_msg=kind)
    small = pd.DataFrame(flags).astype({0: "Float32", 1: "int8"})  # nothing that float32 could not hold
    assert make().fit([small, small]).components_[0].dtype == np.float32
    alone = DictionaryLearning(6, max_iter=2, random_state=0)
    components = clone(alone).fit(whole).components_
    for table in (tables["nullable"][0], tables["polars"][0]):
        np.testing.assert_array_equal(alone.fit(table).components_, components)


@pytest.mark.parametrize("missing", [pd.DataFrame({"a": pd.array([1, None], "Int64")}), pl.DataFrame({"a": [1, None]})])
def test_nullable_columns_say_by_themselves_what_is_missing(missing):
    learner = make(predictor="dictionary").fit([missing, np.ones((2, 3))])
    assert all(np.isfinite(atoms).all() for atoms in learner.components_)
    with pytest.raises(ValueError, match="NaN"):
        make(predictor="dictionary").fit([pd.DataFrame({"a": [1.0, np.nan]}), np.ones((2, 3))])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]}),
        pd.DataFrame({"size": [1.0, 2.0], "colour": pd.Categorical(["red", "blue"])}),
        pd.DataFrame({"size": [1.0, 2.0], "colour": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
        pl.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]}),
    ],
)
def test_columns_that_are_no_numbers_are_named(table):
    message = "to hold real numbers, got column 'colour' of dtype"
    with pytest.raises(TypeError, match=rf"columns of X\[1\] {message}"):
        make().fit([np.ones((2, 3)), table])
    for model in (DictionaryLearning(), CoupledClassifier(), SparseRepresentationClassifier()):
        with pytest.raises(TypeError, match=f"columns of X {message}"):
            model.fit(table, [0, 1])
    with pytest.raises(TypeError, match=message):
        CrossModalMatcher().fit([table, table])


# What scikit-learn asks of an estimator


ESTIMATORS = [
    make(),
    OnlineDictionaryLearning(6, max_iter=2, random_state=0),
    CoupledClassifier(8, n_dictionaries=1, max_iter=1, random_state=0),
    CrossModalMatcher(8, n_dictionaries=1, max_iter=1, random_state=0),
    EachView(StandardScaler()),
]


def use(model, views):
    if isinstance(model, EachView):
        return np.asarray(model.transform(views))
    if isinstance(model, CrossModalMatcher):
        return model.similarity(*views)
    return model.decision_function(views) if hasattr(model, "decision_function") else model.transform(views).toarray()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_clones_copies_and_pickles(estimator, views):
    y = np.arange(120) % 2
    model = clone(estimator)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    model.fit(views, y)
    check_is_fitted(model)
    assert model.n_features_in_ == [4, 9]
    expected = use(model, views)
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model).fit(views, y)):
        np.testing.assert_array_equal(use(same, views), expected)
    assert type(clone(model)).__name__ in repr(clone(model))
    name = next(iter(model.get_params()))
    assert model.set_params(**{name: model.get_params()[name]}) is model
    kind = "classifier" if isinstance(model, CoupledClassifier) else None
    assert model.__sklearn_tags__().estimator_type == kind


def test_metadata_is_routed_as_before(views):
    with sklearn.config_context(enable_metadata_routing=True):
        learner = make().set_predict_request(view=True)
        pipeline = make_pipeline(EachView(StandardScaler()), learner).fit(Views(views))
        assert pipeline.predict(Views(views), view=1).shape == (120, 9)
        assert (
            GridSearchCV(make(predictor="ridge"), {"n_nonzero_coefs": [1, 2]}, cv=2).fit(Views(views)).best_score_ > 0.5
        )
        refused = make_pipeline(EachView(StandardScaler()), make()).fit(Views(views))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="view"):
            refused.predict(Views(views), view=1)


# Notebooks


def sources(html):
    return [base64.b64decode(text) for text in re.findall(r'src="data:image/[a-z+]+;base64,([^"]+)"', html)]


def page(model):
    html = model._repr_html_()
    bundle = model._repr_mimebundle_()
    assert len(sources(bundle["text/html"])) == len(sources(html))
    assert bundle["text/plain"] == repr(model)
    return html


def test_atoms_are_pixels_of_the_picture(rng):
    from PIL import Image

    atoms = rng.standard_normal((5, 16))
    html = page(SparseCoder(atoms))
    assert "dictionary: 5 atoms of 16 features" in html
    (png,) = sources(html)
    picture = Image.open(io.BytesIO(png))
    picture.load()
    assert (picture.size, picture.mode, picture.info["transparency"]) == ((15, 10), "L", 255)
    pixels = np.asarray(picture)
    for t, atom in enumerate(atoms):
        top, left = 5 * (t // 3) + 1, 5 * (t % 3) + 1
        levels = 127 + 127 * atom.reshape(4, 4) / np.abs(atom).max()
        np.testing.assert_allclose(pixels[top : top + 4, left : left + 4], levels, atol=0.51)
    assert (pixels[::5] == 255).all()
    colour = Image.open(io.BytesIO(sources(page(SparseCoder(rng.standard_normal((4, 27)))))[0]))
    assert (colour.size, colour.mode) == ((8, 8), "RGB")


def test_pictures_are_small_and_only_there_after_the_fit(rng, views):
    assert not sources(page(make()))
    html = page(make().fit(views))  # 4 features are no patch worth the name, 9 are one
    assert [source[:4] for source in sources(html)] == [b"<svg", b"\x89PNG"]
    assert "view 0: 12 atoms of 4 features" in html
    digits, y = load_digits(return_X_y=True)
    for model in (
        CoupledClassifier(64, n_dictionaries=1, max_iter=1, random_state=0),
        SparseRepresentationClassifier(),
    ):
        assert len(sources(page(model.fit(digits[:200], y[:200])))) == 1
    noise = [rng.standard_normal((300, width)) for width in (3 * 64**2, 64**2, 5000, 1, 2, 1, 1)]
    html = page(SparseCoder(noise))
    assert len(sources(html)) == display.MOST_VIEWS
    assert "and 1 more" in html
    assert len("".join(re.findall('<div class="coupledict-atoms".*', html, re.DOTALL))) < 100_000


def test_the_page_says_how_well_views_predict_each_other(views):
    learner = make().fit({"a<": views[0], "b": views[1]})
    html = page(learner)
    first = learner.prediction_scores_[0]
    assert f"b from a&lt;: R^2 {first['r2']:.2f} on 120 samples held out (ridge {first['ridge_r2']:.2f}); " in html
    assert "a&lt; from b: R^2" in html
    assert "held out" not in page(make(predictor="dictionary").fit(views))
    assert display.lines_below([]) == ""
    assert "line 11<br>and 3 more" in display.lines_below([f"line {k}" for k in range(15)])


def test_verbose_says_how_well_views_predict_each_other(views, capsys):
    learner = make(verbose=1).fit(views)
    lines = [line for line in capsys.readouterr().out.splitlines() if "held out" in line]
    assert len(lines) == len(learner.prediction_scores_) == 2
    score = learner.prediction_scores_[0]
    used = [(share, name) for name, share in score["shares"].items() if share > 0]
    shares = ", ".join(f"{name} {share:.2f}" for share, name in sorted(used, reverse=True))
    assert lines[0] == (
        f"CoupledDictionaryLearning: view 1 from view 0: R^2 {score['r2']:.2f} on 120 samples held out"
        f" (ridge {score['ridge_r2']:.2f}); {shares}"
    )
    with pytest.warns(PredictionWarning, match="Too few samples"):
        make(verbose=1, n_components=2).fit([view[:8] for view in views])
    assert "view 1 from view 0: ridge regression, with too few samples to judge it by" in capsys.readouterr().out


def test_a_picture_that_fails_leaves_the_diagram(views):
    learner = make().fit(views)
    learner.components_ = ["broken"]
    assert "CoupledDictionaryLearning" in page(learner)
    assert not sources(page(learner))
    assert not sources(page(SparseCoder([[np.nan, 1.0]])))
    assert "<script>" not in display.picture([("<script>", np.eye(9))])
    with sklearn.config_context(display="text"):
        assert not hasattr(learner, "_repr_html_")
        assert "text/html" not in learner._repr_mimebundle_()


# Names in files


def test_names_of_views_travel_with_the_model(tmp_path, rng):
    frames = [
        pd.DataFrame(rng.standard_normal((60, p)), columns=[f"{v}{i}" for i in range(p)])
        for v, p in (("a", 4), ("b", 5))
    ]
    y = rng.integers(0, 2, 60)
    learner = make(predictor="dictionary")
    swapped = frames[0][list(frames[0].columns[::-1])]
    path = tmp_path / "model.safetensors"
    for model, use in [
        (learner.fit([frames[0], frames[1].to_numpy()]), lambda same: same.transform([swapped, None])),
        (CoupledClassifier(random_state=0).fit(frames, y), lambda same: same.predict([swapped, None])),
        (CrossModalMatcher(random_state=0).fit(frames), lambda same: same.predict([swapped, None], view=1)),
    ]:
        model.save(path)
        same = coupledict.load(path)
        for own, other in zip(model.view_feature_names_in_, same.view_feature_names_in_, strict=True):
            np.testing.assert_array_equal(own, other)
        with pytest.raises(ValueError, match="feature names"):
            use(same)


@pytest.mark.parametrize("lie", [5, [["a"]], [["a"], None], [None, ["a", "b", "c", "d", 5]], [None, None, None]])
def test_names_that_lie_are_refused(tmp_path, rng, lie):
    path = tmp_path / "model.safetensors"
    views = [rng.standard_normal((60, p)) for p in (4, 5)]
    make(predictor="dictionary").fit(views).save(path)
    tensors, metadata = read_model(path)
    write_model(path, tensors, metadata | {"view_feature_names_in": lie})
    with pytest.raises(ModelFileError, match="feature names do not fit"):
        coupledict.load(path)
