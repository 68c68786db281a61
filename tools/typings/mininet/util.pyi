from collections.abc import Callable, Mapping

from mininet.topo import Topo

def buildTopo(topos: Mapping[str, Callable[..., Topo]], topoStr: str) -> Topo: ...
