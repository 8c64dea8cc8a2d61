"""Hypothesis for any number of cases, in rounds that keep its memory small."""

from __future__ import annotations

import faulthandler
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from _main import Figures
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

ROUND = 2000
PATIENCE_SECONDS = 120  # a hundred cases that take so long hang: its stacks are printed and the process ends


def in_rounds(
    cases: st.SearchStrategy[Any], check: Callable[[Any, Counter[str]], None], count: int, seed: int
) -> Figures:
    """Run `check` on `count` cases; raises, with the smallest case found, at the first that fails."""
    seen: Counter[str] = Counter()
    done = 0
    for number in itertools.count():
        if done >= count:
            break

        @seeded(seed * 1_000_003 + number)
        @settings(
            max_examples=min(ROUND, count - done),
            database=None,
            deadline=None,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(cases)
        def one_round(case: Any) -> None:
            nonlocal done
            if done % 100 == 0:
                faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
            check(case, seen)
            done += 1

        one_round()
        faulthandler.cancel_dump_traceback_later()
    return {"cases": done, **dict(sorted(seen.items()))}
