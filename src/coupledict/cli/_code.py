"""``coupledict encode`` and ``predict``: sparse codes of samples, and one view from others, block by block."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ._app import MisuseError, Result, command
from ._models import OpenedLearner, open_learner
from ._options import Force, Missing, ModelFile, Threads, check_new_file, jobs
from ._progress import progress_bar
from ._views import ABSENT, ViewFiles, read_views

Given = Annotated[
    list[str],
    typer.Argument(
        metavar="VIEW",
        help="One .npy file per view, in the order of the model, or one .npz file with all views; 'none' or '-' for an"
        " absent view.",
        show_default=False,
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--views",
        help="Arrays of the .npz file, as in none,blurred. By default, those with the names of the model's views, or"
        " all in their order if the names differ.",
    ),
]


@command(
    "Sparse codes of samples.",
    "coupledict encode model.safetensors sharp.npy blurred.npy -o codes.npz",
    "coupledict encode model.safetensors none blurred.npy -o codes.npz",
    "coupledict encode model.safetensors sharp.npy blurred.npy -o codes.npz --missing",
    "coupledict encode model.safetensors huge-a.npy huge-b.npy -o codes.zarr",
)
def encode(
    model: ModelFile,
    sources: Given,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Codes to write: .npz (one file), .npy (dense), .zarr, or a name without a suffix (a folder of parts,"
            " for codes larger than memory).",
        ),
    ],
    missing: Missing = False,
    names: Names = None,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Code samples over the dictionaries of a model, from the views that are present.

    A model that was learned with --missing takes NaN for missing entries here, too; other models need --missing.
    """
    import numpy as np

    from ..foundation.arrays import common_dtype

    if output.suffix not in (".npz", ".npy", ".zarr", ""):
        raise MisuseError(
            f"Expected an output ending in .npz, .npy or .zarr, or a folder without a suffix, got '{output}'."
        )
    folder = output.suffix in (".zarr", "")
    check = _check_codes_folder if folder else check_new_file
    check(output, force=force)
    learner = open_learner(model, jobs(threads), missing=missing)
    if getattr(learner.estimator, "coupling", "code") != "code":
        raise ValueError(f"'{model}' codes each view by itself (coupling='support'); use transform in Python.")
    views = _open(learner, sources, names)
    coded = (_transform(learner.estimator, rows) for rows in _parts(views, learner.components, "coding"))
    shape = (views.n_samples, len(learner.components[0]))
    if folder:
        dtype = common_dtype([*(array for array in views.arrays if array is not None), *learner.components])
        nnz = _write_folder(output, coded, shape[1], dtype, force=force)
        how = f"coupledict.open_codes({str(output)!r})"
    elif output.suffix == ".npz":
        nnz = _write_npz(output, coded, force=force)
        how = f"scipy.sparse.load_npz({str(output)!r})"
    else:
        nnz = _write_npy(output, (np.asarray(codes.todense()) for codes in coded), shape, force=force)
        how = f"numpy.load({str(output)!r})"
    lines = [
        f"Coded {shape[0]:,} samples with {nnz / max(shape[0], 1):.2f} of {shape[1]:,} atoms on average.",
        f"Wrote {output}; read it in Python with {how}.",
    ]
    return Result({"output": str(output), "shape": list(shape), "nonzeros": nnz, "read_with": how}, lines)


