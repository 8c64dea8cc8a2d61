"""``coupledict learn``: dictionaries from paired arrays or from folders of paired pictures."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..foundation.choices import InitName, Normalize, Pursuit, ScheduleName, UnusedAtoms, UpdateName
from ..foundation.warning import InterruptedFitWarning
from ._app import MisuseError, Result, StoppedError, command
from ._options import Force, Missing, Seed, Threads, check_new_model, jobs
from ._progress import progress_bar
from ._views import ViewFiles, read_views

SIDE = 8

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="VIEW",
        help="One .npy file per view (row i of each belongs to one sample), one .npz file with all views, or one folder"
        " of pictures per view, paired by file name.",
        show_default=False,
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Model file to write (.safetensors).")]
Names = Annotated[
    str | None,
    typer.Option("--views", help="Arrays of the .npz file to take, as in a,b; all in their order if left out."),
]


@command(
    "Learn dictionaries from paired arrays or folders of pictures.",
    "coupledict learn sharp.npy blurred.npy -o model.safetensors --components 256 --nonzeros 5",
    "coupledict learn pairs.npz --views sharp,blurred -o model.safetensors",
    "coupledict learn sharp/ blurred/ -o model.safetensors --patch 8 --nonzeros 5",
    "coupledict learn left.npy right.npy -o model.safetensors --missing",
    "coupledict learn spectra.npy -o model.safetensors --positive-dict --positive-code --pursuit lasso --alpha 0.1",
    "coupledict learn huge-a.npy huge-b.npy -o model.safetensors --checkpoint fit.safetensors",
)
def learn(
    sources: Sources,
    output: Output,
    components: Annotated[
        int | None,
        typer.Option(help="Atoms in each dictionary; 4 times the features, at most 256, if left out.", min=1),
    ] = None,
    nonzeros: Annotated[
        int | None,
        typer.Option("--nonzeros", "-T", help="Most atoms per sample; a tenth of the features if left out.", min=1),
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Code a sample until its squared error is this small.", min=0)
    ] = None,
    iterations: Annotated[int, typer.Option(help="Iterations.", min=1)] = 30,
    update: Annotated[UpdateName | None, typer.Option(help="How atoms change; statistics if left out.")] = None,
    schedule: Annotated[
        ScheduleName | None, typer.Option(help="How the number of atoms that a sample may use grows; auto if left out.")
    ] = None,
    pursuit: Annotated[Pursuit | None, typer.Option(help="How samples are coded; omp if left out.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Penalty of --pursuit lasso.", min=0)] = None,
    positive_code: Annotated[bool, typer.Option("--positive-code", help="No negative coefficients.")] = False,
    positive_dict: Annotated[
        bool, typer.Option("--positive-dict", help="No negative entries in the atoms of all views.")
    ] = False,
    init: Annotated[InitName | None, typer.Option(help="Where learning starts; auto if left out.")] = None,
    normalize: Annotated[
        Normalize | None, typer.Option(help="Norm 1 of atoms in each view, or over all together; joint if left out.")
    ] = None,
    unused: Annotated[UnusedAtoms | None, typer.Option(help="What becomes of unused atoms; keep if left out.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="Weights of the views, as in 1,0.5, or 'balanced'; all 1 if left out.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's Algorithm 1, to the letter.")] = False,
    constant_atom: Annotated[bool, typer.Option("--constant-atom", help="Keep the first atom constant.")] = False,
    stop_tol: Annotated[
        float, typer.Option(help="Stop when the error falls by less than this share per iteration; 0 never.", min=0)
    ] = 0.0,
    missing: Missing = False,
    names: Names = None,
    patch: Annotated[int | None, typer.Option(help=f"Folders: side of the patches, {SIDE} if left out.", min=2)] = None,
    patches: Annotated[
        int | None, typer.Option(help="Folders: how many patches to draw; 100000 if left out.", min=1)
    ] = None,
    colour: Annotated[bool, typer.Option("--colour", help="Folders: patches of red, green and blue.")] = False,
    keep_mean: Annotated[bool, typer.Option("--keep-mean", help="Folders: leave the mean in each patch.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the state of learning in this file, so that it can be resumed.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the --checkpoint file.")] = False,
    seed: Seed = 0,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Learn dictionaries of two or more views of the same samples, so that one sparse code explains all views.

    Large .npy files are not read into memory but used in place. Arrays of more than two dimensions hold one
    sample each along the first; the model remembers their shape. From pictures, patches are taken at the same places in
    all views, in shades of grey from 0 to 255 unless --colour is given, and without their mean unless --keep-mean is
    given.

    With --missing, NaN in an array is a missing entry, and a row of NaN a view that the sample lacks: samples teach the
    dictionaries of what they have.

    Views are called by the names of their files, folders or arrays, as far as these differ.
    """
    check_new_model(output, force=force)
    _check_checkpoint(checkpoint, output, resume=resume, force=force)
    choices = {
        "update": update,
        "schedule": schedule,
        "pursuit": pursuit,
        "alpha": alpha,
        "positive_code": positive_code or None,
        "positive_dict": positive_dict or None,
        "init": init,
        "normalize": normalize,
        "unused_atoms": unused,
        "view_weights": weights if weights in (None, "balanced") else parse_weights(weights),
    }
    settings = _settings(choices, paper=paper)
    folder_options = {"patch": patch, "patches": patches, "colour": colour, "keep_mean": keep_mean}
    if missing and any(source.is_dir() for source in sources):
        raise MisuseError("Expected --missing with files of arrays, got folders of pictures, which lack nothing.")
    views = _read(sources, names, folder_options, seed)

    from ..estimators.coupled import CoupledDictionaryLearning

    learner = CoupledDictionaryLearning(
        components,
        n_nonzero_coefs=nonzeros,
        tol=tol,
        max_iter=iterations,
        constant_atom=constant_atom,
        stop_tol=stop_tol,
        missing="nan" if missing else "error",
        n_jobs=jobs(threads),
        random_state=seed,
        **settings,
    )
    began = time.perf_counter()
    _fit(learner, views, checkpoint, resume=resume)
    seconds = time.perf_counter() - began
    _save(learner, output, views, force=force)
    return _tell(learner, output, views, seconds)


