"""Packet tests of any program: `alfirk ptf` starts this module in a network namespace of its own."""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from alfirk_ptf.live import RunError, compile_program
from alfirk_ptf.runner import Run, coverage_flags, in_work_folder, run_ptf, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

#: P4Runtime's port at the loopback interface, which is that of the namespace.
ADDRESS = "127.0.0.1:9559"
#: BfRuntime's usual port there.
BFRT_ADDRESS = "127.0.0.1:50052"
#: Architectures whose programs have a BfRuntime schema.
TOFINO = ("tna", "t2na")
#: Name of the schema in the folder of the program.
BF_RT_SCHEMA = "bf-rt.json"
#: Ends of the names of P4Info files beside a compiled program.
P4INFO = (".p4info.txtpb", ".p4info.txt", ".p4info")


class _Parser(argparse.ArgumentParser):
    """Parser of what `alfirk ptf` passes, which has the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"alfirk ptf: {message.removeprefix('argument ')}\n")


def main() -> int:
    """Run the tests: return 0 if all passed, 1 if one failed, 2 if they could not be run."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--alfirk", type=Path, required=True)
    parser.add_argument("--switch")
    # `alfirk ptf` has the defaults.
    parser.add_argument("--ports", type=ports, required=True)
    parser.add_argument("--cpu-port", type=int, required=True)
    parser.add_argument("--device-id", type=int, required=True)
    parser.add_argument("--param", type=parameter, action="append", default=[])
    parser.add_argument("--time-limit", type=int, required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("-I", dest="include", action="append", default=[])
    parser.add_argument("-D", dest="define", action="append", default=[])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("program", type=Path)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    return in_work_folder("alfirk ptf", partial(run, options), keep=options.keep)


def ports(text: str) -> tuple[int, ...]:
    """Read port numbers and ranges, such as `0-7,64`."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)) or (dash and int(high) < int(low)):
            msg = f"expected port numbers and ranges such as 0-7,64, found `{part}`"
            raise argparse.ArgumentTypeError(msg)
        found += range(int(low), int(high or low) + 1)
    if len(set(found)) != len(found):
        msg = f"a port is listed twice in `{text}`"
        raise argparse.ArgumentTypeError(msg)
    return tuple(found)


def parameter(text: str) -> tuple[str, object]:
    """Read a test parameter, `NAME=VALUE`: the value is a Python literal, or text."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        msg = f"expected NAME=VALUE, found `{text}`"
        raise argparse.ArgumentTypeError(msg)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


@dataclass(frozen=True)
class Tests:
    """Tests as PTF takes them."""

    folder: Path
    #: Modules, or module.Class; empty for all.
    specs: list[str]


def run(options: argparse.Namespace, work: Path) -> int:
    """Compile the program, and run the tests; return the exit code."""
    if options.cpu_port in options.ports:
        msg = f"--cpu-port {options.cpu_port} is also a port with an interface; leave it out of --ports"
        raise RunError(msg)
    if options.switch and shutil.which(options.switch) is None:
        msg = f"--switch {options.switch}: not an executable"
        raise RunError(msg)
    tests = find_tests(options.folder, options.tests)
    alfirk = options.alfirk.absolute()
    program, p4info = compiled(options, alfirk, work)
    suite = Run(
        program=program,
        p4info=p4info,
        folder=tests.folder,
        tests=tests.specs,
        ports=options.ports,
        switch=[options.switch]
        if options.switch
        else [str(alfirk), "switch", "--trace", *coverage_flags(options.coverage)],
        address=ADDRESS,
        bf_rt_schema=None if options.switch else bf_rt_schema(program),
        bfrt_address=BFRT_ADDRESS,
        device_id=options.device_id,
        cpu_port=options.cpu_port,
        alfirk=alfirk,
        has_trace=not options.switch,
        parameters=dict(options.param),
        directory=Path.cwd(),
        time_limit=options.time_limit,
    )
    return summarise(run_ptf(suite, work))


def compiled(options: argparse.Namespace, alfirk: Path, work: Path) -> tuple[Path, Path]:
    """Compile the program, or find the P4Info of a compiled one; return the paths of both."""
    program = options.program.absolute()
    if not program.is_file():
        msg = f"{options.program}: no such file"
        raise RunError(msg)
    if program.suffix == ".json":
        for end in P4INFO:
            if (p4info := program.with_suffix(end)).is_file():
                return program, p4info
        msg = f"{program.with_suffix(P4INFO[0])}: no such file; P4Runtime needs the P4Info of {program.name}"
        raise RunError(msg)
    flags = [f"--arch={options.arch}", *(f"-I{folder}" for folder in options.include)]
    flags += [f"-D{macro}" for macro in options.define]
    if options.arch in TOFINO:
        flags.append(f"--bf-rt-schema={work / BF_RT_SCHEMA}")
    compiled_program = compile_program(alfirk, program, work, *flags, warn=True)
    return compiled_program, compiled_program.with_suffix(P4INFO[0])


def bf_rt_schema(program: Path) -> Path | None:
    """Return the BfRuntime schema beside a compiled program for Tofino; `None` if there is none."""
    schema = program.with_name(BF_RT_SCHEMA)
    if not schema.is_file():
        return None
    try:
        architecture = json.loads(program.read_bytes()).get("architecture")
    except (ValueError, AttributeError):
        # The switch reports what is wrong with the program.
        return None
    return schema if architecture in TOFINO else None


def find_tests(folder: Path | None, names: list[str]) -> Tests:
    """Find the tests of the command line; `folder` has those that belong to the program."""
    folders: set[Path] = set()
    specs: list[str] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            folders.add(path.absolute())
        elif path.suffix == ".py":
            if not path.is_file():
                msg = f"{path}: no such file"
                raise RunError(msg)
            folders.add(path.parent.absolute())
            specs.append(path.stem)
        else:
            specs.append(name)
    if len(folders) > 1:
        listed = ", ".join(str(path) for path in sorted(folders))
        msg = f"tests are in several folders ({listed}); PTF runs those of one folder at a time"
        raise RunError(msg)
    found = next(iter(folders), folder and folder.absolute())
    if found is None:
        msg = f"no test {specs[0]}: name the folder or the file of the tests"
        raise RunError(msg)
    files = {path.stem: path for path in sorted(found.rglob("*.py"))}
    if not files:
        msg = f"{found} has no tests: no Python files"
        raise RunError(msg)
    for spec in specs:
        check_spec(found, files, spec)
    return Tests(found, specs)


def check_spec(folder: Path, files: Mapping[str, Path], spec: str) -> None:
    """Raise an error if a folder, with these modules, has no such `module` or `module.Class`."""
    module, _, name = spec.partition(".")
    if module not in files:
        msg = f"no test {spec}: {folder} has no {module}.py; modules: {', '.join(files)}"
        raise RunError(msg)
    try:
        tree = ast.parse(files[module].read_bytes())
    except (SyntaxError, ValueError):
        # Python's own message, from PTF, has the place.
        return
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if name and name not in classes:
        msg = f"no test {spec}: {files[module]} has no class {name}; classes: {', '.join(classes) or 'none'}"
        raise RunError(msg)


if __name__ == "__main__":
    sys.exit(main())
