//! Captures of frames in files: pcap and pcapng, by `alfirk_packet_io`.

use std::io::{self, Write};

use alfirk_packet_io::pcap::{PcapError, PcapFrame, PcapReader, PcapWriter, LINK_TYPE_ETHERNET};
use alfirk_packet_io::pcapng::{self, PcapngError};

/// A frame of a capture.
pub type Frame = PcapFrame;

/// Format of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap with times in nanoseconds.
    Pcap,
    /// pcapng.
    Pcapng,
}

impl Format {
    /// The format that a file name asks for: pcapng for `.pcapng`, else pcap.
    pub fn of_name(name: &str) -> Format {
        match name.to_ascii_lowercase().ends_with(".pcapng") {
            true => Format::Pcapng,
            false => Format::Pcap,
        }
    }
}

/// Reason why bytes are not a capture of Ethernet frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The bytes begin as neither format does.
    #[error("not a capture in pcap or pcapng format")]
    NotCapture,
    /// The bytes are not valid pcap.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The bytes are not valid pcapng.
    #[error(transparent)]
    Pcapng(#[from] PcapngError),
    /// The frames are not Ethernet frames; holds their link type.
    #[error("link type {0}; only Ethernet (1) is supported")]
    NotEthernet(u32),
}

/// Returns the frames of a capture in either format. An incomplete last frame is ignored. Empty input has no frames.
///
/// # Errors
/// If the bytes are not a capture of Ethernet frames.
pub fn read(bytes: &[u8]) -> Result<Vec<Frame>, CaptureError> {
    if pcapng::is_pcapng(bytes) {
        return Ok(pcapng::read(bytes)?);
    }
    let mut reader = PcapReader::default();
    reader.feed(bytes);
    let mut frames = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => break,
            Err(PcapError::NotPcap) => return Err(CaptureError::NotCapture),
            Err(error) => return Err(error.into()),
        }
    }
    match reader.link_type() {
        Some(LINK_TYPE_ETHERNET) => Ok(frames),
        Some(other) => Err(CaptureError::NotEthernet(other)),
        None if bytes.is_empty() => Ok(frames),
        None => Err(CaptureError::NotCapture),
    }
}

/// Writes a capture.
#[derive(Debug)]
pub enum Writer<W> {
    /// pcap.
    Pcap(PcapWriter<W>),
    /// pcapng, with one interface.
    Pcapng(W),
}

impl<W: Write> Writer<W> {
    /// Writes the header of a capture. `interface`: the name of the frames' interface, which only pcapng has.
    ///
    /// # Errors
    /// Of the writer.
    pub fn new(format: Format, mut writer: W, interface: &str) -> io::Result<Writer<W>> {
        Ok(match format {
            Format::Pcap => Writer::Pcap(PcapWriter::new(writer)?),
            Format::Pcapng => {
                pcapng::write_section(&mut writer)?;
                pcapng::write_interface(&mut writer, interface)?;
                Writer::Pcapng(writer)
            }
        })
    }

    /// Appends a frame. `at`: nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// Of the writer.
    pub fn write(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        match self {
            Writer::Pcap(writer) => writer.write(at, frame),
            Writer::Pcapng(writer) => pcapng::write_packet(writer, at, 0, frame, None, None),
        }
    }

    /// Flushes buffered frames.
    ///
    /// # Errors
    /// Of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Writer::Pcap(writer) => writer.flush(),
            Writer::Pcapng(writer) => writer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_return_what_was_written() {
        for (format, name) in [(Format::Pcap, "a.pcap"), (Format::Pcapng, "a.PcapNG")] {
            assert_eq!(Format::of_name(name), format);
            let mut file = Vec::new();
            let mut writer = Writer::new(format, &mut file, "h1").unwrap();
            writer.write(5, b"one").unwrap();
            writer.write(1_700_000_000_000_000_007, b"two").unwrap();
            writer.flush().unwrap();
            let frames = read(&file).unwrap();
            let seen: Vec<_> = frames.iter().map(|f| (f.at, f.bytes.as_slice())).collect();
            assert_eq!(
                seen,
                [(5, &b"one"[..]), (1_700_000_000_000_000_007, b"two")]
            );
        }
    }

    #[test]
    fn other_files_are_rejected() {
        assert_eq!(read(b"text of a file"), Err(CaptureError::NotCapture));
        assert_eq!(read(b"ab"), Err(CaptureError::NotCapture));
        assert_eq!(read(b""), Ok(vec![]));
        let mut file = Vec::new();
        PcapWriter::new(&mut file).unwrap();
        file[20] = 101;
        assert_eq!(read(&file), Err(CaptureError::NotEthernet(101)));
    }
}
