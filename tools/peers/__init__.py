"""Other software switches that do the work of ``bmv2/benches/peers.rs``, where they are installed."""


class NotInstalledError(Exception):
    """A tool or permission that a measurement needs is missing."""
