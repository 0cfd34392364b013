r"""Looks that would come too seldom on whole batches, taken on a part of each: which, on how many samples, and whether.

A mean over samples has, on a part of a batch that was shuffled, gradients and curvatures along a given direction that
are right on average. The largest curvature is on average larger, for the largest of a mean is at most the mean of the
largest. So, as a rule, is that along the part's own gradient, whose noise lies along what is sharp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from secant.monitors.plan import RARE, Account, part, parts

TIMED = 50
"""Steps that are timed before anything is chosen: the time of a step is then known."""

SEARCH = 2
"""What a look in the run may cost more than one that was set up, at most: a search goes on for so many rounds."""

LATEST = 3
"""Calls after which a look that was to be timed once more is no longer waited for."""

WORTH = 0.9
"""Of what a look costs, up to which a part of the batch is worth it. A device that is not full takes as long for it."""

SAME = 1e-5
"""Relative difference up to which two losses are the same, in single precision."""

ROUGH = 2e-3
"""The same on accelerators, which round the factors of products to ten bits."""

NEAR = 0.25
"""And up to which they may be, where each drew random numbers of its own."""


class Tried(NamedTuple):
    """What a look took on all samples, in the run and the second time at one point, and how often it came."""

    seconds: float
    setup: float
    every: float


class Sampling:
    """Chooses, once, on which part of a batch each look is taken: all, half or a quarter.

    It is chosen from what looks and steps were seen to cost. While it is set up, a look is timed the second time at one
    point, where one that follows something has little to do. So they are timed once more, when a step's time is known.

    Args:
        account: of the looks.
        free: whether anything may be chosen: no samples and no cadences were given.
    """

    def __init__(self, account: Account, free: bool) -> None:
        self._account = account
        self._free = free and account.every is None
        self._again: set[str] | None = None
        self._ends = self._size = 0
        self._tried: dict[str, Tried] = {}
        self._setup: dict[str, float] = {}

    def wanted(self, name: str, size: int) -> int:
        """How many samples of a batch a look is taken on."""
        look = self._account.looks[name]
        if look.samples is None:
            return size
        return min(size, look.samples) if look.of is None else part(size, self._account.cut[name])

    def parts(self, name: str) -> int:
        """Into how many parts batches are cut for a look."""
        return self._account.cut.get(name, 1)

    @property
    def asks(self) -> bool:
        """Whether something is to be chosen."""
        return self._free and self._account.counted >= TIMED

    def choose(self, size: Callable[[], int]) -> tuple[list[str], str]:
        """The looks to be taken at this call, and where none can be taken on fewer samples, in a sentence why.

        First those that may come too seldom are to be timed once more; then those that do are to be set up for fewer
        samples.

        Args:
            size: samples of a batch of which any part is like the whole; raises an error that says why there is none.
        """
        account = self._account
        if self._again is None:
            often = self._often(RARE / SEARCH)
            self._again, self._ends = set(often), account.calls + LATEST
            try:
                self._size = size() if often else 0
            except Exception as error:
                self._free = False
                rare = [f"`{name}` comes every {every:.0f} steps" for name, every in often.items() if every > RARE]
                return [], f"{rare[0]} and is looked at on all samples: {error}" if rare else ""
            return list(often), ""
        if self._again and account.calls < self._ends:
            return [], ""
        self._free = False
        often = self._often(RARE)
        chosen = {name: number for name, every in often.items() if (number := parts(every, self._size)) > 1}
        for name, number in chosen.items():
            self._tried[name] = Tried(account.costs[name], self._setup[name], often[name])
            account.shrink(name, number, self._size)
        return list(chosen), ""

    def _often(self, rare: float) -> dict[str, float]:
        """Looks at all samples that come more seldom than every so many steps, and every how many."""
        whole = [one for one in self._account.plan().entries if one.look.samples is None]
        return {one.look.name: one.every for one in whole if one.every > rare and one.look.name in self._setup}

    def asks_for(self, name: str) -> bool:
        """Whether a look is to be timed once more."""
        return self._again is not None and name in self._again

    def once_more(self, name: str) -> bool:
        """Whether a look that was taken now was to be timed once more."""
        asked = self.asks_for(name)
        if self._again is not None:
            self._again.discard(name)
        return asked

    def timed(self, name: str, seconds: float) -> tuple[bool, str]:
        """A look was set up and timed: whether it stays as it is, and what is to be said."""
        tried, look = self._tried.pop(name, None), self._account.looks[name]
        if tried is None:
            self._setup[name] = seconds
            return True, ""
        fewer, share = f"{look.samples} of {look.of} samples", seconds / tried.setup
        if share > WORTH:
            self._account.grow(name, tried.seconds)
            often = f"`{name}` comes every {tried.every:.0f} steps and is looked at on all samples"
            return False, f"{often}: {fewer} take {share:.2g} times as long."
        self._account.prepared(name, share * tried.seconds)
        return True, f"`{name}` is looked at on {fewer}: on all it would come every {tried.every:.0f} steps."

    def failed(self, name: str) -> bool:
        """A look could not be set up: whether that was on fewer samples, so that it is taken on all again."""
        tried = self._tried.pop(name, None)
        if tried is not None:
            self._account.grow(name, tried.seconds)
        return tried is not None


def refused(ab: float, ba: float, aa: float, bb: float, a: float, b: float, same: float = SAME) -> str:
    r"""Why a part of a batch is not like the whole, in a sentence; empty where it is.

    The loss of a batch whose halves are $a$ and $b$ is the sum of a number for each half if it is a mean over samples.
    Then $L(a, b) + L(b, a) = L(a, a) + L(b, b)$, also where random numbers belong to places in the batch, as those of
    dropout do; where samples mix, as by batch norms, it is not.

    Args:
        ab: loss of the batch.
        ba: with its halves exchanged.
        aa: with the first half twice.
        bb: with the second half twice.
        a: of the first half alone.
        b: of the second half alone.
        same: relative difference up to which two losses are the same.

    Example:
        ```python
        from secant.monitors.sampling import refused

        x, y = 1.0, 3.0
        print(repr(refused((x + y) / 2, (x + y) / 2, x, y, x, y)))
        print(refused(x + y, x + y, x + x, y + y, x, y))
        ```
        ```text
        ''
        the loss is no mean over samples.
        ```
    """
    size = max(map(abs, (ab, ba, aa, bb)))
    if not math.isfinite(sum((ab, ba, aa, bb, a, b))):
        return "the loss is not finite."
    slack = same * size
    if abs(aa - bb) <= slack:
        return "the halves of the batch are alike, so that nothing is known of its parts."
    if abs(ab + ba - aa - bb) > slack:
        return "samples mix in the loss, or have weights that differ."
    random = abs(ab - ba) > slack
    off = abs(aa + bb - a - b) / 2 if random else max(abs(aa - a), abs(bb - b))
    return "the loss is no mean over samples." if off > (NEAR * size if random else slack) else ""
