"""Runs a BfRuntime controller of another project, with its code unchanged, against `alfirk switch`.

Needs root, for a network namespace, and the packages grpcio-tools and googleapis-common-protos. The
controller is any command. It runs in the namespace, and finds the Python client of a checkout of
p4lang/open-p4studio where an installation of the vendor's tools has it: below SDE_INSTALL, and in PYTHONPATH.
The other ends of the switch's ports are interfaces of the namespace, for example for scapy. The book has an
example, in "BfRuntime".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bfrt_suites import SwitchError, prepare, running_switch, show
from checks import stop_by_signal

# Where controllers look for the vendor's client.
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/tofino"


def compile_program(args: argparse.Namespace, folder: Path) -> Path:
    """Compile the program; return its JSON, whose name is that by which the controller binds to it."""
    json = folder / f"{args.name or args.program.stem}.json"
    command = [args.alfirk, "p4c", "--arch", args.arch, "-o", str(json)]
    command += ["--bf-rt-schema", str(folder / "bf-rt.json"), *(f"-D{define}" for define in args.define)]
    subprocess.run([*command, str(args.program)], check=True)
    return json


def run_controller(args: argparse.Namespace, folder: Path) -> int:
    """Start the switch and the controller; return the exit code of the controller."""
    packages = folder / SITE
    packages.mkdir(parents=True)
    prepare(args.checkout.resolve(), packages)
    json = compile_program(args, folder)
    log = folder / "switch.log"
    try:
        with running_switch([args.alfirk, "switch"], args.ports, json, log, args.seconds) as enter:
            ends = ", ".join(f"ptf{port}" for port in args.ports)
            show(f"network namespace {enter[-1]}; other ends of the ports: {ends}")
            paths = [str(packages), str(packages / "bfrt_grpc"), os.environ.get("PYTHONPATH", "")]
            environment = {"SDE_INSTALL": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
            command = [*enter, *args.controller]
            result = subprocess.run(command, cwd=args.folder, env=os.environ | environment, check=False)
            return result.returncode
    except SwitchError as error:
        sys.exit(str(error))


def main() -> int:
    """Run the controller."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="checkout of open-p4studio")
    parser.add_argument("program", type=Path, help="P4 program of the controller")
    parser.add_argument("controller", nargs="+", help="command that starts the controller, after --")
    parser.add_argument("--arch", default="tna", choices=["tna", "t2na"], help="architecture of the program")
    parser.add_argument("--name", help="name by which the controller binds to the program")
    parser.add_argument("--define", nargs="*", default=[], help="macros of the program, such as TOFINO=1")
    parser.add_argument("--ports", nargs="+", type=int, default=[0, 4, 8, 12], help="ports with an interface")
    parser.add_argument("--folder", type=Path, default=Path(), help="working directory of the controller")
    parser.add_argument("--alfirk", default="alfirk", help="the alfirk command")
    parser.add_argument("--seconds", type=float, default=60, help="time in which the switch must start")
    args = parser.parse_args()
    stop_by_signal()
    with tempfile.TemporaryDirectory() as temporary:
        return run_controller(args, Path(temporary))


if __name__ == "__main__":
    sys.exit(main())
