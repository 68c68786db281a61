"""Other software switches that do the work of ``bmv2/benches/peers.rs``, where they are installed."""
