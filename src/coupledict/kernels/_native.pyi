from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

LIMIT: int
TOLERANCE: int
EXHAUSTED: int
DEPENDENT: int
ZERO: int
DOUBTFUL: int
UNKNOWN: int
FULL: int
NOT_FINITE: int
OVERFLOW: int
compiler: str

def levels() -> list[str]: ...
def current_cpu() -> int: ...

class Workspace:
    def __init__(self) -> None: ...

class Settings:
    def __init__(
        self,
        *,
        n_nonzero: int,
        room: int,
        tol: float,
        pursuit: str,
        alpha: float,
        positive: bool,
        method: str,
    ) -> None: ...

class _Plan:
    has_gram: bool
    n_retried: int
    def __init__(
        self,
        dictionaries: list[tuple[npt.NDArray[Any], npt.NDArray[np.float64]]],
        scales: list[float],
        level: str,
        masked: bool,
        make_precise: Callable[[], list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]],
    ) -> None: ...
    def allocate_gram(self) -> None: ...
    def fill_gram(self, dictionary: int, start: int, stop: int, workspace: Workspace) -> None: ...
    def encode(
        self,
        views: list[npt.NDArray[Any]],
        settings: Settings,
        workspace: Workspace,
        stop: npt.NDArray[np.int32],
        energy: npt.NDArray[np.float64],
        status: npt.NDArray[np.uint8],
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], list[npt.NDArray[Any]]]: ...

class Plan32(_Plan): ...
class Plan64(_Plan): ...

Plan: TypeAlias = Plan32 | Plan64

def gather(view: npt.NDArray[Any], rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None: ...
def accumulate(
    views: list[npt.NDArray[Any]],
    counts: npt.NDArray[np.int32],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    uses: npt.NDArray[np.int64],
    workspace: Workspace,
    level: str,
) -> None: ...
def fill_missing(
    view: npt.NDArray[Any],
    counts: npt.NDArray[np.int32],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    atoms: npt.NDArray[Any],
    filled: npt.NDArray[Any],
    level: str,
) -> None: ...
def accumulate_known(
    view: npt.NDArray[Any],
    counts: npt.NDArray[np.int32],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    sums: npt.NDArray[Any],
    level: str,
) -> None: ...
def sweep(
    starts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    positive: npt.NDArray[np.bool_],
    joint: bool,
    n_fixed: int,
    first: int,
    last: int,
    a: npt.NDArray[np.float64],
    b: npt.NDArray[np.float64],
    atoms: npt.NDArray[np.float64],
    level: str,
) -> None: ...
def sequential(
    starts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    positive: npt.NDArray[np.bool_],
    joint: bool,
    n_fixed: int,
    first: int,
    last: int,
    mean: bool,
    frozen: bool,
    positive_code: bool,
    column_starts: npt.NDArray[np.int64],
    samples: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    residual: npt.NDArray[Any],
    atoms: npt.NDArray[Any],
    level: str,
) -> None: ...
