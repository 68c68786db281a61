"""Signals that end a network are blocked during steps that cannot be undone halfway."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

import pytest
from alfirk_mininet.process import signals_blocked


class _Signal(BaseException):
    """Raised by the signal handler."""


def _stop(*_: object) -> NoReturn:
    raise _Signal


def signal_is_handled_after_the_uninterrupted_step() -> None:
    done = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    usual = signal.signal(signal.SIGTERM, _stop)
    try:
        with pytest.raises(_Signal):  # noqa: PT012 - the signal comes at the end of the block
            with signals_blocked():
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("step")
            done.append("next")
    finally:
        signal.signal(signal.SIGTERM, usual)
    assert done == ["step"]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
