"""Packet tests of the data plane: PTF and scapy against a live switch.

`icrc` and `group` model what the controller computes, apart from it; `packets` builds RoCEv2 packets and
what should become of them; `p4runtime` programs the switch; `case` is what the tests in ``cases/`` build on;
`run` starts everything.
"""
