"""Running studies: one, all of them, or one at every combination of some options."""
