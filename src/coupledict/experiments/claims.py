"""The paper's claims about its method, and whether the runs of the experiments confirm them.

The paper's numbers are from its section III; the sentences are ours. Only the numbers of all runs decide whether a
claim holds; `verdicts` has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .methods import CONSTANT_METHOD, DEFAULT_METHOD, KSVD_METHOD, PAPER_KEEP_METHOD, PAPER_METHOD, SAMPLES_METHOD
from .verdicts import CORRELATION_MARGIN, SPARSITY_MARGIN, TIME_MARGIN, Verdict, all_of, decide, undecided

PAPER_SECONDS, PAPER_KSVD_SECONDS = 11.0, 28.0
PAPER_ITERATIONS, PAPER_KSVD_ITERATIONS = 12, 5
PAPER_PATCHES = 10_000  # with fewer, the second experiment has other outcomes
OUR_GOAL = 10.0
STRONG, WEAK = 0.7, 0.5  # correlations: half of the variance is shared, or a quarter


def claim(text: str, paper: str, measured: str, verdict: Verdict, *, ours: bool = False) -> dict[str, Any]:
    """Return one line of the comparison; `ours` marks a claim that is not the paper's."""
    return {
        "claim": text,
        "paper": paper,
        "measured": measured,
        "holds": verdict.holds,
        "why": verdict.why,
        "ours": ours,
    }


def pair_claims(pairs: dict[str, Any]) -> list[dict[str, Any]]:
    """Decide the claims about the first experiment."""
    together, apart = ([trial[how] for trial in pairs["trials"]] for how in ("together", "separate"))
    same = [[one["median_same"] for one in trials] for trials in (together, apart)]
    shares = [[one["same_index_share"] for one in trials] for trials in (together, apart)]
    strength = (
        f"median correlation with the partner of the same number: {_range(same[0])} learned together,"
        f" {_range(same[1])} learned separately"
    )
    best = (
        f"the best partner has the same number for {_range(shares[0], '.1%')} of the atoms learned together,"
        f" {_range(shares[1], '.1%')} of those learned separately (chance: {together[0]['chance']:.1%})"
    )
    margin = f"margin {CORRELATION_MARGIN:g}"
    return [
        claim(
            "Only atoms that were learned together are correlated pair by pair.",
            "shown visually, by four grids of atoms",
            strength,
            all_of(
                _beyond(same[0], STRONG, CORRELATION_MARGIN, f"Together above {STRONG:g} ({margin})"),
                _beyond([-r for r in same[1]], -WEAK, CORRELATION_MARGIN, f"separately below {WEAK:g} ({margin})"),
            ),
        ),
        claim(
            "An atom's partner can be distinguished from all other atoms.",
            "not answered by a picture",
            best,
            _beyond(shares[0], 0.5, CORRELATION_MARGIN, f"Half of the atoms ({margin})"),
            ours=True,
        ),
    ]


def _beyond(figures: Sequence[float], bound: float, margin: float, rule: str) -> Verdict:
    return decide(figures, bound - margin, bound + margin, rule)


def time_claims(regime: dict[str, Any]) -> list[dict[str, Any]]:
    """Decide the claims about the second experiment, in one regime."""
    methods = {method["key"]: method for method in regime["methods"]}
    reached = {entry["key"]: entry for entry in regime["reached"]}
    trials = _Trials(regime)
    return [
        _sooner(trials, reached[PAPER_METHOD], methods[KSVD_METHOD]),
        _sooner_than_from_samples(trials, methods[SAMPLES_METHOD]),
        _iterations(trials, methods[PAPER_METHOD]),
        _sparser(trials, methods),
        _growing(trials, methods),
        _unused(trials, methods),
        _default(trials, reached[DEFAULT_METHOD], methods[KSVD_METHOD]),
    ]


