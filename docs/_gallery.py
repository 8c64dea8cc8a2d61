"""The order of the gallery: what most people want first."""

from __future__ import annotations

#: Under what they want, the examples in the order of the gallery; `examples/README.rst` names them in the same order.
ORDER = {
    "First": ("paired_atoms", "missing_channel", "few_atoms"),
    "Pictures and speech": (
        "focus_stack",
        "enlarge",
        "fill_picture",
        "stain",
        "widen_speech",
    ),
    "Recognition and matching": ("recognize_digits", "match_views", "cross_domain"),
    "Views that are missing": ("three_views", "incomplete_views"),
    "Choosing and understanding": (
        "choosing_parameters",
        "grid_search",
        "error_against_time",
        "recover_atoms",
        "unmixing",
    ),
    "Many samples": ("streaming", "cluster"),
}
FILES = [f"plot_{name}.py" for names in ORDER.values() for name in names]


class ByWhatIsWanted:
    """A key for sphinx-gallery to sort the files of a folder by; files without a place come last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return the place of a file."""
        return (FILES.index(name) if name in FILES else len(FILES), name)

    def __repr__(self) -> str:
        return "<ByWhatIsWanted>"
