"""JSON lines for the program that started us."""

from __future__ import annotations

import contextlib
import json
import sys


def say(**message: object) -> None:
    """Print one event."""
    # Whoever listened may be gone: then nobody is left to tell, and stdin closes too.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def failed(what: str, hint: str) -> int:
    """Report a failure; return the exit code."""
    say(event="failed", what=what, hint=hint)
    return 1
