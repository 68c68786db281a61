from typing import Any

from mininet.node import Node

class Intf:
    name: str
    node: Node
    link: Link | None
    ip: str | None
    mac: str | None
    prefixLen: str | int | None
    def __init__(
        self, name: str, node: Node | None = None, port: int | None = None, **params: Any
    ) -> None: ...

class Link:
    intf1: Intf | None
    intf2: Intf | None
    def __init__(
        self,
        node1: Node,
        node2: Node,
        port1: int | None = None,
        port2: int | None = None,
        **params: Any,
    ) -> None: ...
    def intfName(self, node: Node, n: int) -> str: ...
    def makeIntfPair(
        self,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Node | None = None,
        node2: Node | None = None,
        deleteIntfs: bool = True,
    ) -> object: ...

class TCLink(Link): ...
class TCULink(TCLink): ...
class OVSLink(Link): ...