def parse_weights(text: str) -> list[float]:
    """Return the weights that --weights names."""
    try:
        return [float(weight) for weight in text.split(",")]
    except ValueError:
        raise MisuseError(f"Expected --weights to be numbers, as in 1,0.5, or 'balanced', got {text!r}.") from None


def _check_checkpoint(checkpoint: Path | None, output: Path, *, resume: bool, force: bool) -> None:
    if resume and checkpoint is None:
        raise MisuseError("Expected --resume together with --checkpoint, the file to go on from.")
    if checkpoint is None:
        return
    if checkpoint.resolve() == output.resolve():
        raise MisuseError(f"Expected different files for the model and the checkpoint, got '{output}' for both.")
    if resume and not checkpoint.is_file():
        raise FileNotFoundError(f"Expected a checkpoint to go on from, found none at '{checkpoint}'.")
    if not resume:
        try:
            check_new_model(checkpoint, force=force)
        except FileExistsError:
            raise FileExistsError(
                f"'{checkpoint}' exists already; go on from it with --resume, or give --force to begin anew."
            ) from None


def _settings(choices: dict[str, Any], *, paper: bool) -> dict[str, Any]:
    """Return the parameters that were given; the others keep the defaults of the learner."""
    given = {key: value for key, value in choices.items() if value is not None}
    if not paper:
        return given
    if given:
        option = {"unused_atoms": "unused", "view_weights": "weights"}.get(key := next(iter(given)), key)
        raise MisuseError(f"Expected --paper without --{option.replace('_', '-')}: the paper settles it.")
    from ..estimators.coupled import PAPER

    return dict(PAPER)


def _read(sources: list[Path], names: str | None, options: dict[str, Any], seed: int) -> ViewFiles:
    """Open arrays, or take patches from pictures."""
    missing = [source for source in sources if not source.exists()]
    if missing:
        raise FileNotFoundError(f"Expected a file or folder of a view, found none at '{missing[0]}'.")
    folders = [source for source in sources if source.is_dir()]
    if not folders:
        given = [key for key, value in options.items() if value]
        if given:
            raise MisuseError(f"Expected --{given[0].replace('_', '-')} with folders of pictures, got files of arrays.")
        return read_views([str(source) for source in sources], names, may_miss=False)
    if len(folders) < len(sources):
        raise MisuseError("Expected folders of pictures for all views or for none, got both folders and files.")
    if names is not None:
        raise MisuseError("Expected --views together with one .npz file, whose arrays it names.")
    from ._pictures import read_folders

    with progress_bar() as callback:
        return read_folders(
            folders,
            side=options["patch"] or SIDE,
            n_patches=options["patches"] or 100_000,
            colour=options["colour"],
            centre=not options["keep_mean"],
            seed=seed,
            callback=callback,
        )


def _fit(learner: Any, views: ViewFiles, checkpoint: Path | None, *, resume: bool) -> None:
    with progress_bar("learning") as callback:
        learner.callback = callback
        try:
            learner.fit(views.by_name(), checkpoint=checkpoint, resume=checkpoint if resume else None)
        except (KeyboardInterrupt, InterruptedFitWarning) as error:
            if checkpoint is None or not checkpoint.exists():
                raise
            raise StoppedError(f"Stopped; the same command with --resume goes on from '{checkpoint}'.") from error
        finally:
            learner.callback = None


def _save(learner: Any, output: Path, views: ViewFiles, *, force: bool) -> None:
    """Write the model together with facts about its samples; under another name, if its own was taken meanwhile."""
    from ..estimators.saving import save_with

    shapes = [None if shape is None else list(shape) for shape in views.shapes]
    made = {"views": views.names, "patch_size": shapes if any(shapes) else None, "n_samples": views.n_samples}
    try:
        save_with(learner, output, replace=force, made=made | views.made)
    except FileExistsError:
        other = output.with_name(f"{output.stem}-{secrets.token_hex(4)}{output.suffix}")
        save_with(learner, other, replace=False, made=made | views.made)
        raise FileExistsError(f"'{output}' has been made by another program; the model is in '{other}'.") from None


def _tell(learner: Any, output: Path, views: ViewFiles, seconds: float) -> Result:
    last = learner.history_[-1]
    n_atoms, score = len(learner.components_[0]), learner.score(views.by_name())
    lines = [
        *views.notes,
        f"Learned {n_atoms:,} atoms in {len(views.names)} {'view' if len(views.names) == 1 else 'views'}"
        f" ({', '.join(views.names)}) from {views.n_samples:,} samples in {seconds:.1f} s.",
        f"{last['mean_nonzeros']:.1f} atoms per sample explain {score:.1%} of the energy.",
        f"Wrote {output}. Next: coupledict show {output}",
    ]
    data = {
        "output": str(output),
        "n_components": n_atoms,
        "views": [{"name": n, "n_features": d.shape[1]} for n, d in zip(views.names, learner.components_, strict=True)],
        "n_samples": views.n_samples,
        "iterations": learner.n_iter_,
        "seconds": seconds,
        "rms": last["rms"],
        "mean_nonzeros": last["mean_nonzeros"],
        "score": score,
        "notes": views.notes,
    }
    return Result(data, lines)
