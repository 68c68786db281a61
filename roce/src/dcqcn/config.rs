//! Parameters of both ends.

use serde::{Deserialize, Serialize};

/// Parameters of DCQCN; names and defaults are those of the paper's section 5.2 and figure 14 unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DcqcnConfig {
    /// Bit/s of the host's port: where every queue pair begins, and the most it gets. At least 1.
    pub line_rate: u64,
    /// Bit/s that a queue pair is never slowed down below; 10 Mbit/s. (The paper has no such bound; NICs do.) A larger one
    /// gives up fairness when many flows meet.
    pub min_rate: u64,
    /// N: nanoseconds between two CNPs of a queue pair; 50 us. A larger one makes senders slower to react.
    pub cnp_interval: u64,
    /// 1/g: how many CNPs, or periods without one, it takes to change alpha by about a factor e; 256.
    pub inverse_gain: u32,
    /// K: nanoseconds without a CNP after which alpha falls; 55 us. Must be larger than `cnp_interval`.
    pub alpha_timer: u64,
    /// T: nanoseconds between two increases of the rate; 55 us.
    pub increase_timer: u64,
    /// B: bytes between two increases of the rate; 10 MB.
    pub byte_counter: u64,
    /// F: increases, by timer or by bytes, that only go back towards the rate before the last decrease; 5.
    pub fast_recovery: u32,
    /// R_AI: bit/s by which the target rate then rises; 40 Mbit/s.
    pub additive_step: u64,
    /// R_HAI: bit/s by which it rises when both timer and bytes have passed fast recovery; 400 Mbit/s. (The paper gives no
    /// value; this is ten times the additive step.)
    pub hyper_step: u64,
    /// Bytes that a queue pair which has been silent, or whose driver was late, may send at once; 8,192. (Not in the paper,
    /// whose NICs are never late.)
    pub burst: u64,
}

impl DcqcnConfig {
    /// The defaults for a port of `line_rate` bit/s.
    pub const fn new(line_rate: u64) -> DcqcnConfig {
        DcqcnConfig {
            line_rate,
            min_rate: 10_000_000,
            cnp_interval: 50_000,
            inverse_gain: 256,
            alpha_timer: 55_000,
            increase_timer: 55_000,
            byte_counter: 10_000_000,
            fast_recovery: 5,
            additive_step: 40_000_000,
            hyper_step: 400_000_000,
            burst: 8_192,
        }
    }
}
