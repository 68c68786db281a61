"""JSON lines for the parent process."""

from __future__ import annotations

import contextlib
import json
import sys


def print_event(**message: object) -> None:
    """Print one event."""
    # The reader may be gone; then stdin closes, too, which ends the network.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def failed(what: str, hint: str) -> int:
    """Report a failure; return the exit code."""
    print_event(event="failed", what=what, hint=hint)
    return 1