class _Trials:
    """The figures of all runs of one regime, by name."""

    def __init__(self, regime: dict[str, Any]) -> None:
        self._trials = regime["trials"]
        self._n_patches = regime["n_patches"]
        self.n_nonzero_coefs = regime["n_nonzero_coefs"]

    def __getitem__(self, key: str) -> list[float | None]:
        return [trial[key] for trial in self._trials]

    def decide(self, figures: Sequence[float | None], low: float, high: float, rule: str) -> Verdict:
        """Decide a claim that the figures are large, if there are as many patches as in the paper."""
        if self._n_patches < PAPER_PATCHES:
            return undecided(f"{self._n_patches:,} patches are too few; the paper's {PAPER_PATCHES:,} are needed")
        return decide(figures, low, high, rule)

    def is_times(self, key: str, bound: float) -> Verdict:
        """Decide whether a ratio of times is beyond a bound."""
        low, high = bound * (1 - TIME_MARGIN), bound * (1 + TIME_MARGIN)
        return self.decide(self[key], low, high, f"{bound:g} times (margin {TIME_MARGIN:.0%})")

    def is_fewer(self, key: str) -> Verdict:
        """Decide whether codes of the paper's method have fewer nonzeros at equal error."""
        fewer = [None if share is None else -share for share in self[key]]
        rule = f"Fewer nonzeros at equal error (margin {SPARSITY_MARGIN:.0%})"
        return self.decide(fewer, -1 - SPARSITY_MARGIN, -1 + SPARSITY_MARGIN, rule)

    def is_no_more(self, key: str) -> Verdict:
        """Decide whether codes of the paper's method have as few nonzeros at equal error, within the margin."""
        fewer = [None if share is None else -share for share in self[key]]
        rule = f"No more nonzeros at equal error (margin {SPARSITY_MARGIN:.0%})"
        return self.decide(fewer, -1 - SPARSITY_MARGIN, -1 - SPARSITY_MARGIN, rule)


def _range(figures: Sequence[float | None], form: str = ".2f") -> str:
    """Return figures of several runs in words: the smallest, the largest, and how many runs have none."""
    known = sorted(figure for figure in figures if figure is not None)
    if not known:
        return "never"
    low, high = format(known[0], form), format(known[-1], form)
    words = low if low == high else f"{low} to {high}"
    missing = len(figures) - len(known)
    return f"{words} ({missing} of {len(figures)} runs: never)" if missing else words


def _tell_ratio(trials: _Trials, key: str) -> str:
    known = [ratio for ratio in trials[key] if ratio is not None]
    if not known:
        return "it never reaches that level"
    return f"{_range(trials[key], '.1f')} times sooner"


def _tell_arrival(moment: dict[str, Any] | None, ksvd_seconds: float) -> str:
    """Return in words when a method reached the final level of K-SVD in the first run."""
    if moment is None or moment["seconds"] is None:
        return f"not in the first run, where K-SVD took {ksvd_seconds:.2f} s"
    return f"in the first run after {moment['seconds']:.2f} s against {ksvd_seconds:.2f} s"


def _tell_level(method: dict[str, Any], side: str) -> str:
    point = method["curve"][-1]
    return f"{point[f'{side}_nonzeros']:.2f} atoms and error {point[f'{side}_error']:.4f}"


def _tell_share(trials: _Trials, key: str) -> str:
    """Return in words how many nonzeros codes have at equal error, relative to those of a rival."""
    shares = trials[key]
    known = [share for share in shares if share is not None]
    words = [f"{_range(known, '.3f')} times the nonzeros at equal error"] if known else []
    if len(known) < len(shares):
        which = "" if not known else f" in {len(shares) - len(known)} of {len(shares)} runs"
        words.append(f"{trials.n_nonzero_coefs} atoms are not enough for an equal error{which}")
    return ", ".join(words)


def _sooner(trials: _Trials, entry: dict[str, Any], ksvd: dict[str, Any]) -> dict[str, Any]:
    paper_ratio = PAPER_KSVD_SECONDS / PAPER_SECONDS
    return claim(
        "The paper's method reaches K-SVD's final error and sparsity in less time.",
        f"{PAPER_SECONDS:.0f} s (13 iterations) against {PAPER_KSVD_SECONDS:.0f} s: {paper_ratio:.1f} times sooner",
        f"{_tell_ratio(trials, 'paper_sooner')}; {_tell_arrival(entry, ksvd['seconds'])}",
        trials.is_times("paper_sooner", 1.0),
    )


