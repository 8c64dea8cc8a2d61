"""``coupledict show``: the contents of a model file, as a table, a picture of its atoms, or a page to explore them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._app import MisuseError, Result, command
from ._models import OpenedModel, open_model
from ._options import Force, ModelFile, PatchSize, check_new_file, parse_patch

PICTURES = (".png", ".svg", ".pdf", ".jpg")
MOST_CURVES = 400  # atoms that are drawn as curves in one picture


@command(
    "The contents of a model: summary, picture of its atoms, page to explore them.",
    "coupledict show model.safetensors",
    "coupledict show model.safetensors --atoms atoms.png",
    "coupledict show model.safetensors --html atoms.html --patch 8x8",
    "coupledict show model.safetensors --json",
)
def show(
    model: ModelFile,
    atoms: Annotated[
        Path | None, typer.Option("--atoms", help=f"Picture of the atoms to write ({', '.join(PICTURES)}).")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Page to write for exploring the atoms.")] = None,
    patch: PatchSize = None,
    number: Annotated[
        int, typer.Option("--dictionary", help="Number of the set of dictionaries, for a model with several.", min=0)
    ] = 0,
    force: Force = False,
) -> Result:
    """Show the contents of a model file; nothing in the file is executed."""
    from ..report._models import model_atoms

    if atoms is not None and atoms.suffix.lower() not in PICTURES:
        raise MisuseError(f"Expected --atoms to end in {', '.join(PICTURES)}, got '{atoms}'.")
    for file in (atoms, html):
        if file is not None:
            check_new_file(file, force=force)
    asked = parse_patch(patch)
    opened = open_model(model)
    found = model_atoms(opened.estimator, number)
    names, shapes = _names_and_shapes(found, opened, asked)
    result = _summary(opened, found, names, shapes)
    if atoms is not None:
        _draw(atoms, found.dictionaries, names, shapes, force=force)
        result.lines.append(f"Wrote {atoms}.")
    if html is not None:
        _write_page(html, model, found.dictionaries, names, shapes, force=force)
        result.lines.append(f"Wrote {html}; open it in a browser.")
    written = {"atoms": atoms, "html": html}
    result.data |= {key: str(file) for key, file in written.items() if file is not None}
    return result


def _names_and_shapes(
    found: Any, model: OpenedModel, asked: tuple[int, ...] | None
) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the name of each view and the shape of its atoms: as requested, as noted in the model, or as fits."""
    from ..report._model_page import shapes_of_views

    n_views = len(found.dictionaries)
    names = found.names or model.view_names(n_views) or [f"View {v}" for v in range(n_views)]
    if asked == ():
        return names, [(atoms.shape[1],) for atoms in found.dictionaries]
    if asked is not None:
        return names, shapes_of_views(asked, found.dictionaries)
    if found.patch_size is not None:
        return names, found.patch_size
    try:
        return names, shapes_of_views(_known(model.patch_sizes), found.dictionaries)
    except ValueError:  # the note may be wrong, or have too many dimensions to draw
        return names, shapes_of_views(None, found.dictionaries)


def _known(noted: Any) -> list[tuple[int, ...] | None] | None:
    """Return the sizes noted in a model file, or None; the file is untrusted."""
    if not isinstance(noted, list):
        return None
    return [tuple(size) if isinstance(size, list) and size else None for size in noted]


