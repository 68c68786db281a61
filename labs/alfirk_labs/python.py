"""Students' programs in Python: loaded from a file, with errors reported as problems."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from alfirk_ptf.live import RunError
from alfirk_ptf.p4runtime import P4RuntimeError, explain

from alfirk_labs.outcome import LabError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")


class StudentError(Exception):
    """An exception of a program, with its line."""


class Program:
    """A program's functions; any exception is raised as a `StudentError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        spec = importlib.util.spec_from_file_location("student", path)
        if spec is None or spec.loader is None:
            message = f"{path} is not a Python file"
            raise LabError(message)
        self._module = importlib.util.module_from_spec(spec)
        sys.modules["student"] = self._module
        try:
            spec.loader.exec_module(self._module)
        except Exception as error:
            message = f"cannot load {path}: {type(error).__name__}: {error}"
            raise LabError(message) from error

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function of the program."""
        function = getattr(self._module, name, None)
        if function is None:
            message = f"the function {name}() is missing"
            raise StudentError(message)
        return self._guarded(lambda: function(*arguments))

    def _guarded(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except (LabError, RunError):
            raise
        except (Exception, P4RuntimeError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(self._path)]
            where = f" (line {lines[-1]})" if lines else ""
            message = f"{_words(error)}{where}"
            raise StudentError(message) from error


def _words(error: Exception) -> str:
    """Describe an error in one line, with P4Runtime's status if a server rejected something."""
    if isinstance(error, grpc.RpcError):
        return explain("the switch's response", error)
    return f"{type(error).__name__}: {error}"


def problem_of(check: Callable[[], str | None]) -> str | None:
    """Run a check of a program; an exception of the program is the problem."""
    try:
        return check()
    except StudentError as error:
        return str(error)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"it returns an unusable value: {error}"
