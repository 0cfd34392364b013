"""Random ReLU networks whose moments are measured: sizes at which a number of draws can measure them."""

from secant.lab import Seeded, options


class Shallow(Seeded):
    """A configuration of networks no deeper than a fifth of their width."""

    layers: int = options.layers(2, at_most=20)
    width: int = options.width(20, at_least=20, at_most=300)

    def check(self) -> None:
        """Rare networks dominate the moments of deeper ones."""
        if self.layers > self.width // 5:
            raise ValueError(
                f"layers: must be at most a fifth of width, {self.width // 5}, got {self.layers}. In deeper networks "
                "the moments come from rare networks, which so many draws miss."
            )
