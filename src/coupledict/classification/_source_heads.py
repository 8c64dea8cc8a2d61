"""The head of one set of source views: a weighted sum of codes, features, kernel and class residuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..files.models import JSON
from ..foundation.arrays import Array, Floats
from ._blending import MOST_INVERSE_TEMPERATURE, Shares
from ._class_residuals import ClassAtoms
from ._heads import Head
from ._kernel import KernelHead, check_landmarks
from ._label_views import Numbers
from ._scaling import Scaler

#: Parts of a decision: heads on codes, a head on features, a kernel head, and class residuals.
PARTS = ("codes", "features", "kernel", "residuals")
MOST_LANDMARK = 1e50  # landmarks as heads see them are of order 1


@dataclass(frozen=True)
class Landmarks:
    """Training samples, sorted by class, that new ones are compared with, and the scaling of features for heads.

    Attributes
    ----------
    views : list of arrays (n_landmarks, n_features_v)
        As they were given.
    classes : array of shape (n_landmarks,)
        Numbers of their classes.
    gains : dict of lists of arrays (n_features_v,)
        Factors of the centred features, by the name of the part, "features" or "kernel".
    n_nonzero_coefs : int
        Atoms of a code, for residuals.
    """

    views: list[Array]
    classes: Numbers
    gains: dict[str, list[Floats]]
    n_nonzero_coefs: int

    def features(self, part: str, scalers: list[Scaler], sources: tuple[int, ...], views: list[Array]) -> Floats:
        """Return samples with these views as a part sees them."""
        scaled = [
            (np.asarray(view, np.float64) - scalers[v].center) * self.gains[part][v]
            for v, view in zip(sources, views, strict=True)
        ]
        return np.ascontiguousarray(np.hstack(scaled))

    def inputs(self, part: str, scalers: list[Scaler], sources: tuple[int, ...]) -> Floats:
        """Return the landmarks as a part sees them, with these views only."""
        return self.features(part, scalers, sources, [self.views[v] for v in sources])

    def atoms(self, scalers: list[Scaler], sources: tuple[int, ...], n_classes: int) -> ClassAtoms:
        """Return the landmarks as atoms of their classes."""
        own = stack_coded(scalers, sources, [self.views[v] for v in sources])
        return ClassAtoms(own, self.classes, n_classes, self.n_nonzero_coefs)

    def tensors(self) -> dict[str, Array]:
        """Return all arrays, for a file."""
        found: dict[str, Array] = {f"landmarks.{v}": view for v, view in enumerate(self.views)}
        for part, gains in self.gains.items():
            found |= {f"scaling.{part}.{v}": gain for v, gain in enumerate(gains)}
        return found | {"landmark_classes": self.classes.astype(np.int64)}

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Array], scalers: list[Scaler], n_classes: int, n_nonzero_coefs: int
    ) -> Landmarks:
        """Return the landmarks whose arrays :meth:`tensors` returned."""
        n_views = len(scalers)
        views = [check_landmarks(tensors[f"landmarks.{v}"], scalers[v].n_features) for v in range(n_views)]
        classes = tensors["landmark_classes"]
        if any(view.shape[0] != classes.size or view.dtype.kind != "f" for view in views) or classes.ndim != 1:
            raise ValueError("its landmarks do not fit each other")
        if classes.dtype.kind != "i" or np.any(np.diff(classes) < 0) or classes[0] < 0 or classes[-1] >= n_classes:
            raise ValueError("the classes of its landmarks are not in order")
        gains = {part: [tensors[f"scaling.{part}.{v}"] for v in range(n_views)] for part in ("features", "kernel")}
        if any(
            gain.shape != (scaler.n_features,)
            for own in gains.values()
            for gain, scaler in zip(own, scalers, strict=True)
        ):
            raise ValueError("its scaling does not fit its features")
        landmarks = cls(views, classes.astype(np.intp), gains, n_nonzero_coefs)
        everything = tuple(range(n_views))
        with np.errstate(all="ignore"):
            for seen in (landmarks.inputs("kernel", scalers, everything), stack_coded(scalers, everything, views)):
                if not np.abs(seen).max() <= MOST_LANDMARK:
                    raise ValueError("its landmarks do not fit its scaling")
        return landmarks


def stack_coded(scalers: list[Scaler], sources: tuple[int, ...], views: list[Array]) -> Array:
    """Return the views side by side, each as it is coded."""
    return np.hstack([scalers[v].coded(view) for v, view in zip(sources, views, strict=True)])


@dataclass(frozen=True)
class SourceHead:
    """Decides about samples that have one set of source views.

    Attributes
    ----------
    inverse_temperature : float
        Probabilities are ``softmax(inverse_temperature * decisions)``.
    code_heads : list of Head
        One per dictionary, for codes; their decisions are averaged.
    features : Head or None
    kernel : KernelHead or None
    residuals : ClassAtoms or None
    shares, sizes : dict of float
        Decisions are the sum of ``share * part / size``; parts without a share are None or empty.
    """

    inverse_temperature: float
    code_heads: list[Head] = field(default_factory=list)
    features: Head | None = None
    kernel: KernelHead | None = None
    residuals: ClassAtoms | None = None
    shares: dict[str, float] = field(default_factory=lambda: {"codes": 1.0})
    sizes: dict[str, float] = field(default_factory=lambda: {"codes": 1.0})

    def factor(self, part: str) -> float:
        """Return the factor of the decisions of a part."""
        return self.shares[part] / self.sizes[part]

    def with_shares(self, found: Shares) -> SourceHead:
        """Return the head with these shares, without the parts that have none."""
        kept = set(found.shares)
        return SourceHead(
            found.inverse_temperature,
            self.code_heads if "codes" in kept else [],
            self.features if "features" in kept else None,
            self.kernel if "kernel" in kept else None,
            self.residuals if "residuals" in kept else None,
            found.shares,
            found.sizes,
        )

    def tensors_and_facts(self, name: str) -> tuple[dict[str, Array], dict[str, JSON]]:
        """Return all parts as arrays and JSON; landmarks are kept elsewhere."""
        tensors: dict[str, Array] = {}
        linear: list[tuple[str, Head]] = [(str(number), head) for number, head in enumerate(self.code_heads)]
        if self.features is not None:
            linear.append(("features", self.features))
        for key, head in linear:
            tensors |= {f"head.{name}.{key}.coef": head.coef, f"head.{name}.{key}.intercept": head.intercept}
        if self.kernel is not None:
            tensors |= self.kernel.tensors(f"head.{name}.kernel")
        alphas: list[JSON] = [head.ridge_alpha for _, head in linear]
        facts: dict[str, JSON] = {"inverse_temperature": self.inverse_temperature, "alphas": alphas}
        return tensors, facts | {"shares": dict[str, JSON](self.shares), "sizes": dict[str, JSON](self.sizes)}


def read_shares(described: Any) -> Shares:
    """Return the shares of the parts of a file, checked."""
    shares, sizes = (
        {str(name): float(value) for name, value in described[kind].items()} for kind in ("shares", "sizes")
    )
    if not shares or set(shares) != set(sizes) or not set(shares) <= set(PARTS):
        raise ValueError(f"its decisions have parts {sorted(shares)}, and sizes of {sorted(sizes)}")
    if not all(0 < share <= 1 for share in shares.values()) or not all(1e-6 < size < 1e6 for size in sizes.values()):
        raise ValueError("its decisions have parts with shares or sizes out of range")
    inverse_temperature = float(described["inverse_temperature"])
    if not 0 < inverse_temperature <= MOST_INVERSE_TEMPERATURE:
        raise ValueError(f"its probabilities have an inverse temperature of {inverse_temperature}")
    return Shares(shares, sizes, inverse_temperature)


def read_head(tensors: Mapping[str, Array], start: str, shape: tuple[int, int], ridge_alpha: Any) -> Head:
    """Return a linear head of a file, checked."""
    coef, intercept = tensors[f"{start}.coef"], tensors[f"{start}.intercept"]
    if coef.shape != shape or intercept.shape != shape[1:]:
        raise ValueError(f"its tensors {start!r} do not fit its dictionaries")
    return Head(coef, intercept, float(ridge_alpha))
