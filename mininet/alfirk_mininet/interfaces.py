"""veth pairs: names of interfaces, and settings that prevent traffic of the kernel."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.journal import ALIAS
from alfirk_mininet.process import signals_blocked

if TYPE_CHECKING:
    from mininet.node import Node

    from alfirk_mininet.part import Crossing, Part

#: Maximum length of an interface name: IFNAMSIZ without the final zero.
LONGEST_NAME = 15


def switch_interface(name: str, device_id: int, port: int, network: int = 1) -> str:
    """Return the interface name of a switch port: Mininet's ``s1-eth2``, or by device id if that is too long.

    `network` is the number of the network in its namespace (:attr:`Journal.number`): the second
    one has ``n2-s1-eth2``.
    """
    prefix = "" if network == 1 else f"n{network}-"
    usual = f"{prefix}{name}-eth{port}"
    return usual if len(usual) <= LONGEST_NAME else f"{prefix}sw{device_id}-eth{port}"


def host_interface(name: str, number: int = 0) -> str:
    """Return an interface name of a host: Mininet's ``h1-eth0``, or ``eth0`` if that is too long."""
    usual = f"{name}-eth{number}"
    return usual if len(usual) <= LONGEST_NAME else f"eth{number}"


def make_pair(ends: list[tuple[str, int, str | None]], mtu: int, local: list[str]) -> None:
    """Create a veth pair, both ends down.

    Each of the two ``ends`` is a name, a process in the target namespace, and an Ethernet address.  ``local``
    are the names of the ends that stay in the root namespace: ports of a switch, on which the kernel must
    not send.
    """
    first, second = (
        f"{name} mtu {mtu} {f'address {mac} ' if mac else ''}netns {pid}" for name, pid, mac in ends
    )
    commands = [f"link add name {first} type veth peer name {second}"]
    # Without ARP: the kernel would reply for the machine's own addresses.
    commands += [f"link set dev {name} alias {ALIAS} arp off" for name in local]
    done = ip_batch(commands)
    if done.returncode:
        names = " and ".join(name for name, _, _ in ends)
        raise NetworkError(
            f"cannot create the interfaces {names}: {_first_line(done.stderr)}",
            "if another Mininet network uses these names, stop it; if one was killed, "
            "run `sudo mn -c`; otherwise `sudo ip link delete` the name that is in use",
        )
    for name in local:
        _no_ipv6(name)


def make_crossing(part: Part, crossing: Crossing, name: str, node: Node) -> None:
    """Create a node's end of a link to another machine, down: a VXLAN interface, or a veth pair.

    The pair's other end, whose frames ``alfirk vxlan`` forwards, is up.
    """
    mac, mtu = node.params.get("mac"), crossing.attributes.mtu
    if not part.kernel:
        ours = [crossing.outside] if node.inNamespace else [name, crossing.outside]
        make_pair([(name, node.pid, mac), (crossing.outside, os.getpid(), None)], mtu, ours)
        _try([f"link set dev {crossing.outside} up"], crossing.outside)
        return
    made = crossing.outside if node.inNamespace else name
    commands = part.kernel_link(made, crossing)
    commands += [f"link set dev {made} alias {ALIAS}"]
    if node.inNamespace:
        station = f"address {mac} " if mac else ""
        commands += [f"link set dev {made} name {name} {station}netns {node.pid}"]
    else:
        commands += [f"link set dev {made} arp off"]
    _try(commands, name)
    if not node.inNamespace:
        _no_ipv6(name)


def _try(commands: list[str], name: str) -> None:
    done = ip_batch(commands)
    if done.returncode:
        raise NetworkError(
            f"cannot create the interface {name}: {_first_line(done.stderr)}",
            "if another network uses the name, or the VNI and port, stop it; else see `ip -details link`",
        )


def silence_kernel(name: str) -> None:
    """Keep the kernel from replying and sending on a switch port in this namespace."""
    ip_batch([f"link set dev {name} arp off"])
    _no_ipv6(name)


def _no_ipv6(name: str) -> None:
    # With IPv6 the kernel sends router solicitations and multicast reports on every port.
    with contextlib.suppress(OSError):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")


def ip_batch(commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Run commands of ``ip`` up to the first that fails, without interruption by a signal.

    Between the creation of an interface and the setting of our alias, it would not be recognized as ours.
    """
    with signals_blocked():
        return subprocess.run(
            ["ip", "-batch", "-"],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            check=False,
        )


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].removeprefix("RTNETLINK answers: ") if lines else "ip printed nothing"


#: Shell command for a host before its interface goes up: disables IPv6.
DISABLE_IPV6 = "for which in all default; do echo 1 >/proc/sys/net/ipv6/conf/$which/disable_ipv6; done"


def configure_as_nic(pid: int, interface: str) -> None:
    """Disable IPv6 and offloads on a host that Mininet did not create, so that its frames are those of a NIC.

    The commands run from outside, since the host may be a container without them.
    """
    script = f"{DISABLE_IPV6}; {offloads_off(interface)}"
    command = ["nsenter", f"--target={pid}", "--net", "--", "sh", "-c", script]
    subprocess.run(command, capture_output=True, check=False)


def offloads_off(interface: str) -> str:
    """Return the shell command that disables offloads, so that frames are those of a real NIC.

    With offloads, the kernel leaves checksums and segmentation to the other end of a veth pair. They would be
    missing, since the switch reads frames from a packet socket.
    """
    return f"ethtool -K {interface} rx off tx off sg off tso off gso off gro off"
