"""Hosts that run Linux's RDMA stack (``rdma_rxe``) in QEMU guests, and tests of alfirk with them.

:mod:`alfirk_interop.image` builds the guests' boot image from Debian packages; :mod:`alfirk_mininet.guests`
boots guests; :mod:`alfirk_interop.scenarios` defines the runs and their checks.  ``interop/run --help`` lists
the commands.
"""
