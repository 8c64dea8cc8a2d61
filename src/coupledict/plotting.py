"""Pictures of dictionaries and of how they were learned, drawn with matplotlib.

Every function draws on a new figure, or where possible on given axes, and returns the axes, so that the caller can
change or save the figure. matplotlib is imported only when something is drawn; install it with
``pip install "coupledict[plot]"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from .foundation.arrays import Array
from .foundation.checks import check_count
from .foundation.drawing import describe_norms, full_scale
from .foundation.tensors import as_array, as_numpy
from .foundation.views import check_view

__all__ = ["plot_atoms", "plot_pairs", "plot_convergence", "plot_atom_use"]

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes

PatchSize: TypeAlias = int | Sequence[int]
#: One size for all views, or one per view.
PatchSizes: TypeAlias = PatchSize | Sequence[PatchSize | None] | None

SEPARATOR = (0, 63, 92)  # a dark blue, which cannot be mistaken for the edge of an atom
PATCH_PIXELS = 24  # smaller patches are enlarged to this size, so that a separator of one pixel looks thin
LEAST_INCHES, MOST_INCHES = 5.0, 10.0  # longer side of a mosaic on a new figure
WIDEST_INCHES = 14.0  # of all panels of a new figure together
PIXELS_PER_INCH = 100  # matplotlib's default: between these bounds one pixel of the mosaic is one pixel of the screen
TITLE_INCHES, NOTE_INCHES = 0.35, 0.25
LOG_SPAN = 30.0  # counts that differ by more than this factor are hard to read on a linear scale
# Okabe and Ito's colours, which colour-blind people can tell apart, without the yellow, which is hard to see on paper.
# Each has its own marker, so that curves also differ in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def plot_atoms(
    components: npt.ArrayLike,
    *,
    patch_size: PatchSize | None = None,
    order: npt.ArrayLike | None = None,
    n_columns: int | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the atoms of one dictionary as a grid of patches.

    Each atom has its own grey scale, symmetric about 0: mid-grey is 0, and its largest absolute value is black or
    white. Colour atoms are scaled in the same way, all channels together. The picture does not show the norms of the
    atoms, with one exception: an atom whose norm is below a twentieth of the root mean square norm of the dictionary is
    drawn paler in proportion. Learners give atoms of joint norm 1 unless `normalize` says otherwise; such
    an atom may nearly vanish in a view, and what is left of it there is mostly noise.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The atoms, as rows.
    patch_size : int, (height, width) or (height, width, 3), optional
        Size of an atom, an int for a square; features are in row-major order. If left out, atoms are squares: grey if
        n_features is a square number, colour if it is 3 times one.
    order : sequence of int, optional
        Numbers of the atoms to draw, row by row; if left out, all atoms in their own order.
    n_columns : int, optional
        Number of atoms in a row; if left out, such that the picture is about square.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if left out.
    title : str, optional
        Title of the axes.

    Returns
    -------
    matplotlib Axes

    See Also
    --------
    plot_pairs : The dictionaries of several views side by side.

    Examples
    --------
    >>> import numpy as np
    >>> import matplotlib.pyplot as plt
    >>> from coupledict.plotting import plot_atoms
    >>> ax = plot_atoms(np.random.default_rng(0).standard_normal((20, 64)), n_columns=5, title="noise")
    >>> len(ax.images)
    1
    >>> plt.close(ax.figure)
    """
    plt = _pyplot()
    atoms = _check_atoms(components, "components")
    shape = _check_patch_size(patch_size, atoms.shape[1], "components")
    chosen = _check_order(order, atoms.shape[0])
    columns = _count_columns(n_columns, len(chosen), shape)
    mosaic = _mosaic(atoms[chosen], full_scale(atoms)[chosen], shape, columns)
    if ax is None:
        height, width = mosaic.shape[:2]
        scale = _inches([mosaic]) / max(height, width)
        size = (width * scale, height * scale + TITLE_INCHES * (title is not None))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return _show(ax, mosaic, title)


