"""Learning from batches: running sums over the codes of all batches, and the atoms that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..coding.results import PassSums, Sums
from .atoms import AtomGroup
from .updates import Statistics

#: How fast the sums of earlier batches decay: the higher, the sooner. Codes of the lasso change little by little with
#: the atoms, so that sums over few batches are steady, and new ones are worth more.
DECAY, LASSO_DECAY = 2, 8


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

    def absorb(self, found: PassSums, forgetting: float, decay: float = DECAY) -> RunningSums:
        """Return the state after one more batch: older sums decay, the new ones are added, and the atoms are updated.

        Earlier batches were coded with worse dictionaries, so in batch t their sums are multiplied by
        ``(1 - 1 / t) ** decay`` (the forgetting of Mairal et al., 2010, whose exponent is `decay`), and by
        ``1 - forgetting``. This object does not change, so that it is still valid after an interrupt.
        """
        found.check_finite()
        groups = [replace(group, atoms=group.atoms.copy()) for group in self.groups]
        fresh = [found.estimate_complete(g, group.atoms) for g, group in enumerate(groups)]
        n_batches = self.n_batches + 1
        keep = (1 - 1 / n_batches) ** decay * (1 - forgetting)
        sums = fresh
        if self.sums:
            pairs = zip(self.sums, fresh, strict=True)
            sums = [Sums(keep * old.a + new.a, keep * old.b + new.b) for old, new in pairs]
        update = Statistics(n_sweeps=1)
        for group, own in zip(groups, sums, strict=True):
            update.apply(group, own)
        return RunningSums(groups, self.scale, n_batches, sums)
