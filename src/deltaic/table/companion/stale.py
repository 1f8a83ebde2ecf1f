"""The error of a source that went on without its companion."""

from deltaic.errors import NotFoundError


class StaleCompanionError(NotFoundError):
    """A source file was replaced or deleted since it was indexed: refresh the companion, then ask again."""
