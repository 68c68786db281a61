"""What the labs' checks share.

`outcome` is what a part of a lab came to, `bench` a live switch with packet sockets around it, `stories` what
receivers say and a sender should get, `cards` RoCE hosts behind the switch; ``labs/run`` is in `__main__`.
A lab is a folder with a ``check.py``, whose `LAB` says what to run.
"""