def _sooner_than_from_samples(trials: _Trials, samples: dict[str, Any]) -> dict[str, Any]:
    key = "paper_sooner_than_from_samples"
    return claim(
        "It also does so if K-SVD starts from random patches instead of cosines.",
        "the start of K-SVD is not stated",
        f"{_tell_ratio(trials, key)}; K-SVD from patches took {samples['seconds']:.2f} s",
        trials.is_times(key, 1.0),
    )


def _iterations(trials: _Trials, paper: dict[str, Any]) -> dict[str, Any]:
    return claim(
        "Its iterations are cheaper than K-SVD's, especially the first ones.",
        f"{PAPER_ITERATIONS} iterations in the time of K-SVD's first {PAPER_KSVD_ITERATIONS}",
        f"{_range(trials['iterations'], '.0f')} of {paper['iterations']} iterations in the time of K-SVD's first"
        f" {PAPER_KSVD_ITERATIONS}",
        trials.decide(
            trials["iterations"], PAPER_ITERATIONS - 1, PAPER_ITERATIONS, f"{PAPER_ITERATIONS} iterations or more"
        ),
    )


def _sparser(trials: _Trials, methods: dict[str, dict[str, Any]]) -> dict[str, Any]:
    paper, ksvd = methods[PAPER_METHOD], methods[KSVD_METHOD]
    return claim(
        "It ends with sparser codes than K-SVD, at an error that is no larger.",
        "a clearly lower curve of nonzeros",
        f"{_tell_share(trials, 'share_of_ksvd')}; on fresh patches {_tell_share(trials, 'share_of_ksvd_held')}; in the"
        f" first run {_tell_level(paper, 'train')} against {_tell_level(ksvd, 'train')}",
        trials.is_fewer("share_of_ksvd"),
    )


def _growing(trials: _Trials, methods: dict[str, dict[str, Any]]) -> dict[str, Any]:
    paper, constant = methods[PAPER_METHOD], methods[CONSTANT_METHOD]
    return claim(
        "Letting the number of nonzeros grow costs no quality.",
        "not even slightly",
        f"on fresh patches {_tell_share(trials, 'share_of_constant')}, compared with a constant number; in"
        f" {paper['seconds']:.2f} s against {constant['seconds']:.2f} s",
        trials.is_no_more("share_of_constant"),
    )


def _unused(trials: _Trials, methods: dict[str, dict[str, Any]]) -> dict[str, Any]:
    paper, keep = methods[PAPER_METHOD], methods[PAPER_KEEP_METHOD]
    most = max(int(count or 0) for count in trials["most_unused"])
    verdict = trials.is_fewer("share_of_keep")
    if most == 0:
        verdict = undecided("No atom was ever unused, so none was replaced")
    return claim(
        "Unused atoms are best replaced by the mean residual.",
        "a step of the algorithm; no comparison is given",
        f"on fresh patches {_tell_share(trials, 'share_of_keep')}, compared with leaving them as they are"
        f" ({_tell_level(paper, 'held')} against {_tell_level(keep, 'held')} in the first run); at most {most} atoms"
        " were unused in an iteration",
        verdict,
    )


def _default(trials: _Trials, entry: dict[str, Any], ksvd: dict[str, Any]) -> dict[str, Any]:
    return claim(
        f"coupledict's default reaches K-SVD's final error and sparsity {OUR_GOAL:.0f} times sooner.",
        "our goal for the sparse regime",
        f"{_tell_ratio(trials, 'default_sooner')}, on fresh patches {_tell_ratio(trials, 'default_sooner_held')};"
        f" {_tell_arrival(entry, ksvd['seconds'])}",
        trials.is_times("default_sooner", OUR_GOAL),
        ours=True,
    )
