"""Model files as commands use them: read once, with what ``coupledict learn`` noted about the samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._app import MisuseError


@dataclass(frozen=True)
class OpenedModel:
    """The estimator of a model file, and what else the file tells."""

    file: Path
    estimator: Any
    facts: dict[str, Any]

    @property
    def made(self) -> dict[str, Any]:
        """What ``coupledict learn`` noted about the samples; not to be trusted."""
        made = self.facts.get("made")
        return made if isinstance(made, dict) else {}

    @property
    def patch_sizes(self) -> Any:
        """The size of the patches of each view, as noted; not checked."""
        return self.made.get("patch_size")

    def view_names(self, n_views: int) -> list[str] | None:
        """Return the names of the views, or None if they have none."""
        own = getattr(self.estimator, "view_names_in_", None)
        noted = list(own) if own is not None else self.made.get("views")
        fits = isinstance(noted, list) and len(noted) == n_views and all(isinstance(name, str) for name in noted)
        return noted if fits else None


def open_model(file: Path) -> OpenedModel:
    """Read a model of any kind; nothing in the file is executed."""
    from ..files.state import ModelState
    from ..loading import from_state

    state = ModelState.read(file)
    return OpenedModel(file, from_state(state, file), state.facts)


@dataclass(frozen=True)
class OpenedLearner(OpenedModel):
    """A model file that holds dictionaries and nothing more."""

    @property
    def components(self) -> list[Any]:
        """The dictionaries, one per view."""
        found = self.estimator.components_
        return list(found) if isinstance(found, list) else [found]

    @property
    def names(self) -> list[str] | None:
        """The names of the views, where they have names that differ."""
        names = self.view_names(len(self.components))
        return names if names is not None and len(set(names)) == len(names) else None

    def view_number(self, text: str) -> int:
        """Return the number of the view that an option names, by its number or its name."""
        most, names = len(self.components) - 1, self.names
        if text.isdecimal():
            if int(text) > most:
                raise MisuseError(f"Expected --view to be from 0 to {most}, got {text}.")
            return int(text)
        if names is not None and text in names:
            return names.index(text)
        known = "" if names is None else f" or a name, one of {', '.join(names)}"
        raise MisuseError(f"Expected --view to be a number from 0 to {most}{known}, got {text!r}.")

    def describe_view(self, number: int) -> str:
        """Return what to call a view."""
        return f"view {number}" if self.names is None else f"view {number} ({self.names[number]})"


def open_learner(file: Path, n_jobs: int, *, missing: bool = False) -> OpenedLearner:
    """Read a model that is to code samples, with this number of threads; `missing` lets NaN be missing entries."""
    from ..estimators.base import DictionaryEstimator

    model = open_model(file)
    if not isinstance(model.estimator, DictionaryEstimator):
        raise ValueError(f"Expected a model of dictionaries alone, got a {type(model.estimator).__name__} in '{file}'.")
    model.estimator.set_params(n_jobs=n_jobs, **({"missing": "nan"} if missing else {}))
    return OpenedLearner(file, model.estimator, model.facts)
