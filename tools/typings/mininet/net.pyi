from mininet.link import Link
from mininet.node import Host, Node, Switch
from mininet.topo import Topo

class Mininet:
    hosts: list[Host]
    switches: list[Switch]
    links: list[Link]
    def __init__(
        self,
        topo: Topo | None = None,
        controller: None = None,
        build: bool = True,
        autoSetMacs: bool = False,
    ) -> None: ...
    def __getitem__(self, name: str) -> Node: ...
    def build(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
