//! `alfirk check-pcap`: verifies the checksums of the packets in capture files, as their receivers would.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use alfirk_roce::icrc;
use alfirk_roce::wire::{aeth, bth, ethernet, icrc as trailer, ipv4, udp};
use scapy::capture::{self, CaptureError};
use serde::Serialize;

use crate::exit::{print, Failure, Outcome};

const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;
/// Maximum number of bad packets per file whose fault is described; further ones are only counted.
const MAX_DESCRIBED: usize = 5;

/// Check the IPv4, UDP and ICRC checksums of every packet in a capture.
///
/// Reads pcap and pcapng files of Ethernet frames, as --pcap, --trace and tcpdump write them. Prints one line per file, and exits
/// with 1 when a packet is bad.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  alfirk check-pcap /tmp/pcaps/s1-eth2_out.pcap")]
pub struct Args {
    /// Captures in pcap or pcapng format
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Result of checking one capture: frames by kind, and bad frames by fault.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
struct CaptureCounts {
    /// Frames of the capture, of all kinds.
    frames: u64,
    ipv4: u64,
    roce: u64,
    /// Frames with a wrong IPv4 header checksum.
    bad_ipv4: u64,
    /// Frames with a wrong UDP checksum.
    bad_udp: u64,
    /// RoCEv2 packets with a wrong invariant CRC (ICRC).
    bad_icrc: u64,
    /// Frames with a truncated or invalid header.
    malformed: u64,
    /// NAKs other than RNR NAKs.
    naks: u64,
    rnr_naks: u64,
    /// RoCEv2 packets by opcode.
    opcodes: BTreeMap<String, u64>,
    /// Descriptions of the first [`MAX_DESCRIBED`] bad frames.
    bad: Vec<String>,
}

impl CaptureCounts {
    /// Whether no frame has a wrong checksum, a wrong ICRC or an invalid header.
    fn is_good(&self) -> bool {
        self.bad_ipv4 + self.bad_udp + self.bad_icrc + self.malformed == 0
    }
}

/// Why a receiver would drop a frame.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Ipv4(String),
    Udp,
    Icrc { found: u32, expected: u32 },
    Malformed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Ipv4(why) | Fault::Malformed(why) => f.write_str(why),
            Fault::Udp => f.write_str("wrong UDP checksum"),
            Fault::Icrc { found, expected } => {
                write!(f, "ICRC {found:08x} instead of {expected:08x}")
            }
        }
    }
}

/// Runs `alfirk check-pcap`.
pub fn run(args: &Args) -> Outcome {
    let mut files = BTreeMap::new();
    for file in &args.files {
        let refuse = |why| Failure::bad_input(format_args!("{}: {why}", file.display()));
        let content = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
        let found = check_capture(&content).map_err(|error| refuse(error.to_string()))?;
        files.insert(file.as_path(), found);
    }
    let good = files.values().all(CaptureCounts::is_good);
    print(if args.json {
        json(&files)
    } else {
        table(&files)
    })?;
    match good {
        true => Ok(()),
        false => Err(Failure::failed(
            "some packets have an invalid checksum or ICRC, so their receivers drop them",
        )),
    }
}

fn json(files: &BTreeMap<&Path, CaptureCounts>) -> String {
    let object = serde_json::to_string(files).expect("paths of files that were given are text");
    format!("{object}\n")
}

fn table(files: &BTreeMap<&Path, CaptureCounts>) -> String {
    let mut text = String::new();
    for (file, found) in files {
        let CaptureCounts {
            frames,
            roce,
            bad_ipv4,
            bad_udp,
            bad_icrc,
            malformed,
            ..
        } = found;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}: {frames} frames, {roce} of them RoCEv2; wrong IPv4 checksums {bad_ipv4}, UDP checksums {bad_udp}, \
             ICRCs {bad_icrc}; {malformed} malformed",
            file.display()
        );
        for bad in &found.bad {
            let _ = writeln!(text, "    {bad}");
        }
    }
    text
}

/// Checks all frames of a capture with this content. An incomplete last frame, which a killed capture program leaves, is
/// ignored.
///
/// # Errors
/// The content is not a capture of Ethernet frames.
fn check_capture(content: &[u8]) -> Result<CaptureCounts, CaptureError> {
    let mut found = CaptureCounts::default();
    for frame in capture::read(content)? {
        found.frames += 1;
        let Err(fault) = check_frame(&frame.bytes, &mut found) else {
            continue;
        };
        *match fault {
            Fault::Ipv4(_) => &mut found.bad_ipv4,
            Fault::Udp => &mut found.bad_udp,
            Fault::Icrc { .. } => &mut found.bad_icrc,
            Fault::Malformed(_) => &mut found.malformed,
        } += 1;
        if found.bad.len() < MAX_DESCRIBED {
            found.bad.push(format!("frame {}: {fault}", found.frames));
        }
    }
    Ok(found)
}

