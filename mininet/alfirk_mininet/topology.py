"""The network as data, read from the YAML that the controller and the simulator read too.

Pure: no root, no Mininet.  The rules are those of ``ctrl/src/topology``; each error names file, line and
column, and says what to do.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network, NetmaskValueError
from pathlib import Path

import yaml

from alfirk_mininet.units import DELAY, RATE, SIZE, Quantity, UnitError

_LOG = logging.getLogger(__name__)

#: The highest port of a switch; 510 and 511 are the CPU's and the drop port.
MAX_PORT = 509
#: Bytes of an Ethernet frame around its IP packet.
ETHERNET_BYTES = 18


class TopologyError(ValueError):
    """A topology file that cannot be used."""


@dataclass(frozen=True)
class Switch:
    """A P4 switch."""

    name: str
    #: P4Runtime device id, 1 or more.
    device_id: int


@dataclass(frozen=True)
class Host:
    """A host with one network port."""

    name: str
    #: The address, and the prefix that the host takes for its own link.
    ip: IPv4Interface
    mac: str


@dataclass(frozen=True)
class End:
    """One end of a link."""

    node: str
    #: The port of a switch; ``None`` for a host, which has one port only.
    port: int | None

    def __str__(self) -> str:
        return self.node if self.port is None else f"{self.node}:{self.port}"


@dataclass(frozen=True)
class Attributes:
    """What a link does to packets, the same in both directions."""

    #: Serialisation rate in bits per second.
    rate_bps: int = 100 * 10**9
    #: Propagation delay in nanoseconds.
    delay_ns: int = 500
    #: The largest IP packet in bytes.
    mtu: int = 4200
    #: The queue at each sending end in bytes of frames.
    queue_bytes: int = 1 << 20


@dataclass(frozen=True)
class Link:
    """A full-duplex link."""

    a: End
    b: End
    attributes: Attributes


@dataclass(frozen=True)
class Topology:
    """A valid network: unique names, ids and addresses, every host on one switch, all in one piece."""

    name: str
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]

    @staticmethod
    def load(path: str | Path) -> Topology:
        """Read and check a topology file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            msg = f"{path}: cannot read the topology: {error.strerror}"
            raise TopologyError(msg) from error
        except UnicodeDecodeError as error:
            msg = f"{path}: not UTF-8 text"
            raise TopologyError(msg) from error
        return Topology.parse(str(path), text)

    @staticmethod
    def parse(file: str, text: str) -> Topology:
        """Read and check the text of a topology; ``file`` is only named in errors."""
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
            msg = f"{file}{place}: {error.problem}"
            raise TopologyError(msg) from error
        except yaml.YAMLError as error:
            msg = f"{file}: not YAML: {error}"
            raise TopologyError(msg) from error
        if root is None:
            msg = f"{file}: the file is empty; see topologies/README.md for its form"
            raise TopologyError(msg)
        return _Reader(file).topology(root)

    def switch_ports(self, switch: str) -> list[int]:
        """List the ports of a switch that have a link, in order."""
        ends = (end for link in self.links for end in (link.a, link.b))
        return sorted(end.port for end in ends if end.node == switch and end.port is not None)


