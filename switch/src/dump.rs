//! The first bytes of frames in the log (`--dump-packet-data`).

use tracing::info;

use super::logging::TARGET;

/// Logs the first bytes of each frame, up to this number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dump(pub usize);

impl Dump {
    #[inline]
    pub fn received(self, port: u32, frame: &[u8]) {
        if self.0 > 0 {
            let (len, hex) = (frame.len(), self.hex(frame));
            info!(target: TARGET, "Received packet of length {len} on port {port}: {hex}");
        }
    }

    #[inline]
    pub fn sending(self, port: u32, frame: &[u8]) {
        if self.0 > 0 {
            let (len, hex) = (frame.len(), self.hex(frame));
            info!(target: TARGET, "Sending packet of length {len} on port {port}: {hex}");
        }
    }

    fn hex(self, frame: &[u8]) -> String {
        let bytes = frame.iter().take(self.0);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}
