//! Captures in pcap format, written to files.

use std::{
    fs::File,
    io::{self, BufWriter},
    path::Path,
};

use crate::pcap::PcapWriter;

/// A capture in a file.
pub type PcapFile = PcapWriter<BufWriter<File>>;

impl PcapFile {
    /// Creates the file and writes the header of the capture.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: &Path) -> io::Result<PcapFile> {
        PcapWriter::new(BufWriter::new(File::create(path)?))
    }
}
