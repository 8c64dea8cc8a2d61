"""A small model of every kind that has a file, how each is opened and used, and forgeries with a valid checksum."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import coupledict
from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning
from coupledict.audio import BandwidthExtension
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.files import models
from coupledict.files.state import plain_parameters
from coupledict.foundation.progress import Meter
from coupledict.images import MultiFocusFusion, StainSeparator, SuperResolution, _sr_restoration
from coupledict.learning.checkpoint import read_checkpoint
from coupledict.matching import CrossModalMatcher

N_SAMPLES = 40
WIDTHS = (4, 5)


@dataclass(frozen=True)
class Kind:
    """A kind of file: one that is right, how it is opened, and what is done with what it holds.

    `use` returns arrays, all of which are to be finite. `model` is what was saved, for files of models as they are.
    """

    name: str
    path: Path
    open: Callable[[Path], Any]
    use: Callable[[Any], Iterable[Any]]
    model: Any = None


def views(n_samples: int = N_SAMPLES) -> list[Any]:
    """Return samples that two views explain together."""
    rng = np.random.default_rng(0)
    sources = rng.standard_normal((n_samples, 6)) * (rng.random((n_samples, 6)) < 0.4)
    return [sources @ rng.standard_normal((6, width)) for width in WIDTHS]


def labels() -> Any:
    """Return a label for each sample."""
    return np.where(views()[0][:, 0] > 0, "yes", "no")


def header_length(contents: bytes) -> int:
    """Return where the tensors of a safetensors file begin."""
    return 8 + int.from_bytes(contents[:8], "little")


def forge(tensors: Mapping[str, Any], metadata: Mapping[str, Any] | str, version: str = models.FORMAT_VERSION) -> bytes:
    """Return a model file of any arrays and any metadata, or their text, with the checksum of an honest one."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    marks = {
        "format": models.FORMAT,
        "format_version": version,
        "metadata": text,
        "checksum": models._checksum(tensors, text),
    }
    parts = [bytes(models._contents(array)) for _, array in models._layout(tensors)]
    return models._header(tensors, marks) + b"".join(parts)


def _learner(**parameters: Any) -> CoupledDictionaryLearning:
    return CoupledDictionaryLearning(
        **{"n_components": 6, "n_nonzero_coefs": 2, "max_iter": 2, "random_state": 0} | parameters
    )


def _use_learner(model: Any) -> Iterable[Any]:
    Xs = views(8)
    given: Any = Xs[0] if isinstance(model, DictionaryLearning) else Xs
    codes = model.transform(given)
    yield from (
        part.toarray() if hasattr(part, "toarray") else part for part in (codes if isinstance(codes, list) else [codes])
    )
    yield np.asarray(model.score(given))
    if isinstance(model, CoupledDictionaryLearning | OnlineDictionaryLearning) and model.coupling == "code":
        yield model.predict([Xs[0], None], view=1)
    if model.max_iter <= 100:
        yield from (array for array in np.atleast_1d(model.partial_fit(given).components_[0]))


def _resume(path: Path) -> Any:
    """Take up a fit; what `resume` says of samples and parameters that are not those of the file is right as well."""
    learner = _learner(max_iter=3)
    read_checkpoint(path, type(learner).__name__, plain_parameters(learner))
    return learner.fit(views(), resume=path)


def _use_codes(codes: Any) -> Iterable[Any]:
    yield codes.load().data


def _use_image(model: SuperResolution) -> Iterable[Any]:
    yield model.set_params(verbose=0).upscale(np.random.default_rng(0).random((12, 11), np.float32))


def _restoration() -> _sr_restoration.Restoration:
    """Return a small restoration: one level of noise, and two of JPEG."""
    rng = np.random.default_rng(3)
    window, side = _sr_restoration.GEOMETRY.window, _sr_restoration.GEOMETRY.side
    kinds = []
    for n_levels in (1, 2):
        sizes = (n_levels, 2, 3)
        strengths, edges = np.linspace(2, 5, n_levels), np.full((n_levels, 1), 40.0)
        components, maps = (rng.standard_normal((*sizes, window**2, *more)) / window for more in ((), (side**2,)))
        kinds.append(_sr_restoration.Levels(*(a.astype(np.float32) for a in (strengths, edges, components, maps))))
    return _sr_restoration.Restoration(*kinds)


def _use_restoration(model: _sr_restoration.Restoration) -> Iterable[Any]:
    plane = np.random.default_rng(0).random((12, 11), np.float32)
    for kind in _sr_restoration.KINDS:
        yield model.restore(plane, kind, 3.0, unit=1 / 255, n_jobs=1, meter=Meter(None, "restoring", plane.size))


def _use_sound(model: BandwidthExtension) -> Iterable[Any]:
    yield model.set_params(verbose=0).extend(np.random.default_rng(0).standard_normal(900))


def _use_fusion(model: MultiFocusFusion) -> Iterable[Any]:
    images = np.random.default_rng(0).integers(0, 255, (2, 20, 24), np.uint8)
    fused = model.fuse(list(images))
    yield from (fused.image, fused.decision, fused.depth)


