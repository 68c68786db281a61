"""Tests are named after the facts they state, so any function of a test module is one, unless imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[pytest.Item] | None:
    """Leave out what a test module imports, and helpers, whose names begin with an underscore.

    In modules with a name of the usual kind (test_*.py) the usual rule holds: test_ begins a test.
    """
    module = getattr(obj, "__module__", None)
    imported = module != getattr(collector.obj, "__name__", None)
    helper = collector.path.name.startswith("test_") and not name.startswith(("test_", "Test"))
    return [] if imported or helper else None
