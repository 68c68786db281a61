"""Alfirk on Mininet: switches, hosts and whole networks from the topology files of this repository.

For scripts of your own, run by ``sudo mininet/run SCRIPT`` or, where alfirk is installed,
``sudo python3 SCRIPT``::

    from alfirk_mininet import AlfirkMininet, Link, Switch
    from mininet.topo import LinearTopo

    net = AlfirkMininet(LinearTopo(3), switch=Switch, link=Link, controller=None)

``python3 -m alfirk_mininet --help`` has the commands.  Only :mod:`alfirk_mininet.nodes`,
:mod:`alfirk_mininet.interfaces`, :mod:`alfirk_mininet.containers` and :mod:`alfirk_mininet.journal` touch
the system; reading and checking topologies needs no root.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Modules of the names for scripts. They are imported on first use, as not every name needs Mininet.
_EXPORTED = {
    "AlfirkMininet": ("network", "AlfirkMininet"),
    "Container": ("containers", "Container"),
    "Host": ("nodes", "AlfirkHost"),
    "Link": ("nodes", "EthernetLink"),
    "Network": ("network", "Network"),
    "NetworkError": ("errors", "NetworkError"),
    "Settings": ("nodes", "Settings"),
    "Switch": ("nodes", "AlfirkSwitch"),
    "Topology": ("topology", "Topology"),
}
__all__ = list(_EXPORTED)


def __getattr__(name: str) -> Any:
    """Import a name for scripts."""
    if name not in _EXPORTED:
        msg = f"module {__name__} has no {name}"
        raise AttributeError(msg)
    module, attribute = _EXPORTED[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
