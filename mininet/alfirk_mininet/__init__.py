"""Alfirk on Mininet: switches, hosts and whole networks from the topology files of this repository.

For scripts of your own::

    from mininet.net import Mininet
    from alfirk_mininet.topology import Topology
    from alfirk_mininet.topo import AlfirkTopo

    topology = Topology.load("topologies/testbed.yaml")
    net = Mininet(topo=AlfirkTopo(topology), controller=None)

``python3 -m alfirk_mininet --help`` has the commands.  Only :mod:`alfirk_mininet.nodes`,
:mod:`alfirk_mininet.interfaces` and :mod:`alfirk_mininet.journal` touch the system; reading and checking
topologies needs no root.
"""
