from collections.abc import Sequence

from mininet.link import Link
from mininet.node import Host, Node, Switch
from mininet.topo import Topo

class Mininet:
    hosts: list[Host]
    switches: list[Switch]
    links: list[Link]
    topo: Topo | None
    def __init__(
        self,
        topo: Topo | None = None,
        controller: None = None,
        build: bool = True,
        autoSetMacs: bool = False,
    ) -> None: ...
    def __getitem__(self, name: str) -> Node: ...
    def build(self) -> None: ...
    def buildFromTopo(self, topo: Topo) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def configLinkStatus(self, src: str, dst: str, status: str) -> None: ...
    def iperf(
        self,
        hosts: Sequence[Host] | None = None,
        l4Type: str = "TCP",
        udpBw: str = "10M",
        fmt: str | None = None,
        seconds: int = 5,
        port: int = 5001,
    ) -> list[str]: ...
    @staticmethod
    def _parseIperf(iperfOutput: str) -> str: ...