def plot_pairs(
    components_list: Sequence[npt.ArrayLike],
    *,
    patch_size: PatchSizes = None,
    labels: Sequence[str] | None = None,
    order: npt.ArrayLike | None = None,
    n_columns: int | None = None,
) -> npt.NDArray[np.object_]:
    """Draw the dictionaries of several views side by side, so that atom t is at the same place in every panel.

    Each atom has its own grey scale in each view: the picture does not show how its energy is divided among the views,
    except that an atom that nearly vanishes in a view is drawn pale there; see :func:`plot_atoms`. A line below the
    panels says which norm the atoms have: norm 1 over all views together, the default of the learners, or norm 1 in
    each view.

    Parameters
    ----------
    components_list : list of arrays of shape (n_components, n_features_v)
        Two or more dictionaries with the same number of atoms, as in ``CoupledDictionaryLearning.components_``.
    patch_size : size, or list with a size or None for each view, optional
        As in :func:`plot_atoms`; a single size applies to every view.
    labels : list of str, optional
        Titles of the panels; ``"view 0"``, ``"view 1"`` and so on if left out.
    order, n_columns
        As in :func:`plot_atoms`; the same for all views.

    Returns
    -------
    array of matplotlib Axes, of shape (n_views,)

    See Also
    --------
    plot_atoms : One dictionary, and how atoms are scaled.

    Examples
    --------
    >>> import numpy as np
    >>> import matplotlib.pyplot as plt
    >>> from coupledict.plotting import plot_pairs
    >>> rng = np.random.default_rng(0)
    >>> axes = plot_pairs([rng.standard_normal((20, 64)), rng.standard_normal((20, 16))], labels=["sharp", "coarse"])
    >>> [ax.get_title() for ax in axes]
    ['sharp', 'coarse']
    >>> plt.close(axes[0].figure)
    """
    plt = _pyplot()
    if not isinstance(components_list, list | tuple) or len(components_list) < 2:
        raise ValueError(
            "Expected components_list to be a list of at least 2 dictionaries, got"
            f" {len(components_list) if isinstance(components_list, list | tuple) else type(components_list).__name__}."
            " Use plot_atoms for a single one."
        )
    n_views = len(components_list)
    views = [_check_atoms(entry, f"components_list[{v}]") for v, entry in enumerate(components_list)]
    counts = [atoms.shape[0] for atoms in views]
    if len(set(counts)) > 1:
        raise ValueError(f"Expected as many atoms in every dictionary of components_list, got {counts}.")
    shapes = [
        _check_patch_size(size, atoms.shape[1], f"components_list[{v}]")
        for v, (size, atoms) in enumerate(zip(size_per_view(patch_size, n_views), views, strict=True))
    ]
    titles = [f"view {v}" for v in range(n_views)] if labels is None else list(labels)
    if len(titles) != n_views:
        raise ValueError(f"Expected labels to hold {n_views} names, one per view, got {len(titles)}.")
    chosen = _check_order(order, counts[0])
    columns = _count_columns(n_columns, len(chosen), shapes[0])
    mosaics = [
        _mosaic(atoms[chosen], full_scale(atoms)[chosen], shape, columns)
        for atoms, shape in zip(views, shapes, strict=True)
    ]

    # Panels have the same height and matching widths, so that rows of atoms line up across the figure.
    widths = [mosaic.shape[1] / mosaic.shape[0] for mosaic in mosaics]
    scale = min(_inches(mosaics) / max(1.0, *widths), WIDEST_INCHES / sum(widths))
    _, axes = plt.subplots(
        1,
        n_views,
        figsize=(scale * sum(widths), scale + TITLE_INCHES + NOTE_INCHES),
        width_ratios=widths,
        squeeze=False,
        layout="constrained",
    )
    for ax, mosaic, title in zip(axes[0], mosaics, titles, strict=True):
        _show(ax, mosaic, title)
    axes[0][0].figure.supxlabel(f"atoms of {describe_norms(views)}, each drawn on a scale of its own", fontsize="small")
    row: npt.NDArray[np.object_] = axes[0]
    return row


