"""The journal: entries are written first, and all objects are removed after any interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.process import start_time


class _Signal(BaseException):
    """Raised by a signal handler, at any point of the program."""


@pytest.mark.parametrize("broken", ["write_text", "replace"])
def interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    journal = Journal(tmp_path)
    journal.interfaces(["never-made-1"])
    whole = getattr(Path, broken)

    def stop(path: Path, *arguments: str) -> NoReturn:
        if broken == "write_text":
            # A part of the record is written.
            whole(path, arguments[0][:5])
        raise _Signal

    with monkeypatch.context() as patch:
        patch.setattr(Path, broken, stop)
        with pytest.raises(_Signal):
            journal.interfaces(["never-made-2"])
    assert len(list(tmp_path.iterdir())) == 2, "the last whole record and the draft"
    journal.close()
    assert not list(tmp_path.iterdir())


def clean_keeps_files_of_running_networks(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert not list(tmp_path.iterdir()), "nothing is done yet"
    journal.interfaces(["never-made-1"])
    (written,) = tmp_path.iterdir()
    (tmp_path / "0.draft").write_text("of a process that never was")
    assert clean(tmp_path) == []
    assert list(tmp_path.iterdir()) == [written]
    journal.close()


def networks_in_one_namespace_get_different_numbers(tmp_path: Path) -> None:
    namespace = Path("/proc/self/ns/net").stat().st_ino
    for name, number, where in (("1", 1, namespace), ("2", 2, 0)):
        # Process 1 always runs.
        record: dict[str, object] = {
            "owner": 1,
            "owner_started": start_time(1),
            "interfaces": [],
            "processes": [],
        }
        record |= {"namespace": where, "number": number, "containers": []}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    journal = Journal(tmp_path)
    # The record of another namespace is ignored.
    assert journal.number == 2
    assert journal.number == 2
    journal.close()
    (tmp_path / "1.json").unlink()
    assert Journal(tmp_path).number == 1


def interfaces_of_running_networks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[list[str]] = []
    monkeypatch.setattr("alfirk_mininet.journal._our_interfaces", sorted)
    monkeypatch.setattr("alfirk_mininet.journal.delete_interfaces", deleted.append)
    living = Journal(tmp_path)
    living.interfaces(["s1-eth1"])
    record = json.loads(next(tmp_path.iterdir()).read_text())
    dead = {**record, "owner": 0, "owner_started": 1, "interfaces": ["s1-eth1", "s1-eth2"]}
    (tmp_path / "0.json").write_text(json.dumps(dead))
    # From a namespace that no longer exists.
    gone = {**dead, "namespace": 0, "interfaces": ["s1-eth3"]}
    (tmp_path / "gone.json").write_text(json.dumps(gone))
    assert len(clean(tmp_path)) == 2
    assert sorted(name for names in deleted for name in names) == ["s1-eth2"]
