"""The choices of the learners' parameters: they type the parameters, check them, and are options of the command line.

This module imports nothing, so that ``--help`` and completion need not wait for NumPy and scikit-learn.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Pursuit: TypeAlias = Literal["omp", "ols", "lasso"]
GreedyPursuit: TypeAlias = Literal["omp", "ols"]
Coupling: TypeAlias = Literal["code", "support"]
UpdateName: TypeAlias = Literal["statistics", "sequential", "ksvd", "mod"]
ScheduleName: TypeAlias = Literal["auto", "linear", "half", "constant"]
InitName: TypeAlias = Literal["auto", "dct", "samples", "random"]
Normalize: TypeAlias = Literal["views", "joint"]
UnusedAtoms: TypeAlias = Literal["keep", "late", "worst", "mean"]
PredictorName: TypeAlias = Literal["auto", "ridge", "dictionary"]
CodePredictor: TypeAlias = Literal["ridge", "dictionary"]