def plot_convergence(
    history: Sequence[Mapping[str, Any]],
    *,
    axes: Sequence[Axes] | npt.NDArray[np.object_] | None = None,
    label: str | None = None,
) -> npt.NDArray[np.object_]:
    """Draw the error and the mean number of nonzeros against time, one marker per iteration.

    To compare methods, call it once per method, with the axes that the first call returned.

    Parameters
    ----------
    history : list of dict
        One dict per iteration, as in ``CoupledDictionaryLearning.history_``, with at least the keys ``"seconds"``
        (since the start of the fit), ``"error"`` and ``"mean_nonzeros"``.
    axes : sequence of 2 matplotlib Axes, optional
        Where to draw the error and the nonzeros; a new figure if left out.
    label : str, optional
        Name of the method, for the legend.

    Returns
    -------
    array of matplotlib Axes, of shape (2,)

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from coupledict.plotting import plot_convergence
    >>> slow = [{"seconds": k, "error": 1 / k, "mean_nonzeros": 5.0} for k in range(1, 9)]
    >>> fast = [{"seconds": k / 2, "error": 1 / k, "mean_nonzeros": 5.0} for k in range(1, 9)]
    >>> axes = plot_convergence(slow, label="slow")
    >>> axes = plot_convergence(fast, label="fast", axes=axes)
    >>> [text.get_text() for text in axes[0].get_legend().get_texts()]
    ['slow', 'fast']
    >>> plt.close(axes[0].figure)
    """
    plt = _pyplot()
    seconds, error, nonzeros = (_column(history, key) for key in ("seconds", "error", "mean_nonzeros"))
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharex=True, layout="constrained")
    pair: npt.NDArray[np.object_] = np.asarray(axes, dtype=object)
    if pair.shape != (2,):
        raise ValueError(f"Expected axes to be a sequence of 2 matplotlib Axes, got shape {pair.shape}.")
    for ax, values, name in zip(pair, (error, nonzeros), ("error", "mean nonzeros per sample"), strict=True):
        style = len(ax.lines) % len(COLOURS)
        ax.plot(seconds, values, color=COLOURS[style], marker=MARKERS[style], markersize=4, linewidth=1.2, label=label)
        ax.set_xlabel("seconds")
        ax.set_ylabel(name)
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    if label is not None:
        pair[0].legend(frameon=False)
    return pair