def _use_stains(model: StainSeparator) -> Iterable[Any]:
    tile = _tile()[:9, :7]
    densities = model.set_params(verbose=0).transform(tile)
    yield densities
    yield model.inverse_transform(densities, dtype=np.float32)
    yield model.normalize(tile, source=model)


def _tile() -> Any:
    """Return a picture of two stains."""
    densities = np.random.default_rng(2).exponential(0.6, (30, 20, 2))
    return np.rint(255 * np.exp(-densities @ [[0.65, 0.70, 0.29], [0.21, 0.95, 0.22]])).astype(np.uint8)


def _use_classifier(model: CoupledClassifier) -> Iterable[Any]:
    yield model.decision_function(views(8))
    yield model.predict_proba(views(8))
    assert set(model.predict(views(8))) <= set(model.classes_)


def _use_representation(model: SparseRepresentationClassifier) -> Iterable[Any]:
    yield model.decision_function(views(8)[0])
    assert set(model.predict(views(8)[0])) <= set(model.classes_)


def _use_matcher(model: CrossModalMatcher) -> Iterable[Any]:
    Xs = views(8)
    yield model.set_params(verbose=0).similarity(Xs[0], Xs[1])
    yield model.predict([Xs[0], None], view=1)


def make_kinds(folder: Path) -> list[Kind]:
    """Write one file, or folder, of every kind."""
    Xs, rng = views(), np.random.default_rng(1)

    def learned(name: str, model: Any, use: Callable[[Any], Iterable[Any]], **how: Any) -> Kind:
        model._to_state(**how).write(folder / name)
        return Kind(name, folder / name, coupledict.load, use, None if how else model)

    online = OnlineDictionaryLearning(6, n_nonzero_coefs=2, max_iter=2, batch_size=20, random_state=0).fit(Xs)
    kinds = [
        learned("coupled", _learner().fit(Xs), _use_learner),
        learned(
            "coupled by support", _learner(coupling="support").fit([X.astype(np.float32) for X in Xs]), _use_learner
        ),
        learned(
            "single", DictionaryLearning(6, n_nonzero_coefs=2, max_iter=2, random_state=0).fit(Xs[0]), _use_learner
        ),
        learned("online", online.partial_fit(Xs).fit_predictors(Xs), _use_learner),
        learned("running sums", _learner().fit(Xs).partial_fit(Xs).fit_predictors(Xs), _use_learner),
        learned(
            "classifier",
            CoupledClassifier(8, n_nonzero_coefs=2, n_dictionaries=1, max_iter=2, random_state=0).fit(Xs, labels()),
            _use_classifier,
        ),
        learned(
            "representation",
            SparseRepresentationClassifier(n_components=4, n_nonzero_coefs=2).fit(Xs[0], labels()),
            _use_representation,
        ),
        learned(
            "matcher",
            CrossModalMatcher(6, n_nonzero_coefs=2, n_dictionaries=1, max_iter=2, random_state=0).fit(Xs, labels()),
            _use_matcher,
        ),
        learned(
            "fusion",
            MultiFocusFusion(8, n_nonzero_coefs=2, patch_size=4, max_samples=100, random_state=0).fit(
                list(rng.random((2, 24, 24)))
            ),
            _use_fusion,
        ),
    ]
    small = SuperResolution(
        2,
        n_components=8,
        patch_size=3,
        n_neighbors=30,
        n_detail_components=4,
        max_samples=400,
        max_iter=2,
        random_state=0,
    ).fit([rng.random((40, 40)).cumsum(axis=0) % 1])
    kinds.append(learned("super-resolution", small, _use_image))
    kinds.append(learned("half precision", small, _use_image, half=True))
    _restoration().to_state().write(folder / "restoration")
    kinds.append(Kind("restoration", folder / "restoration", _sr_restoration.read, _use_restoration))
    kinds.append(learned("stains", StainSeparator(white=1.0).fit(_tile()), _use_stains))
    widener = BandwidthExtension(
        8, n_nonzero_coefs=2, n_features=6, n_details=4, n_dictionaries=1, max_samples=400, random_state=0
    ).fit([rng.standard_normal(8000).cumsum() % 1 - 0.5])
    kinds.append(learned("bandwidth", widener, _use_sound))
    kinds.append(learned("bandwidth in half precision", widener, _use_sound, half=True))

    def stop(progress: Any) -> bool:
        return bool(progress.completed == 2)

    _learner(max_iter=3, callback=stop).fit(Xs, checkpoint=folder / "checkpoint")
    kinds.append(Kind("checkpoint", folder / "checkpoint", _resume, lambda learner: learner.components_))
    kinds.append(Kind("checkpoint as a model", folder / "checkpoint", coupledict.load, _use_learner))
    _learner().fit(Xs).transform(Xs, out=folder / "codes")
    kinds.append(Kind("codes", folder / "codes", coupledict.open_codes, _use_codes))
    _learner().fit(Xs).transform(Xs, out=folder / "codes.zarr")
    kinds.append(Kind("codes in Zarr", folder / "codes.zarr", coupledict.open_codes, _use_codes))
    return kinds
