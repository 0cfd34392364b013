r"""Looks that would come too seldom on whole batches use a part of each batch: which looks, and on how many samples.

For a loss that is a mean over samples, a part of a shuffled batch has the right gradient on average, and the right
curvature along a given direction. The largest curvature of a part is on average larger than that of the batch, because
the largest eigenvalue of a mean is at most the mean of the largest eigenvalues. As a rule the curvature along the
part's own gradient is larger too, because the noise of this gradient lies along sharp directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from secant.monitors.plan import RARE, Account, part, parts

TIMED = 50
"""Steps that are timed before a part is chosen, so that the time of a step is known."""

SEARCH = 2
"""A look in the run may cost up to this many times its cost at setup, because its search takes more rounds."""

LATEST = 3
"""Calls for which the choice waits for looks that are to be timed once more."""

WORTH = 0.9
"""A part is used if it costs at most this share of the whole. A device that is not full takes as long for a part."""

SAME = 1e-5
"""Relative difference up to which two losses are the same, in single precision."""

ROUGH = 2e-3
"""Relative difference up to which two losses are the same on accelerators, which round factors to ten bits."""

NEAR = 0.25
"""Relative difference up to which two losses are the same if each drew random numbers of its own."""


class Tried(NamedTuple):
    """The cost of a look on all samples, in the run and when it was set up, and the steps between two such looks."""

    seconds: float
    setup: float
    every: float


class Sampling:
    """Chooses once which part of a batch each look uses: all, a half or a quarter.

    The choice rests on the measured costs of looks and steps. While a look is set up, it is timed at its second call at
    the same point, where a look that follows an eigenvector has little to do. The looks are therefore timed once more
    when the time of a step is known.

    Args:
        account: the account of the looks.
        free: whether there is a choice, because neither samples nor cadences were given.
    """

    def __init__(self, account: Account, free: bool) -> None:
        self._account = account
        self._free = free and account.every is None
        self._again: set[str] | None = None
        self._ends = self._size = 0
        self._tried: dict[str, Tried] = {}
        self._setup: dict[str, float] = {}

    def wanted(self, name: str, size: int) -> int:
        """How many samples of a batch a look uses."""
        look = self._account.looks[name]
        if look.samples is None:
            return size
        return min(size, look.samples) if look.of is None else part(size, self._account.cut[name])

    def parts(self, name: str) -> int:
        """Into how many parts batches are cut for a look."""
        return self._account.cut.get(name, 1)

    @property
    def asks(self) -> bool:
        """Whether it is time to choose."""
        return self._free and self._account.counted >= TIMED

    def choose(self, size: Callable[[], int]) -> tuple[list[str], str]:
        """The looks to take at this call; and a sentence that says why, if no look can use fewer samples.

        First, looks that may come too seldom are timed once more. Then, looks that do come too seldom are set up for
        fewer samples.

        Args:
            size: the number of samples in a batch if any part of it is like the whole; else an error that says why.
        """
        account = self._account
        if self._again is None:
            often = self._often(RARE / SEARCH)
            self._again, self._ends = set(often), account.calls + LATEST
            try:
                self._size = size() if often else 0
            except Exception as error:
                self._free = False
                rare = [f"a look at `{name}` comes every {n:.0f} steps" for name, n in often.items() if n > RARE]
                return [], f"{rare[0]} and uses all samples: {error}" if rare else ""
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
        """Looks on all samples that come less often than every `rare` steps -> the steps between two of them."""
        whole = [one for one in self._account.plan().entries if one.look.samples is None]
        return {one.look.name: one.every for one in whole if one.every > rare and one.look.name in self._setup}

    def asks_for(self, name: str) -> bool:
        """Whether a look waits to be timed once more."""
        return self._again is not None and name in self._again

    def once_more(self, name: str) -> bool:
        """Whether the look just taken was to be timed once more; it no longer is."""
        asked = self.asks_for(name)
        if self._again is not None:
            self._again.discard(name)
        return asked

    def timed(self, name: str, seconds: float) -> tuple[bool, str]:
        """Handles a look that was set up and timed: whether it stays so, and a text for the user."""
        tried, look = self._tried.pop(name, None), self._account.looks[name]
        if tried is None:
            self._setup[name] = seconds
            return True, ""
        fewer, share = f"{look.samples} of {look.of} samples", seconds / tried.setup
        if share > WORTH:
            self._account.grow(name, tried.seconds)
            often = f"a look at `{name}` comes every {tried.every:.0f} steps and uses all samples"
            return False, f"{often}: {fewer} take {share:.2g} times as long."
        self._account.prepared(name, share * tried.seconds)
        return True, f"looks at `{name}` use {fewer}: on all samples they would come every {tried.every:.0f} steps."

    def failed(self, name: str) -> bool:
        """Handles a look that could not be set up: whether it was on fewer samples, and so goes back to all."""
        tried = self._tried.pop(name, None)
        if tried is not None:
            self._account.grow(name, tried.seconds)
        return tried is not None


def refused(ab: float, ba: float, aa: float, bb: float, a: float, b: float, same: float = SAME) -> str:
    r"""A sentence that says why a part of a batch is not like the whole; empty if it is.

    If the loss is a mean over samples, the loss of a batch with halves $a$ and $b$ is a sum of one number for each
    half. Then $L(a, b) + L(b, a) = L(a, a) + L(b, b)$, even if random numbers belong to places in the batch, as those
    of dropout do. If samples mix, as they do in batch norms, the equation fails.

    Args:
        ab: loss of the batch.
        ba: loss with the halves exchanged.
        aa: loss of the first half twice.
        bb: loss of the second half twice.
        a: loss of the first half alone.
        b: loss of the second half alone.
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
        the loss is not a mean over samples.
        ```
    """
    size = max(map(abs, (ab, ba, aa, bb)))
    if not math.isfinite(sum((ab, ba, aa, bb, a, b))):
        return "the loss is not finite."
    slack = same * size
    if abs(aa - bb) <= slack:
        return "the halves of the batch are alike, so they cannot show whether a part is like the whole."
    if abs(ab + ba - aa - bb) > slack:
        return "the loss mixes samples, or weighs them differently."
    random = abs(ab - ba) > slack
    off = abs(aa + bb - a - b) / 2 if random else max(abs(aa - a), abs(bb - b))
    return "the loss is not a mean over samples." if off > (NEAR * size if random else slack) else ""