class _Reader:
    """Turns YAML nodes into a topology; knows the names seen so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.switches: dict[str, Switch] = {}
        self.hosts: dict[str, Host] = {}
        self.taken: dict[End, End] = {}
        self.places: dict[str, yaml.Node] = {}

    def fail(self, node: yaml.Node, what: str) -> TopologyError:
        mark = node.start_mark
        return TopologyError(f"{self.file}:{mark.line + 1}:{mark.column + 1}: {what}")

    # The form: mappings with known keys, lists, texts and numbers.

    def mapping(
        self, node: yaml.Node, what: str, required: set[str], optional: set[str]
    ) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"{what} must be a mapping with {', '.join(sorted(required | optional))}")
        fields: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self.text(key_node, "a key")
            if key not in required | optional:
                known = ", ".join(f"`{k}`" for k in sorted(required | optional))
                raise self.fail(key_node, f"unknown key `{key}` in {what}; known are {known}")
            if key in fields:
                raise self.fail(key_node, f"the key `{key}` is given twice; remove one")
            fields[key] = value
        missing = sorted(required - fields.keys())
        if missing:
            raise self.fail(node, f"{what} has no `{missing[0]}`")
        return fields

    def items(self, node: yaml.Node | None, what: str) -> list[yaml.Node]:
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self.fail(node, f"`{what}` must be a list")
        return list(node.value)

    def text(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.fail(node, f"{what} must be a text")
        return str(node.value)

    def number(self, node: yaml.Node, what: str) -> int:
        text = self.text(node, what)
        if not re.fullmatch(r"\d+", text, re.ASCII):
            raise self.fail(node, f"{what}: `{text}` is not a whole number of 0 or more")
        return int(text)

    def quantity(self, node: yaml.Node | None, quantity: Quantity, default: int) -> int:
        if node is None:
            return default
        try:
            return quantity.parse(self.text(node, f"a {quantity.what}"))
        except UnitError as error:
            raise self.fail(node, str(error)) from error

    # The parts of the file.

    def topology(self, root: yaml.Node) -> Topology:
        optional = {"defaults", "switch", "hosts", "links"}
        fields = self.mapping(root, "the topology", {"name", "switches"}, optional)
        name = self.node_name(fields["name"])
        defaults = Attributes()
        if "defaults" in fields:
            own = self.mapping(fields["defaults"], "`defaults`", set(), {"rate", "delay", "mtu", "queue"})
            defaults = self.attributes(fields["defaults"], own, defaults)
        if "switch" in fields:
            known = {"queueing", "speedup", "buffer", "alpha", "pfc"}
            self.mapping(fields["switch"], "`switch`", set(), known)
            _LOG.warning("%s: `switch` is for the simulator: switches here have their own queues", self.file)
        for node in self.items(fields["switches"], "switches"):
            self.switch(node)
        for node in self.items(fields.get("hosts"), "hosts"):
            self.host(node)
        links = tuple(self.link(node, defaults) for node in self.items(fields.get("links"), "links"))
        topology = Topology(name, tuple(self.switches.values()), tuple(self.hosts.values()), links)
        self.check_whole(topology, root)
        return topology

    def node_name(self, node: yaml.Node) -> str:
        name = self.text(node, "a name")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,63}", name, re.ASCII):
            raise self.fail(
                node,
                f"`{name}` cannot be a name; use 1 to 64 letters, digits, `.`, `_` or `-`, a letter first",
            )
        return name

    def new_name(self, node: yaml.Node) -> str:
        name = self.node_name(node)
        if name in self.places:
            raise self.fail(
                node, f"the name `{name}` is taken by another node; names are unique among switches and hosts"
            )
        self.places[name] = node
        return name

    def switch(self, node: yaml.Node) -> None:
        fields = self.mapping(node, "a switch", {"name", "id"}, set())
        name = self.new_name(fields["name"])
        device_id = self.number(fields["id"], f"switch {name}: id")
        if not 1 <= device_id < 1 << 64:
            raise self.fail(
                node, f"switch {name}: id {device_id} is not a P4Runtime device id; use 1 or more"
            )
        for other in self.switches.values():
            if other.device_id == device_id:
                raise self.fail(
                    node,
                    f"switch {name}: id {device_id} is already the id of switch {other.name}; "
                    "give it an unused one",
                )
        self.switches[name] = Switch(name, device_id)

    def host(self, node: yaml.Node) -> None:
        fields = self.mapping(node, "a host", {"name", "ip", "mac"}, set())
        name = self.new_name(fields["name"])
        ip = self.address(name, fields["ip"])
        mac = self.mac(name, fields["mac"])
        for other in self.hosts.values():
            if other.ip.ip == ip.ip:
                raise self.fail(
                    node,
                    f"host {name}: {ip.ip} is already the address of host {other.name}; "
                    "give it an unused one",
                )
            if other.mac == mac:
                raise self.fail(
                    node,
                    f"host {name}: {mac} is already the Ethernet address of host {other.name}; "
                    "give it an unused one",
                )
        self.hosts[name] = Host(name, ip, mac)

    def address(self, host: str, node: yaml.Node) -> IPv4Interface:
        text = self.text(node, f"host {host}: ip")
        address, slash, prefix = text.partition("/")
        try:
            if not slash or not prefix.isdecimal():
                raise AddressValueError(text)
            ip = IPv4Interface((IPv4Address(address), int(prefix)))
        except (AddressValueError, NetmaskValueError) as error:
            raise self.fail(
                node,
                f"host {host}: `{text}` is not an address with its prefix; write it as 10.0.0.1/8",
            ) from error
        network: IPv4Network = ip.network
        if (
            not 1 <= network.prefixlen <= 30
            or ip.ip in (network.network_address, network.broadcast_address)
            or ip.ip.packed[0] in (0, 127)
            or ip.ip.packed[0] >= 224
        ):
            raise self.fail(
                node,
                f"host {host}: {text} is not a host's address; use a unicast address that is neither the "
                "network's nor its broadcast address, and a prefix of 1 to 30 bits",
            )
        return ip

    def mac(self, host: str, node: yaml.Node) -> str:
        text = self.text(node, f"host {host}: mac").lower()
        if not re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", text, re.ASCII):
            raise self.fail(
                node,
                f"host {host}: `{text}` is not an Ethernet address; "
                'write six pairs of hex digits as "02:00:00:00:00:01"',
            )
        if int(text[:2], 16) & 1 or text == "00:00:00:00:00:00":
            raise self.fail(
                node,
                f"host {host}: {text} is not a station's Ethernet address; the lowest bit of its first byte "
                "must be 0, and it must not be all zero",
            )
        return text

    def link(self, node: yaml.Node, defaults: Attributes) -> Link:
        fields = self.mapping(node, "a link", {"ends"}, {"rate", "delay", "mtu", "queue"})
        ends = self.items(fields["ends"], "ends")
        if len(ends) != 2:
            raise self.fail(
                fields["ends"], f'a link has two ends, this one has {len(ends)}; write ends: [h1, "s1:1"]'
            )
        attributes = self.attributes(node, fields, defaults)
        a, b = (self.end(end) for end in ends)
        if a.port is None and b.port is None:
            raise self.fail(
                node, f"hosts {a.node} and {b.node} are linked to each other; link each to a switch"
            )
        if a.node == b.node:
            raise self.fail(node, f"switch {a.node} is linked to itself; a link joins two nodes")
        for end, other in ((a, b), (b, a)):
            if end in self.taken:
                earlier = self.taken[end]
                raise self.fail(
                    node,
                    f"host {end} has a link already, to {earlier}; a host has exactly one"
                    if end.port is None
                    else f"port {end} is used by another link, to {earlier}; each port takes one",
                )
            self.taken[end] = other
        return Link(a, b, attributes)

    def end(self, node: yaml.Node) -> End:
        text = self.text(node, "a link end")
        name, colon, port = text.partition(":")
        if name in self.hosts:
            if colon:
                raise self.fail(
                    node, f"link end `{text}`: {name} is a host and has one port only; write it as {name}"
                )
            return End(name, None)
        if name not in self.switches:
            raise self.fail(
                node, f"link end `{text}`: there is no node `{name}`; list it under switches or hosts"
            )
        if not re.fullmatch(r"\d+", port, re.ASCII):
            raise self.fail(node, f'link end `{text}`: {name} is a switch; say which port, as "{name}:1"')
        if not 1 <= int(port) <= MAX_PORT:
            raise self.fail(node, f"switch {name}: port {port} is out of range; ports are 1 to {MAX_PORT}")
        return End(name, int(port))

    def attributes(self, node: yaml.Node, own: dict[str, yaml.Node], defaults: Attributes) -> Attributes:
        result = Attributes(
            rate_bps=self.quantity(own.get("rate"), RATE, defaults.rate_bps),
            delay_ns=self.quantity(own.get("delay"), DELAY, defaults.delay_ns),
            mtu=self.number(own["mtu"], "mtu") if "mtu" in own else defaults.mtu,
            queue_bytes=self.quantity(own.get("queue"), SIZE, defaults.queue_bytes),
        )
        if result.rate_bps == 0:
            raise self.fail(node, "a rate of 0 carries nothing; use 1bps or more")
        if not 68 <= result.mtu <= 65535:
            raise self.fail(
                node, f"an MTU of {result.mtu} is out of range; IPv4 packets need 68 to 65535 bytes"
            )
        if result.queue_bytes < result.mtu + ETHERNET_BYTES:
            raise self.fail(
                node,
                f"a queue of {result.queue_bytes} bytes holds no frame of an MTU of {result.mtu}; "
                f"use {result.mtu + ETHERNET_BYTES} bytes or more",
            )
        return result

    def check_whole(self, topology: Topology, root: yaml.Node) -> None:
        if not topology.switches:
            raise self.fail(root, "there is no switch; a topology has at least one")
        for host in topology.hosts:
            if End(host.name, None) not in self.taken:
                raise self.fail(self.places[host.name], f"host {host.name} has no link; link it to a switch")
        neighbours: dict[str, list[str]] = {switch.name: [] for switch in topology.switches}
        for link in topology.links:
            if link.a.port is not None and link.b.port is not None:
                neighbours[link.a.node].append(link.b.node)
                neighbours[link.b.node].append(link.a.node)
        first = topology.switches[0].name
        seen, todo = {first}, [first]
        while todo:
            fresh = [name for name in neighbours[todo.pop()] if name not in seen]
            seen.update(fresh)
            todo.extend(fresh)
        for switch in topology.switches:
            if switch.name not in seen:
                raise self.fail(
                    self.places[switch.name],
                    f"switch {switch.name} cannot be reached from switch {first}; a topology is one piece",
                )
