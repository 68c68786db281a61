"""The journal: written down before it is done, and gone whatever breaks it off."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from alfirk_mininet.journal import Journal, clean


class _Signal(BaseException):
    """What a signal handler raises, wherever the program stands."""


@pytest.mark.parametrize("broken", ["write_text", "replace"])
def write_that_a_signal_breaks_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    journal = Journal(tmp_path)
    journal.interfaces(["never-made-1"])
    whole = getattr(Path, broken)

    def stop(path: Path, *arguments: str) -> NoReturn:
        if broken == "write_text":
            # Half of it is out.
            whole(path, arguments[0][:5])
        raise _Signal

    with monkeypatch.context() as patch:
        patch.setattr(Path, broken, stop)
        with pytest.raises(_Signal):
            journal.interfaces(["never-made-2"])
    assert len(list(tmp_path.iterdir())) == 2, "the last whole record and the draft"
    journal.close()
    assert not list(tmp_path.iterdir())


def clean_leaves_the_files_of_the_living_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert not list(tmp_path.iterdir()), "nothing is done yet"
    journal.interfaces(["never-made-1"])
    (written,) = tmp_path.iterdir()
    (tmp_path / "0.draft").write_text("of a process that never was")
    assert clean(tmp_path) == []
    assert list(tmp_path.iterdir()) == [written]
    journal.close()
