"""Errors of data on disk: a missing data set, and a damaged file."""


class MissingDataError(FileNotFoundError):
    """A data set is not on this machine and could not be downloaded or stored."""


class CorruptDataError(ValueError):
    """A data file does not hold what it should."""