def plot_atom_use(codes_or_counts: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how many samples use each atom, the most used first, and write how many atoms no sample uses.

    The scale is logarithmic if the counts of used atoms differ by more than a factor of 30.

    Parameters
    ----------
    codes_or_counts : sparse or dense array of shape (n_samples, n_components), or array of shape (n_components,)
        Codes, whose nonzeros are counted, or counts.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from coupledict.plotting import plot_atom_use
    >>> ax = plot_atom_use([3, 0, 5, 1])
    >>> ax.texts[0].get_text()
    '4 atoms, 1 unused'
    >>> plt.close(ax.figure)
    """
    plt = _pyplot()
    counts = np.sort(_count_use(codes_or_counts))[::-1]
    n_used = int(np.count_nonzero(counts))
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    logarithmic = n_used > 0 and counts[0] > LOG_SPAN * counts[n_used - 1]
    floor = float(counts[n_used - 1]) / 2 if logarithmic else 0.0  # the least used atom still gets a visible bar
    ax.stairs(np.maximum(counts, floor), np.arange(counts.size + 1) + 0.5, baseline=floor, fill=True, color=COLOURS[0])
    if logarithmic:
        ax.set_yscale("log")
    ax.set_ylim(floor, float(counts[0]) * (2 if logarithmic else 1.2) if n_used else 1.0)
    ax.set_xlim(0.5, counts.size + 0.5)
    ax.set_xlabel("atoms, most used first")
    ax.set_ylabel("samples that use the atom")
    ax.spines[["top", "right"]].set_visible(False)
    # The counts fall to the right, so this corner is free.
    ax.text(
        0.98, 0.96, f"{counts.size} atoms, {counts.size - n_used} unused", transform=ax.transAxes, ha="right", va="top"
    )
    return ax


def _pyplot() -> ModuleType:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'Expected matplotlib to be installed for plots, got none. Install it with: pip install "coupledict[plot]"'
        ) from error
    return plt


def _check_atoms(value: object, name: str) -> npt.NDArray[np.float64]:
    """Return a dictionary as a 2-D array of finite numbers with at least one atom."""
    atoms = check_view(value, name).astype(np.float64)
    if atoms.shape[0] == 0:
        raise ValueError(f"Expected {name} to hold at least one atom, got shape {atoms.shape}.")
    if not np.isfinite(atoms).all():
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity.")
    return atoms


def is_one_size(value: object) -> bool:
    """Return whether this is one patch size, a number or a sequence of numbers, not a list of sizes."""
    sides = list(value) if isinstance(value, list | tuple | np.ndarray) and len(value) > 0 else [value]
    return all(isinstance(side, int | np.integer) and not isinstance(side, bool) for side in sides)


def size_per_view(patch_size: Any, n_views: int) -> list[PatchSize | None]:
    """Return one patch size, or None, per view."""
    if patch_size is None or is_one_size(patch_size):
        return [patch_size] * n_views
    if not isinstance(patch_size, list | tuple) or len(patch_size) != n_views:
        raise ValueError(
            f"Expected patch_size to be one size, or a list of {n_views} sizes, one per view, got {patch_size!r}."
        )
    return list(patch_size)


def square_size(patch_size: PatchSize, n_features: int) -> tuple[int, ...]:
    """Return a patch size as a tuple; a number is the side of a square, grey or colour, by n_features."""
    if isinstance(patch_size, int | np.integer):
        side = int(patch_size)
        return (side, side, 3) if n_features == 3 * side * side else (side, side)
    return tuple(int(side) for side in patch_size)


def _check_patch_size(patch_size: PatchSize | None, n_features: int, owner: str) -> tuple[int, int, int]:
    """Return height, width and channels of an atom, guessed where no size is given."""
    if patch_size is None:
        for channels in (1, 3):
            side = math.isqrt(n_features // channels)
            if side > 0 and channels * side * side == n_features:
                return side, side, channels
        raise ValueError(
            f"Expected {owner} to have s * s or 3 * s * s features, the size of a square patch, got {n_features}."
            f" Give patch_size=(height, width) or (height, width, 3)."
        )
    size = square_size(patch_size, n_features) if is_one_size(patch_size) else ()
    if len(size) not in (2, 3) or (len(size) == 3 and size[2] != 3):
        raise ValueError(
            "Expected patch_size to be the side of a square, (height, width) or (height, width, 3),"
            f" got {patch_size!r}."
        )
    height, width, channels = (*size, 1)[:3]
    if height < 1 or width < 1 or height * width * channels != n_features:
        raise ValueError(f"Expected patch_size to multiply to the {n_features} features of {owner}, got {size}.")
    return height, width, channels


def _check_order(order: npt.ArrayLike | None, n_atoms: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the atoms to draw."""
    if order is None:
        return np.arange(n_atoms)
    numbers = as_array(order, "order")
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"Expected order to be a sequence of atom numbers, got shape {numbers.shape} and dtype {numbers.dtype}."
        )
    if numbers.min() < 0 or numbers.max() >= n_atoms or np.unique(numbers).size != numbers.size:
        raise ValueError(f"Expected order to hold different numbers from 0 to {n_atoms - 1}, got {order!r}.")
    return numbers.astype(np.intp)


def _count_columns(n_columns: int | None, n_atoms: int, shape: tuple[int, int, int]) -> int:
    """Return the number of atoms in a row."""
    if n_columns is not None:
        return check_count(n_columns, "n_columns")
    return min(n_atoms, math.ceil(math.sqrt(n_atoms * shape[0] / shape[1])))


