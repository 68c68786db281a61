"""The error of builds and runs."""

from __future__ import annotations


class InteropError(Exception):
    """A missing requirement or a failure, with a remedy."""
