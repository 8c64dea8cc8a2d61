from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

LIMIT: int
TOLERANCE: int
EXHAUSTED: int
DEPENDENT: int
ZERO: int
NOT_FINITE: int
OVERFLOW: int
compiler: str

def levels() -> list[str]: ...
def current_cpu() -> int: ...

class Workspace:
    def __init__(self) -> None: ...

class _Plan:
    n_atoms: int
    n_features: int
    has_gram: bool
    def __init__(self, atoms: npt.NDArray[Any], norms: npt.NDArray[np.float64], level: str) -> None: ...
    def allocate_gram(self) -> None: ...
    def fill_gram(self, start: int, stop: int, workspace: Workspace) -> None: ...
    def encode(
        self,
        views: list[npt.NDArray[Any]],
        scales: list[float],
        *,
        n_nonzero: int,
        tol: float,
        ols: bool,
        gram_free: bool,
        workspace: Workspace,
        stop: npt.NDArray[np.int32],
        counts: npt.NDArray[np.int32],
        indices: npt.NDArray[np.int32],
        values: npt.NDArray[Any],
        energy: npt.NDArray[np.float64],
        status: npt.NDArray[np.uint8],
    ) -> int: ...

class Plan32(_Plan): ...
class Plan64(_Plan): ...

Plan: TypeAlias = Plan32 | Plan64
