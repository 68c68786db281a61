"""Packet tests of the data plane: PTF and scapy against a live switch.

`icrc` and `group` compute independently what the controller computes; `packets` builds RoCEv2 packets and the
packets expected from the switch; `p4runtime` programs the switch; `case` has the base classes of the tests in
``cases/``; `run` starts the switch and the tests.
"""
