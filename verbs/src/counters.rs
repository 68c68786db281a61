//! Counters that the kernel keeps for an RDMA device, as files in /sys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use alfirk_roce::host::HostStats;

pub(crate) struct Counters {
    port: PathBuf,
    gid_index: u32,
}

impl Counters {
    pub(crate) fn new(device: &str, port: u8, gid_index: u32) -> Counters {
        Counters {
            port: Path::new("/sys/class/infiniband")
                .join(device)
                .join("ports")
                .join(port.to_string()),
            gid_index,
        }
    }

    /// Name of the port's network interface.
    pub(crate) fn interface(&self) -> io::Result<String> {
        let file = self
            .port
            .join("gid_attrs/ndevs")
            .join(self.gid_index.to_string());
        Ok(fs::read_to_string(file)?.trim().to_owned())
    }

    /// Reads the device's counters of RoCE packets (under the names that rxe uses), and the byte counters of its
    /// network interface, which include other traffic. A counter that does not exist reads as 0.
    pub(crate) fn read(&self) -> HostStats {
        let packets = |name| number(&self.port.join("hw_counters").join(name));
        let interface = self.interface().unwrap_or_default();
        let bytes = |name| {
            let folder = Path::new("/sys/class/net")
                .join(&interface)
                .join("statistics");
            number(&folder.join(name))
        };
        HostStats {
            tx_frames: packets("sent_pkts"),
            tx_bytes: bytes("tx_bytes"),
            rx_frames: packets("rcvd_pkts"),
            rx_bytes: bytes("rx_bytes"),
            ..HostStats::default()
        }
    }
}

/// Reads a number from a file; 0 if the file cannot be read or does not contain a number.
fn number(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