/// Verifies the headers, the checksums and the ICRC of a frame, and counts its kind in `found`.
fn check_frame(frame: &[u8], found: &mut CaptureCounts) -> Result<(), Fault> {
    let malformed = |error: alfirk_roce::wire::WireError| Fault::Malformed(error.to_string());
    let ethernet = ethernet::View::new_checked(frame).map_err(malformed)?;
    if ethernet.ethertype() != ETHERTYPE_IPV4 {
        return Ok(());
    }
    found.ipv4 += 1;
    let ip = ipv4::View::new_checked(ethernet.payload()).map_err(malformed)?;
    ip.check_checksum()
        .map_err(|error| Fault::Ipv4(error.to_string()))?;
    if ip.protocol() != PROTOCOL_UDP || ip.is_fragment() {
        return Ok(());
    }
    let datagram = udp::View::new_checked(ip.payload()).map_err(malformed)?;
    // A checksum of 0 means that there is none (RFC 768).
    if datagram.checksum() != 0 && !udp_checksum_is_right(&ip) {
        return Err(Fault::Udp);
    }
    if datagram.destination_port() != udp::PORT_ROCE {
        return Ok(());
    }
    found.roce += 1;
    let bth = bth::View::new_checked(datagram.payload()).map_err(malformed)?;
    let opcode = format!("{:?}", bth.opcode());
    *found.opcodes.entry(opcode).or_default() += 1;
    if bth.opcode() == bth::Opcode::Acknowledge {
        let aeth = aeth::View::new_checked(bth.payload()).map_err(malformed)?;
        found.naks += u64::from(matches!(aeth.syndrome(), aeth::Syndrome::Nak(_)));
        found.rnr_naks += u64::from(matches!(aeth.syndrome(), aeth::Syndrome::RnrNak(_)));
    }
    let view = trailer::View::new_checked(ip.whole()).map_err(malformed)?;
    let expected = icrc::compute(view.covered()).map_err(malformed)?;
    match view.icrc() {
        found if found == expected => Ok(()),
        found => Err(Fault::Icrc { found, expected }),
    }
}

/// Verifies the UDP checksum, including the pseudo-header (RFC 768).
fn udp_checksum_is_right(ip: &ipv4::View<'_>) -> bool {
    let payload = ip.payload();
    let mut bytes = Vec::with_capacity(12 + payload.len());
    bytes.extend(ip.source().octets());
    bytes.extend(ip.destination().octets());
    bytes.extend([0, PROTOCOL_UDP]);
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend(payload);
    ipv4::checksum(&bytes) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_packet_io::pcap::PcapWriter;
    use scapy::{Aeth, Bth, Ether, Icrc, Ipv4, Udp};

    /// An ACK with PSN 7, its ICRC computed.
    fn ack() -> Vec<u8> {
        let packet = Ether::new()
            / Ipv4::to("10.0.0.2").src("10.0.0.1").flags("DF")
            / Udp::port(udp::PORT_ROCE).sport(0xc000)
            / Bth::acknowledge(17, 7)
            / Aeth::new().syndrome(0x1f).msn(1)
            / Icrc;
        packet.build().unwrap()
    }

    fn fault(frame: &[u8]) -> Option<Fault> {
        check_frame(frame, &mut CaptureCounts::default()).err()
    }

    #[test]
    fn each_sum_is_checked() {
        let good = ack();
        assert_eq!(fault(&good), None);
        let changed = |at: usize| {
            let mut frame = good.clone();
            frame[at] ^= 1;
            fault(&frame)
        };
        assert!(matches!(changed(14 + 4), Some(Fault::Ipv4(_))));
        assert_eq!(changed(14 + 26), Some(Fault::Udp));
        assert!(matches!(changed(14 + 39), Some(Fault::Icrc { .. })));
        assert!(matches!(changed(14 + 47), Some(Fault::Icrc { .. })));
        // The ICRC masks the traffic class, which may change on the path.
        assert!(matches!(fault(&good[..30]), Some(Fault::Malformed(_))));
        // Ethernet padding is not part of the packet.
        assert_eq!(fault(&[&good[..], &[0; 9]].concat()), None);
    }

    #[test]
    fn captures_are_read_to_their_last_whole_frame() {
        let mut bytes = Vec::new();
        let mut pcap = PcapWriter::new(&mut bytes).unwrap();
        let mut bad = ack();
        bad[60] ^= 0x40;
        for frame in [&ack(), &bad, &ack()] {
            pcap.write(1, frame).unwrap();
        }
        let found = check_capture(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((found.frames, found.roce, found.bad_icrc), (2, 2, 1));
        assert!(found.bad[0].starts_with("frame 2: ICRC"), "{:?}", found.bad);
        let mut pcapng = Vec::new();
        let mut writer = capture::Writer::new(capture::Format::Pcapng, &mut pcapng, "s1").unwrap();
        writer.write(1, &bad).unwrap();
        assert_eq!(check_capture(&pcapng).unwrap().bad_icrc, 1);
        assert!(check_capture(b"GIF89a and so on").is_err());
        assert_eq!(check_capture(b""), Ok(CaptureCounts::default()));
    }
}
