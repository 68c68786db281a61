"""Hosts that run Linux's own RDMA stack (``rdma_rxe``) in QEMU guests, and what alfirk does with them.

:mod:`alfirk_interop.image` builds what guests boot, from packages of Debian; :mod:`alfirk_mininet.guests`
boots them; :mod:`alfirk_interop.scenarios` has the runs and their checks.  ``interop/run --help`` has the
commands.
"""
