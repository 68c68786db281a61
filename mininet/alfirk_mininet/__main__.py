"""``python3 -m alfirk_mininet``: networks of alfirk switches and hosts on Mininet."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from alfirk_mininet import journal
from alfirk_mininet.binary import find_alfirk
from alfirk_mininet.events import failed


def main() -> int:
    """Run the command line."""
    options = _parser().parse_args()
    run: int = options.run(options)
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="alfirk_mininet", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    network = argparse.ArgumentParser(add_help=False)
    network.add_argument("--topology", type=Path, required=True, metavar="FILE", help="the network")
    network.add_argument(
        "--alfirk",
        type=Path,
        default=find_alfirk(),
        metavar="BIN",
        help="the alfirk command (default: %(default)s)",
    )
    network.add_argument(
        "--workdir", type=Path, metavar="DIR", help="folder for logs and sockets (default: a new one)"
    )
    network.add_argument(
        "--loss",
        type=_probability,
        default=0.0,
        metavar="P",
        help="loss probability of frames on each link, in each direction (default: 0)",
    )
    network.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of everything random (default: 1)"
    )
    network.add_argument(
        "--port-drop",
        type=_port_drop,
        action="append",
        default=[],
        metavar="SWITCH:RULE",
        help="lose chosen frames, with a rule of `alfirk switch --port-drop`",
    )
    network.add_argument("--pcap", type=Path, metavar="DIR", help="folder for captures")

    several = argparse.ArgumentParser(add_help=False)
    several.add_argument(
        "--part",
        type=Path,
        metavar="FILE",
        help="this machine's part of the network, in a file that alfirk writes",
    )

    guests = argparse.ArgumentParser(add_help=False)
    guests.add_argument(
        "--guests",
        type=lambda names: names.split(","),
        default=[],
        metavar="NAMES",
        help="hosts that are QEMU guests with Linux's RDMA stack, separated by commas",
    )
    guests.add_argument(
        "--guest-image", type=Path, metavar="DIR", help="folder of the guests' kernel and image"
    )
    guests.add_argument(
        "--guest-rdma",
        choices=["linux", "alfirk"],
        default="linux",
        help="the RDMA stack that they use (default: %(default)s)",
    )

    emulation = argparse.ArgumentParser(add_help=False)
    emulation.add_argument(
        "--time-scale",
        type=int,
        metavar="N",
        help="links with the rates, delays and queues of the topology, on a clock N times slower",
    )
    emulation.add_argument(
        "--host-model", metavar="MODEL", help="delays of NICs and applications on that clock"
    )
    emulation.add_argument(
        "--pipeline-latency",
        type=int,
        default=0,
        metavar="NS",
        help="latency of a switch's pipeline on that clock",
    )

    parents = [network, several, guests, emulation]
    serve = commands.add_parser("serve", parents=parents, help="run a network for another program")
    serve.set_defaults(run=_serve)
    cli = commands.add_parser(
        "cli", parents=[network], help="run a network with a controller and Mininet's prompt"
    )
    cli.set_defaults(run=_cli)
    clean = commands.add_parser("clean", help="remove the remains of killed runs only")
    clean.set_defaults(run=_clean)
    return parser


def _probability(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        message = f"{text} is not a probability; use 0 to 1"
        raise argparse.ArgumentTypeError(message)
    return value


def _port_drop(text: str) -> tuple[str, str]:
    switch, colon, rule = text.partition(":")
    if not colon:
        message = f"{text} is not of the form SWITCH:RULE, such as s1:2=in,1"
        raise argparse.ArgumentTypeError(message)
    return switch, rule


def _serve(options: argparse.Namespace) -> int:
    problem = _missing()
    if problem:
        return failed(*problem)
    from alfirk_mininet.nodes import Settings  # noqa: PLC0415 - needs Mininet
    from alfirk_mininet.part import Part  # noqa: PLC0415
    from alfirk_mininet.serve import serve  # noqa: PLC0415

    return serve(
        options.topology,
        Settings(
            alfirk=options.alfirk.absolute(),
            workdir=_workdir(options),
            loss=options.loss,
            seed=options.seed,
            pcap=options.pcap and options.pcap.absolute(),
            port_drops=options.port_drop,
            time_scale=options.time_scale,
            host_model=options.host_model,
            pipeline_latency=options.pipeline_latency,
            guests=options.guests,
            guest_image=options.guest_image and options.guest_image.absolute(),
            guest_verbs=options.guest_rdma == "linux",
            part=options.part and Part.load(options.part),
        ),
    )


def _cli(options: argparse.Namespace) -> int:
    problem = _missing()
    if problem:
        sys.stderr.write(f"{problem[0]}: {problem[1]}\n")
        return 1
    from alfirk_mininet.interactive import interact  # noqa: PLC0415 - needs Mininet
    from alfirk_mininet.nodes import Settings  # noqa: PLC0415

    return interact(
        options.topology,
        Settings(
            alfirk=options.alfirk.absolute(),
            workdir=_workdir(options),
            loss=options.loss,
            seed=options.seed,
            pcap=options.pcap and options.pcap.absolute(),
            port_drops=options.port_drop,
            kernel_ip=True,
            rdma=False,
        ),
    )


def _clean(_: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        sys.stderr.write("removing interfaces needs root; run it with sudo\n")
        return 1
    for line in journal.clean():
        sys.stdout.write(f"{line}\n")
    return 0


def _workdir(options: argparse.Namespace) -> Path:
    if options.workdir:
        return Path(options.workdir).absolute()
    return Path(tempfile.mkdtemp(prefix="alfirk-mininet-"))


def _missing() -> tuple[str, str] | None:
    """Return which requirement of Mininet is missing, and how to meet it."""
    if os.geteuid() != 0:
        return "Mininet creates network namespaces, which needs root", "run it with sudo"
    try:
        import mininet  # noqa: F401, PLC0415
    except ImportError:
        return (
            f"{sys.executable} lacks the module mininet",
            "sudo apt-get install mininet, and use /usr/bin/python3",
        )
    return None


if __name__ == "__main__":
    sys.exit(main())
