"""Why a network could not be started or did not stay up."""

from __future__ import annotations


class NetworkError(Exception):
    """One thing that went wrong, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
