"""What can be wrong with data on disk."""


class MissingDataError(FileNotFoundError):
    """A data set that is not on this machine and could not be put there."""


class CorruptDataError(ValueError):
    """A data file that does not hold what it should."""