def _summary(model: OpenedModel, found: Any, names: list[str], shapes: list[tuple[int, ...]]) -> Result:
    """Return the facts of a model."""
    from ..foundation.drawing import describe_norms

    file, estimator, version = model.file, model.estimator, model.facts.get("version")
    size, kind = file.stat().st_size, type(estimator).__name__
    views = [
        {"name": name, "n_features": atoms.shape[1], "shape": list(shape)}
        for name, atoms, shape in zip(names, found.dictionaries, shapes, strict=True)
    ]
    n_atoms = len(found.dictionaries[0])
    norms = describe_norms(found.dictionaries, getattr(estimator, "view_weights_", None))
    parameters = _settled(estimator)
    data: dict[str, Any] = {
        "model": str(file),
        "estimator": kind,
        "version": version,
        "bytes": size,
        "n_components": n_atoms,
        "norms": norms,
        "n_dictionaries": found.n_sets,
        "views": views,
        "parameters": parameters,
    }
    facts = [
        ("model", str(file)),
        ("kind", kind),
        ("written by", f"coupledict {version}"),
        ("size", f"{size / 1024:,.0f} kB"),
        ("atoms", f"{n_atoms:,}" + (f", in {found.n_sets} sets of dictionaries" if found.n_sets > 1 else "")),
        ("norms", f"atoms of {norms}"),
    ]
    facts += [(f"view {v}", _describe_view(view)) for v, view in enumerate(views)]
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        data["classes"] = classes.tolist()
        facts.append(("classes", _shorten(", ".join(str(label) for label in classes))))
    _add_history(estimator, data, facts)
    facts.append(("settings", ", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "all as usual"))
    return Result(data, facts=facts)


def _describe_view(view: dict[str, Any]) -> str:
    shape = view["shape"]
    drawn = "curves" if len(shape) == 1 else f"patches of {' x '.join(map(str, shape))}"
    return f"{view['name']}: {view['n_features']:,} features ({drawn})"


def _shorten(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _settled(estimator: Any) -> dict[str, Any]:
    """Return the parameters that differ from their defaults."""
    usual = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    hidden = ("n_jobs", "verbose", "callback")
    plain = (bool, int, float, str, list, type(None))
    return {k: v for k, v in given.items() if k not in hidden and isinstance(v, plain) and v != usual[k]}


def _add_history(estimator: Any, data: dict[str, Any], facts: list[tuple[str, str]]) -> None:
    """Add the facts about the fit of a learner."""
    history = getattr(estimator, "history_", None)
    if not history or not {"seconds", "rms", "mean_nonzeros", "n_samples"} <= set(history[-1]):
        return
    last = history[-1]
    data["learning"] = {"iterations": len(history)} | {
        key: last[key] for key in ("seconds", "n_samples", "rms", "mean_nonzeros")
    }
    facts.append(
        (
            "learned",
            f"{len(history)} iterations in {last['seconds']:.1f} s, from {last['n_samples']:,} samples: RMS error"
            f" {last['rms']:.4g} with {last['mean_nonzeros']:.2f} atoms per sample",
        )
    )


def _write_page(
    file: Path, model: Path, dictionaries: list[Any], names: list[str], shapes: list[tuple[int, ...]], *, force: bool
) -> None:
    from ..files.whole import write_file
    from ..report import explorer_page

    page = explorer_page(dictionaries, title=model.name, patch_size=shapes, names=names)
    write_file(file, [page.encode("utf-8", "replace")], replace=force)


def _draw(file: Path, dictionaries: list[Any], names: list[str], shapes: list[tuple[int, ...]], *, force: bool) -> None:
    """Draw the atoms of all views side by side: patches as pictures, others as curves."""
    import io

    from ..files.whole import write_file

    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError(
            'Expected matplotlib to be installed, for pictures of atoms: pip install "coupledict[plot]".'
            " The explorer (--html) does not need it."
        ) from error
    mpl.use("agg")
    from matplotlib import pyplot as plt

    from ..foundation.drawing import describe_norms
    from ..plotting import plot_atoms

    figure, axes = plt.subplots(1, len(names), figsize=(6 * len(names), 6.4), squeeze=False, layout="constrained")
    for axis, view, name, shape in zip(axes[0], dictionaries, names, shapes, strict=True):
        if len(shape) > 1:
            plot_atoms(view, patch_size=shape, ax=axis, title=name)
        else:
            _draw_curves(axis, view, name)
    figure.supxlabel(f"atoms of {describe_norms(dictionaries)}, each drawn on its own scale")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=file.suffix[1:].lower(), dpi=150)
    plt.close(figure)
    write_file(file, [drawn.getbuffer()], replace=force)


def _draw_curves(axis: Any, view: Any, name: str) -> None:
    """Draw atoms as small curves on a grid, each on its own scale."""
    import numpy as np

    from ..foundation.drawing import full_scale

    count = min(len(view), MOST_CURVES)
    columns = int(np.ceil(np.sqrt(count)))
    places = np.linspace(0.08, 0.92, view.shape[1]) if view.shape[1] > 1 else np.array([0.5])
    heights = 0.42 * view[:count] / full_scale(view)[:count]
    for number, curve in enumerate(heights):
        row, column = divmod(number, columns)
        axis.plot(column + places, -row + curve, color="black", linewidth=0.7, marker="." if len(curve) == 1 else None)
    shown = name if count == len(view) else f"{name} (the first {count} of {len(view):,} atoms)"
    axis.set(title=shown, xlim=(0, columns), aspect="equal")
    axis.set_axis_off()
