"""P4 programs, compiled as ``p4c`` does."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfirk.command import execute, failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Program:
    """A compiled program."""

    #: The P4 source file.
    source: Path
    #: Architecture: `v1model`, `tna` or `t2na`.
    arch: str
    #: BMv2 JSON.
    json: dict[str, Any] = field(repr=False)
    #: P4Info as protobuf text.
    p4info: str = field(repr=False)
    #: Warnings of the compiler.
    warnings: str = field(repr=False, default="")

    def save(self, folder: str | Path) -> Path:
        """Write `NAME.json` and `NAME.p4info.txtpb` into a folder; return the path of the JSON."""
        path = Path(folder) / f"{self.source.stem}.json"
        path.write_text(json.dumps(self.json), encoding="utf-8")
        path.with_suffix(".p4info.txtpb").write_text(self.p4info, encoding="utf-8")
        return path


def compile(  # noqa: A001 - the name of the operation
    source: str | Path,
    *,
    arch: str = "v1model",
    include: Sequence[str | Path] = (),
    define: Mapping[str, object] | None = None,
) -> Program:
    """Compile a P4_16 program.

    Args:
        source: path of the program.
        arch: `v1model`, `tna` or `t2na`.
        include: folders that are searched for included files.
        define: macros and their values.

    Raises:
        AlfirkError: the program has errors; the message has them with file, line and column.

    """
    flags = [f"-I{folder}" for folder in include]
    flags += [f"-D{name}={value}" for name, value in (define or {}).items()]
    with tempfile.TemporaryDirectory() as folder:
        out, info = Path(folder) / "program.json", Path(folder) / "program.p4info.txtpb"
        outputs = ["-o", str(out), "--p4runtime-files", str(info)]
        done = execute(["p4c", "--arch", arch, *flags, *outputs, str(source)])
        if done.returncode:
            raise failure(done)
        return Program(
            source=Path(source),
            arch=arch,
            json=json.loads(out.read_text(encoding="utf-8")),
            p4info=info.read_text(encoding="utf-8"),
            warnings=done.stderr.strip(),
        )
