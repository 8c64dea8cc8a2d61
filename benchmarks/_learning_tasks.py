"""The problems of the learning benchmark: what to learn from, what to judge by, where to start and when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _data import Array, colour_cosine_dictionary, cosine_dictionary, random_mixtures
from scipy import ndimage

from coupledict.experiments.machine import usable_cores
from coupledict.experiments.sources import Half, distinct_patches, load_images, load_pairs

SEED = 0
THREADS = min(2, usable_cores())
PAIRS = {"pairs20k-T5": (0, 5), "pairs20k-T10": (0, 10), "pairs50k-T5": (1, 5), "pairs50k-T10": (1, 10)}
TASKS = (*PAIRS, "patches-T5", "patches-tol", "digits", "planted", "three", "colour")
SHAKEN = 9  # pixels by which the third view is blurred along its rows, as by a camera that moves


@dataclass(frozen=True)
class Sizes:
    """How many samples the problems have, and how long the learners may take."""

    pairs: tuple[int, int] = (20_000, 50_000)
    patches: int = 20_000
    held_out: int = 5_000
    planted: int = 5_000
    digits_held_out: int = 300
    iteration: int = 10_000
    identity: int = 4_000
    memory: tuple[int, int] = (200_000, 800_000)
    n_iterations: int = 30


QUICK = Sizes((1_500, 3_000), 1_500, 500, 1_000, 300, 1_000, 600, (20_000, 80_000), 6)


@dataclass(frozen=True)
class Task:
    """Views to learn from, views to judge by, a common start, and when a code is done.

    `truth` is the dictionary that made the signals, where there is one.
    """

    key: str
    title: str
    train: tuple[Array, ...]
    held_out: tuple[Array, ...]
    start: tuple[Array, ...]
    n_nonzero_coefs: int
    tol: float | None = None
    truth: Array | None = None

    @property
    def n_components(self) -> int:
        """Number of atoms."""
        return len(self.start[0])

    @property
    def threads(self) -> int:
        """Threads that a learner may use."""
        return THREADS

    @property
    def n_samples(self) -> int:
        """Number of samples to learn from."""
        return len(self.train[0])

    @property
    def measure(self) -> str:
        """What quality means here: the lower, the better."""
        return "RMS residual" if self.tol is None else "mean nonzeros"

    @property
    def heading(self) -> str:
        """Title with sizes."""
        sizes = " + ".join(str(view.shape[1]) for view in self.train)
        return f"{self.title}  ({self.n_samples:,} x {sizes}, {self.n_components} atoms)"

    def stacked(self) -> Array:
        """Return the views to learn from side by side."""
        return np.ascontiguousarray(np.hstack(self.train))

    def stacked_start(self) -> Array:
        """Return the starting dictionaries side by side, with rows of unit norm, as the peers need them."""
        return _unit(np.hstack(self.start))

    def only(self, n_samples: int) -> Task:
        """Return the same task with fewer samples to learn from, for warming up."""
        few = tuple(view[:n_samples] for view in self.train)
        return Task(self.key, self.title, few, self.held_out, self.start, self.n_nonzero_coefs, self.tol)


class Source:
    """Makes the tasks from the images of a folder, or from bundled ones, which are read once.

    `half` is the half of the images to take, if not all: see :func:`coupledict.experiments.sources.load_images`.
    """

    def __init__(self, directory: Path | None, sizes: Sizes, half: Half = "all") -> None:
        self.sizes = sizes
        self._images, images_sentence = load_images(directory, half=half)
        self._colour, colour_sentence = load_images(directory, half=half, colour=True)
        self._focused, self._blurred, pairs_sentence = load_pairs(directory, half=half)
        self.sentences = [images_sentence, colour_sentence, pairs_sentence]

    def task(self, key: str) -> Task:
        """Make the task of a case."""
        if key in PAIRS:
            size, limit = PAIRS[key]
            return self._patches(key, f"focused and blurred patches, T = {limit}", self.sizes.pairs[size], limit)
        if key == "patches-T5":
            return self._patches(key, "patches, T = 5", self.sizes.patches, 5)
        if key == "patches-tol":
            return self._patches(key, "patches, tol = 64", self.sizes.patches, 64, 64.0)
        makers = {"digits": self._digits, "planted": self._planted, "three": self._three, "colour": self._colours}
        return makers[key]()

    def one_iteration(self) -> Task:
        """Make the task on which one iteration is timed; it is judged on what it learns from."""
        (X,) = distinct_patches([self._images], self.sizes.iteration, seed=SEED)
        title = "one iteration: patches, T = 32, tol = 4"
        return Task("iteration", title, (X,), (X,), (cosine_dictionary(),), 32, 4.0)

    def many(self, n_samples: int) -> Array:
        """Cut many patches, float32."""
        return distinct_patches([self._images], n_samples, seed=SEED + 1, dtype=np.float32)[0]

    def _patches(self, key: str, title: str, n_samples: int, limit: int, tol: float | None = None) -> Task:
        sets = [self._focused, self._blurred] if key in PAIRS else [self._images]
        views = distinct_patches(sets, n_samples + self.sizes.held_out, seed=SEED)
        train, held_out = _split(views, self.sizes.held_out)
        return Task(key, title, train, held_out, (cosine_dictionary(),) * len(sets), limit, tol)

    def _three(self) -> Task:
        shaken = [ndimage.uniform_filter1d(image, SHAKEN, axis=1) for image in self._focused]
        sets = [self._focused, self._blurred, shaken]
        train, held_out = _split(
            distinct_patches(sets, self.sizes.patches + self.sizes.held_out, seed=SEED), self.sizes.held_out
        )
        return Task("three", "focused, blurred and shaken, T = 5", train, held_out, (cosine_dictionary(),) * 3, 5)

    def _colours(self) -> Task:
        views = distinct_patches([self._colour], self.sizes.patches + self.sizes.held_out, seed=SEED)
        train, held_out = _split(views, self.sizes.held_out)
        return Task("colour", "colour patches, T = 5", train, held_out, (colour_cosine_dictionary(),), 5)

    def _digits(self) -> Task:
        from sklearn.datasets import load_digits

        X = np.ascontiguousarray(load_digits().data, dtype=np.float64)
        X = np.random.default_rng(SEED).permutation(X)
        train, held_out = _split((X,), self.sizes.digits_held_out)
        mean = train[0].mean(axis=0)
        train, held_out = (train[0] - mean,), (held_out[0] - mean,)
        return Task("digits", "scikit-learn's digits, T = 5", train, held_out, _samples(train, 128), 5)

    def _planted(self) -> Task:
        X, truth = random_mixtures(
            self.sizes.planted + self.sizes.held_out, n_features=32, n_components=64, n_nonzero=3, noise=0.1, seed=SEED
        )
        train, held_out = _split((X,), self.sizes.held_out)
        return Task("planted", "planted dictionary, T = 3", train, held_out, _samples(train, 64), 3, truth=truth)


def _split(views: Sequence[Array], n_held_out: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    train = tuple(np.ascontiguousarray(view[:-n_held_out]) for view in views)
    return train, tuple(np.ascontiguousarray(view[-n_held_out:]) for view in views)


def _samples(views: Sequence[Array], n_components: int) -> tuple[Array, ...]:
    """Take samples that differ from zero as atoms: the common start where cosines mean nothing."""
    energies = sum(np.einsum("ij,ij->i", view, view) for view in views)
    rng = np.random.default_rng(SEED)
    chosen = rng.choice(np.flatnonzero(energies > 0), size=n_components, replace=False)
    return tuple(_unit(view[chosen]) for view in views)


def _unit(atoms: Array) -> Array:
    return np.ascontiguousarray(atoms / np.linalg.norm(atoms, axis=1, keepdims=True))
