"""Model files as commands use them: read once, with the notes of ``coupledict learn`` about the samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._app import MisuseError


@dataclass(frozen=True)
class OpenedModel:
    """The estimator of a model file, and the other contents of the file."""

    file: Path
    estimator: Any
    facts: dict[str, Any]

    @property
    def made(self) -> dict[str, Any]:
        """The notes of ``coupledict learn`` about the samples; untrusted."""
        made = self.facts.get("made")
        return made if isinstance(made, dict) else {}

    @property
    def patch_sizes(self) -> Any:
        """The noted patch size of each view; unchecked."""
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
    """A model file that holds only dictionaries."""

    @property
    def components(self) -> list[Any]:
        """The dictionaries, one per view."""
        found = self.estimator.components_
        return list(found) if isinstance(found, list) else [found]

    @property
    def names(self) -> list[str] | None:
        """The names of the views, if they have distinct names."""
        names = self.view_names(len(self.components))
        return names if names is not None and len(set(names)) == len(names) else None

    def view_number(self, text: str) -> int:
        """Return the number of the view that an option gives by number or name."""
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
        """Return the name of a view in messages."""
        return f"view {number}" if self.names is None else f"view {number} ({self.names[number]})"


def open_learner(file: Path, n_jobs: int, *, missing: bool = False) -> OpenedLearner:
    """Read a model that codes samples with this number of threads; with `missing`, NaN marks missing entries."""
    from ..estimators.base import DictionaryEstimator

    model = open_model(file)
    if not isinstance(model.estimator, DictionaryEstimator):
        raise ValueError(f"Expected a model of dictionaries only, got a {type(model.estimator).__name__} in '{file}'.")
    model.estimator.set_params(n_jobs=n_jobs, **({"missing": "nan"} if missing else {}))
    return OpenedLearner(file, model.estimator, model.facts)