@command(
    "One view from the others.",
    "coupledict predict model.safetensors --view sharp none blurred.npy -o sharp.npy",
    "coupledict predict model.safetensors --view 0 none blurred.png -o sharp.png",
)
def predict(
    model: ModelFile,
    sources: Given,
    view: Annotated[str, typer.Option(help="Name of the view to predict, or its number, from 0.", metavar="VIEW")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Array (.npy) to write or, with a model of pictures, a picture.")
    ],
    missing: Missing = False,
    names: Names = None,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Predict one view from the others.

    With a model that was learned from folders of pictures, pictures can be given instead of arrays: every patch is
    predicted, and the overlapping patches are averaged.
    """
    learner = open_learner(model, jobs(threads), missing=missing)
    number = learner.view_number(view)
    if len(learner.components) == 1:
        raise ValueError(f"Expected a model of two or more views, got one view in '{model}'.")
    if output.suffix.lower() != ".npy":
        if missing:
            raise MisuseError("Expected --missing only with array files, got pictures, which have no missing entries.")
        return _predict_picture(learner, sources, number, output, force=force)
    check_new_file(output, force=force)
    views = _open(learner, sources, names)
    if all(array is None for v, array in enumerate(views.arrays) if v != number):
        raise MisuseError(f"Expected a view other than the one to predict ({view}), got none.")
    shape = (views.n_samples, learner.components[number].shape[1])
    parts = _parts(views, learner.components, "predicting")
    _write_npy(output, (learner.estimator.predict(rows, view=number) for rows in parts), shape, force=force)
    lines = [
        f"Predicted {learner.describe_view(number)} of {shape[0]:,} samples.",
        f"Wrote {output}; read it in Python with numpy.load.",
    ]
    return Result({"output": str(output), "shape": list(shape), "view": number}, lines)


def _predict_picture(learner: OpenedLearner, sources: list[str], view: int, output: Path, *, force: bool) -> Result:
    from ..images._files import Picture, check_output, write_image
    from ._pictures import predict_picture

    check_output(output, force=force)
    files = [None if source in ABSENT else Path(source) for source in sources]
    if len(files) != len(learner.components):
        raise MisuseError(f"Expected {len(learner.components)} views, 'none' for absent ones, got {len(files)}.")
    with progress_bar() as callback:
        pixels = predict_picture(learner, files, view, callback)
    write_image(output, Picture(pixels), force=force)
    size = {"width": int(pixels.shape[1]), "height": int(pixels.shape[0])}
    return Result(
        {"output": str(output), **size, "view": view}, [f"Wrote {output}: {size['width']} x {size['height']} pixels."]
    )


def _open(learner: OpenedLearner, sources: list[str], names: str | None) -> ViewFiles:
    """Open the given views, which must be those of the model."""
    views = read_views(sources, names, may_miss=True, known=learner.names)
    widths = [atoms.shape[1] for atoms in learner.components]
    if len(views.arrays) != len(widths):
        raise MisuseError(
            f"Expected {len(widths)} views for '{learner.file}', with 'none' for absent ones, got {len(views.arrays)}."
        )
    for number, (array, width) in enumerate(zip(views.arrays, widths, strict=True)):
        if array is not None and array.shape[1] != width:
            raise ValueError(
                f"Expected {width} features in {learner.describe_view(number)}, as in '{learner.file}', got"
                f" {array.shape[1]} in '{views.names[number]}'."
            )
    return views


def _parts(views: ViewFiles, components: list[Any], what: str) -> Iterator[list[Any]]:
    """Yield the views in blocks of rows, and show the progress."""
    import numpy as np

    from ..foundation.block_sizes import SIZES
    from ..foundation.progress import Meter

    row_bytes = sum(8 * atoms.shape[1] for atoms in components)
    step = max(1, SIZES.coded_bytes // row_bytes)
    with progress_bar() as callback:
        meter = Meter(callback, what, views.n_samples)
        for start in range(0, max(views.n_samples, 1), step):
            yield [None if array is None else np.array(array[start : start + step]) for array in views.arrays]
            meter.advance(min(step, views.n_samples - start))


def _transform(learner: Any, rows: list[Any]) -> Any:
    """Return codes, from a learner of several views or of one."""
    several = isinstance(learner.components_, list)
    return learner.transform(rows if several else rows[0])


def _check_codes_folder(output: Path, *, force: bool) -> Path:
    """Refuse an existing path, unless it holds codes and `force` allows them to be replaced."""
    from ..files.codes import open_codes

    if not output.exists():
        if not output.parent.is_dir():
            raise FileNotFoundError(f"Expected the folder '{output.parent}' for the output to exist; make it first.")
        return output
    if not force:
        raise FileExistsError(f"'{output}' exists already; give another name, or --force to replace it.")
    open_codes(output)  # raises for anything but codes, which alone may be removed
    return output


def _write_folder(output: Path, coded: Iterator[Any], n_components: int, dtype: Any, *, force: bool) -> int:
    """Write codes part by part; replaced codes stay until the new ones are complete."""
    from ..files.codes import code_writer

    mark = secrets.token_hex(4)
    target = output.with_name(f".{output.stem}-{mark}{output.suffix}") if force and output.exists() else output
    nnz = 0
    with code_writer(target, n_components, dtype) as writer:
        for codes in coded:
            writer.append(codes)
            nnz += int(codes.nnz)
    if target != output:
        old = output.with_name(f".{output.stem}-{mark}-old{output.suffix}")
        output.rename(old)
        target.rename(output)
        shutil.rmtree(old)
    return nnz


def _write_npz(output: Path, coded: Iterator[Any], *, force: bool) -> int:
    import scipy.sparse

    from ..files.whole import new_file

    codes = scipy.sparse.csr_array(scipy.sparse.vstack(list(coded), format="csr"))
    with new_file(output, replace=force) as file:
        scipy.sparse.save_npz(file, codes, compressed=False)
    return int(codes.nnz)


def _write_npy(output: Path, parts: Iterator[Any], shape: tuple[int, int], *, force: bool) -> int:
    """Write rows to one array file as they come; return the number of nonzeros."""
    import numpy as np

    from ..files.whole import new_file

    nnz = 0
    with new_file(output, replace=force) as file:
        for number, part in enumerate(parts):
            if number == 0:
                header = {"descr": np.lib.format.dtype_to_descr(part.dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(part).data)
            nnz += int(np.count_nonzero(part))
    return nnz
