"""Why something cannot be built or run."""

from __future__ import annotations


class InteropError(Exception):
    """One thing that is missing or went wrong, with what to do about it."""
