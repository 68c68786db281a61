"""Errors of networks."""

from __future__ import annotations


class NetworkError(Exception):
    """An error that prevents or ends a network, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
