"""Common code of the labs' checks.

`outcome` has the results of a lab's parts, `bench` a live switch with packet sockets on its ports,
`stories` sequences of packets with the expected replies, `cards` RoCE hosts on the switch;
``labs/run`` is in `__main__`.
A lab is a folder with a ``check.py``, whose `LAB` describes it.
"""
