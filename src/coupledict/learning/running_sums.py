"""Learning from batches: running sums over the codes of all batches, and the atoms that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..coding.results import PassSums, Sums
from .atoms import AtomGroup
from .updates import Statistics


@dataclass(frozen=True)
class RunningSums:
    """What a learner keeps between two batches.

    Attributes
    ----------
    groups : list of AtomGroup
        The atoms, in float64; the estimator shows them in the dtype of its samples.
    scale : float
        Power of two that samples are multiplied by.
    n_batches : int
    sums : list of Sums
        One for each group; none before the first batch.
    """

    groups: list[AtomGroup]
    scale: float = 1.0
    n_batches: int = 0
    sums: list[Sums] = field(default_factory=list)

    def absorb(self, found: PassSums, forgetting: float) -> RunningSums:
        """Return the state after one more batch: older sums decay, the new ones are added, and the atoms are updated.

        Earlier batches were coded with worse dictionaries, so in batch t their sums are multiplied by
        ``(1 - 1 / t) ** 2`` (the forgetting of Mairal et al., 2010, with exponent 2), and by ``1 - forgetting``. This
        object does not change, so that it is still valid after an interrupt.
        """
        found.check_finite()
        groups = [replace(group, atoms=group.atoms.copy()) for group in self.groups]
        fresh = [found.estimate_complete(g, group.atoms) for g, group in enumerate(groups)]
        n_batches = self.n_batches + 1
        keep = (1 - 1 / n_batches) ** 2 * (1 - forgetting)
        sums = fresh
        if self.sums:
            pairs = zip(self.sums, fresh, strict=True)
            sums = [Sums(keep * old.a + new.a, keep * old.b + new.b) for old, new in pairs]
        update = Statistics(n_sweeps=1)
        for group, own in zip(groups, sums, strict=True):
            update.apply(group, own)
        return RunningSums(groups, self.scale, n_batches, sums)