def _mosaic(
    atoms: npt.NDArray[np.float64], scales: npt.NDArray[np.float64], shape: tuple[int, int, int], n_columns: int
) -> npt.NDArray[np.uint8]:
    """Return all atoms in one RGBA image, with separators around every atom; cells without an atom are transparent."""
    height, width, channels = shape
    levels = np.rint(127.5 * (1 + atoms / scales)).astype(np.uint8)
    patches = levels.reshape(-1, height, width, channels)
    enlarged = math.ceil(PATCH_PIXELS / math.sqrt(height * width))
    patches = patches.repeat(enlarged, axis=1).repeat(enlarged, axis=2)
    height, width = patches.shape[1:3]
    line = max(1, min(height, width) // PATCH_PIXELS)

    n_rows = math.ceil(len(patches) / n_columns)
    mosaic = np.zeros((n_rows * (height + line) + line, n_columns * (width + line) + line, 4), np.uint8)
    for number, patch in enumerate(patches):
        top, left = (number // n_columns) * (height + line), (number % n_columns) * (width + line)
        mosaic[top : top + height + 2 * line, left : left + width + 2 * line] = (*SEPARATOR, 255)
        mosaic[top + line : top + line + height, left + line : left + line + width, :3] = patch
    return mosaic


def _inches(mosaics: Sequence[Array]) -> float:
    """Return the length, in inches, of the longer side of the largest mosaic on a new figure."""
    pixels: int = max(max(mosaic.shape[:2]) for mosaic in mosaics)
    return min(max(pixels / PIXELS_PER_INCH, LEAST_INCHES), MOST_INCHES)


def _show(ax: Axes, mosaic: npt.NDArray[np.uint8], title: str | None) -> Axes:
    ax.imshow(mosaic)
    ax.set_axis_off()
    if title is not None:
        ax.set_title(title)
    return ax


def _column(history: Sequence[Mapping[str, Any]], key: str) -> npt.NDArray[np.float64]:
    """Return the value of one key for every iteration."""
    if not isinstance(history, Sequence) or isinstance(history, str) or len(history) == 0:
        raise ValueError(
            "Expected history to be a list with a dict for each iteration, at least one, got"
            f" {'an empty one' if isinstance(history, Sequence) else type(history).__name__}."
        )
    for k, entry in enumerate(history):
        if not isinstance(entry, Mapping) or key not in entry:
            raise ValueError(f"Expected history[{k}] to be a dict with the key {key!r}, got {entry!r}.")
    return np.array([entry[key] for entry in history], dtype=np.float64)


def _count_use(codes_or_counts: Any) -> Array:
    """Return how many samples use each atom."""
    name = "codes_or_counts"
    codes_or_counts = as_numpy(codes_or_counts, name)
    if scipy.sparse.issparse(codes_or_counts):
        codes: Any = codes_or_counts
        if codes.ndim != 2:
            raise ValueError(f"Expected sparse {name} to have 2 dimensions, got {codes.ndim}.")
        codes = codes.tocsr()
        if not codes.has_canonical_format:  # an entry that is stored in several parts counts once
            codes = codes.copy()
            codes.sum_duplicates()
        values, counts = codes.data, np.bincount(codes.indices[codes.data != 0], minlength=codes.shape[1])
    elif np.ndim(codes_or_counts) == 1:
        values = counts = check_view([codes_or_counts], name)[0]
    else:
        values = check_view(codes_or_counts, name)
        counts = np.count_nonzero(values, axis=0)
    if counts.size == 0:
        raise ValueError(f"Expected {name} to be about at least one atom, got none.")
    if not np.isfinite(values).all():
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity.")
    if counts.min() < 0:
        raise ValueError(f"Expected {name} of 1 dimension to be counts of at least 0, got {counts.min()}.")
    return np.asarray(counts, dtype=np.float64)
