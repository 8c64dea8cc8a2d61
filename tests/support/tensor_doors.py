"""Arrays of other libraries for tests, and all the doors by which arrays come in.

An exporter of our own has DLPack's two methods and nothing else, so that these tests need no other library. Each door
is a function that gets `t`, which makes a tensor of an array, and returns what came out; with a `t` that returns the
array itself it must return the same bits.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

import coupledict
from coupledict import (
    CoupledDictionaryLearning,
    DictionaryLearning,
    OnlineDictionaryLearning,
    SparseCoder,
    lasso_gaps,
    sparse_encode,
)
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.datasets import match_atoms, recovery_score
from coupledict.matching import CrossModalMatcher, mean_average_precision, partner_ranks
from coupledict.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from coupledict.views import EachView, Views


class Exporter:
    """An array that can share its memory, and can do nothing else."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0), error: Exception | None = None) -> None:
        self._array, self._device, self._error = array, device, error

    def __dlpack__(self, **options: Any) -> Any:
        if self._error is not None:
            raise self._error
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class Convertible(Exporter):
    """An array that NumPy can also convert, as it always could."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype)


RNG = np.random.default_rng(0)
SOURCES = RNG.standard_normal((80, 5)) * (RNG.random((80, 5)) < 0.5) + 0.01 * RNG.standard_normal((80, 5))
U, L = SOURCES @ RNG.standard_normal((5, 6)), SOURCES @ RNG.standard_normal((5, 9))
Y = np.arange(80) % 2
APART = U + 3 * Y[:, None]
D, E = RNG.standard_normal((12, 6)), RNG.standard_normal((12, 9))
GAPS = np.where(RNG.random(U.shape) < 0.1, np.nan, U)
ATOMS = RNG.standard_normal((6, 9))
GREY = RNG.integers(0, 256, (48, 40), np.uint8)
COLOUR = RNG.integers(20, 250, (48, 40, 3), np.uint8)
SOUND = 0.1 * RNG.standard_normal(16_000).astype(np.float32)

Make = Callable[[np.ndarray], Any]
DOORS: dict[str, Callable[[Make], Any]] = {}


def door(function: Callable[[Make], Any]) -> Callable[[Make], Any]:
    """Add a door to the table."""
    DOORS[function.__name__] = function
    return function


def coupled(**options: Any) -> CoupledDictionaryLearning:
    return CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=3, random_state=0, **options)


@door
def encode(t: Make) -> Any:
    return [
        sparse_encode(t(U), t(D), n_nonzero_coefs=2),
        sparse_encode(t(U.astype(np.float32)), t(D.astype(np.float32)), n_nonzero_coefs=2),
        sparse_encode(t(U.astype(np.float16)), t(D.astype(np.float32)), n_nonzero_coefs=2),
        sparse_encode([t(row) for row in U], t(D), n_nonzero_coefs=2),
        sparse_encode([t(U), t(L)], [t(D), t(E)], n_nonzero_coefs=2, view_weights=t(np.array([1.0, 0.5]))),
        sparse_encode([t(U), None], (t(D), t(E)), n_nonzero_coefs=2),
        sparse_encode({"a": t(U), "b": t(L)}, {"a": t(D), "b": t(E)}, n_nonzero_coefs=2),
        sparse_encode(t(GAPS), t(D), n_nonzero_coefs=2, missing="nan"),
        sparse_encode(t(U.T).T if hasattr(t(U), "T") else t(U.T.T), t(D), n_nonzero_coefs=2),
    ]


@door
def gaps_of_the_lasso(t: Make) -> Any:
    codes = sparse_encode(U, D, pursuit="lasso", alpha=0.5).toarray()
    return lasso_gaps(t(U), t(D), t(codes), alpha=0.5)


@door
def coder(t: Make) -> Any:
    one, two = SparseCoder(t(D), n_nonzero_coefs=2), SparseCoder([t(D), t(E)], n_nonzero_coefs=2, sparse_output=False)
    codes = one.fit_transform(t(U))
    both = two.fit([t(U), t(L)]).transform([t(U), None])
    return [codes, both, one.inverse_transform(t(codes.toarray())), two.inverse_transform(t(both)), one.n_features_in_]


@door
def coupled_learner(t: Make) -> Any:
    learner = coupled(view_weights=t(np.array([1.0, 2.0])), init=[t(D[:8]), t(E[:8])]).fit([t(U), t(L)])
    named = coupled().fit({"a": t(U), "b": t(L)})
    holes = coupled(missing="nan")
    codes = holes.fit_transform([t(GAPS), t(L)])
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "model")
        loaded = coupledict.load(Path(folder) / "model")
    return [
        list(learner.components_),
        learner.transform([t(U), None]),
        learner.predict([t(U), None], view=1),
        learner.score([t(U), t(L)]),
        list(learner.inverse_transform(t(learner.transform([t(U), t(L)]).toarray()))),
        named.predict({"a": t(U)}, view="b"),
        named.view_names_in_,
        codes,
        list(holes.impute([t(GAPS), None])),
        list(coupled().partial_fit([t(U), t(L)]).components_),
        list(loaded.components_),
        loaded.view_weights,
    ]


@door
def single_learner(t: Make) -> Any:
    options: dict[str, Any] = {"n_nonzero_coefs": 2, "max_iter": 3, "random_state": 0}
    learner = DictionaryLearning(8, **options).fit(t(U))
    return [
        learner.components_,
        learner.transform(t(U)),
        learner.inverse_transform(t(learner.transform(t(U)).toarray())),
        DictionaryLearning(8, init=t(D[:8]), **options).fit(t(U)).components_,
        DictionaryLearning(8, **options).fit([t(U[:40]), t(U[40:])]).components_,
        DictionaryLearning(8, **options).fit(lambda: iter([t(U[:40]), t(U[40:])])).components_,
        DictionaryLearning(8, **options).fit_transform(t(U.astype(np.float32))),
        DictionaryLearning(8, missing="nan", **options).fit(t(GAPS)).impute(t(GAPS)),
        DictionaryLearning(8, **options).partial_fit(t(U)).components_,
    ]


@door
def chunks_of_views(t: Make) -> Any:
    chunks = [[t(U[:40]), t(L[:40])], [t(U[40:]), t(L[40:])]]
    learner = coupled().fit(chunks)
    return [list(learner.components_), learner.transform(lambda: iter(chunks))]


@door
def online_learner(t: Make) -> Any:
    learner = OnlineDictionaryLearning(8, n_nonzero_coefs=2, random_state=0)
    for rows in (slice(40), slice(40, 80)):
        learner.partial_fit([t(U[rows]), t(L[rows])])
    return [list(learner.components_), learner.transform([t(U), t(L)])]


@door
def helpers_of_views(t: Make) -> Any:
    from sklearn.preprocessing import StandardScaler

    views = Views({"a": t(U), "b": t(L)})
    scaled = EachView(StandardScaler()).fit(views, t(Y)).transform([t(U), t(L)])
    return [views[10:20].views, views.shape, np.asarray(views), Views.split(t(U), [2, 4]).views, scaled.views]


@door
def selection(t: Make) -> Any:
    train, test, left, right = train_test_split([t(U), t(L)], t(Y), stratify=t(Y), random_state=0)
    search = GridSearchCV(coupled(), {"n_nonzero_coefs": [1, 2]}, cv=2).fit([t(U), t(L)])
    classifier = SparseRepresentationClassifier(n_nonzero_coefs=2)
    return [
        train,
        test,
        left,
        right,
        train_test_split(t(U), random_state=0),
        cross_val_score(coupled(), {"a": t(U), "b": t(L)}, cv=2),
        cross_val_predict(classifier, t(APART), t(Y), cv=2, params={"sample_weight": t(1.0 + Y)}),
        search.best_params_["n_nonzero_coefs"],
        search.predict([t(U), None], view=1),
    ]


@door
def classifiers(t: Make) -> Any:
    one = CoupledClassifier(8, random_state=0).fit(t(APART), t(Y), sample_weight=t(1.0 + Y))
    two = CoupledClassifier(8, random_state=0).fit([t(APART), t(L)], [t(np.array(label)) for label in Y])
    other = SparseRepresentationClassifier(n_nonzero_coefs=2).fit(t(APART), t(Y))
    return [
        one.predict(t(APART)),
        one.predict_proba(t(APART)),
        one.score(t(APART), t(Y), t(1.0 + Y)),
        one.classes_,
        two.predict([t(APART), None]),
        other.predict(t(APART)),
        other.decision_function(t(APART)),
        other.score(t(APART), t(Y)),
    ]


@door
def matcher(t: Make) -> Any:
    pairs = CrossModalMatcher(n_dictionaries=1, random_state=0).fit([t(U), t(L)])
    labelled = CrossModalMatcher(n_dictionaries=1, random_state=0).fit({"a": t(APART), "b": t(L)}, t(Y))
    table = pairs.similarity(t(U[:9]), t(L[:7]))
    return [
        table,
        pairs.match(t(U[:9]), t(L), n_matches=3),
        pairs.index(t(L)).match(t(U[:9]), n_matches=3),
        pairs.predict([t(U), None], view=1),
        pairs.score([t(U), t(L)], partners=t(np.arange(80))),
        labelled.classes_,
        labelled.score({"a": t(APART), "b": t(L)}, t(Y)),
        partner_ranks(t(table[:7]), t(np.arange(7))),
        mean_average_precision(t(table), t(Y[:9]), t(Y[:7])),
    ]


@door
def atoms_found(t: Make) -> Any:
    return [list(match_atoms(t(D), t(D[::-1].copy()))), recovery_score([t(D), t(E)], {"a": t(D), "b": t(E)})]


@door
def plots(t: Make) -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from coupledict.plotting import plot_atom_use, plot_atoms, plot_pairs

    atoms = ATOMS
    drawn = plot_atoms(t(atoms), order=t(np.arange(4)))
    pair = plot_pairs([t(atoms), t(atoms)])
    used = [plot_atom_use(t(np.array([3, 0, 5]))).texts[0], plot_atom_use(t(atoms)).texts[0]]
    found = [np.asarray(drawn.images[0].get_array()), np.asarray(np.ravel(pair)[0].images[0].get_array())]
    plt.close("all")
    return [*found, *(text.get_text() for text in used)]


@door
def patches(t: Make) -> Any:
    from coupledict.images import assemble_patches, extract_patches

    found, places = extract_patches(t(COLOUR), 8, stride=4, return_positions=True)
    whole = assemble_patches(
        t(found), COLOUR.shape, stride=4, positions=t(places), weights=t(np.ones(found.shape, np.float32))
    )
    return [found, places, whole, extract_patches(t(GREY), 8, mask=t(GREY > 0), max_patches=5, random_state=0)]


@door
def pictures(t: Make) -> Any:
    from coupledict.images import Inpainting, StainSeparator, SuperResolution, imresize, metrics

    separator = StainSeparator(random_state=0).fit(t(COLOUR))
    hidden = np.random.default_rng(1).random(GREY.shape) < 0.1
    return [
        imresize(t(COLOUR), 0.5),
        imresize(t(GREY.astype(np.float32)), 0.5),
        metrics.psnr(t(GREY), t(GREY[::-1].copy())),
        metrics.q_abf(t(GREY), t(GREY), t(GREY)),
        separator.stain_matrix_,
        separator.transform(t(COLOUR)),
        separator.inverse_transform(t(separator.transform(COLOUR))),
        Inpainting(max_iter=2, random_state=0).fill(t(GREY), t(hidden)),
        SuperResolution.pretrained(2).upscale(t(COLOUR[:24, :20])),
        SuperResolution.find_degradation(t(GREY)),
    ]


@door
def fusion(t: Make) -> Any:
    from coupledict.images import MultiFocusFusion

    soft = GREY // 2 + 60
    near = np.arange(GREY.shape[1]) < 20
    stack = [np.where(near, GREY, soft), np.where(near, soft, GREY)]
    fused = MultiFocusFusion().fuse([t(picture) for picture in stack])
    return [fused.image, fused.decision, MultiFocusFusion().fuse(t(np.stack(stack))).image]


@door
def sounds(t: Make) -> Any:
    from coupledict.audio import (
        BandwidthExtension,
        log_spectral_distance,
        measure_band,
        narrow_band,
        telephone_band,
    )

    return [
        narrow_band(t(SOUND)),
        telephone_band(t(SOUND)),
        measure_band(t(SOUND), 16_000),
        log_spectral_distance(t(SOUND), t(SOUND[::-1].copy())),
        BandwidthExtension.pretrained().extend(t(SOUND[:8000])),
    ]


def plain(found: Any) -> Any:
    """Return what came out as lists, numbers, strings and bytes; raise for anything that is not NumPy's or SciPy's."""
    if isinstance(found, np.ndarray | np.generic):
        return type(found).__name__, str(found.dtype), found.shape, found.tobytes()
    if issparse(found):
        return type(found).__name__, [plain(part) for part in (found.data, found.indices, found.indptr)]
    if dataclasses.is_dataclass(found):
        return plain(dataclasses.asdict(found))
    if isinstance(found, Mapping):
        return {name: plain(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [plain(entry) for entry in found]
    if found is None or isinstance(found, bool | int | float | str):
        return found
    raise TypeError(f"Expected arrays of NumPy and SciPy, got {type(found).__module__}.{type(found).__name__}.")
