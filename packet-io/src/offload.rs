//! Completes received frames whose checksums, VLAN tags or segmentation the kernel has left to hardware offloads.
//!
//! On a veth pair the sender's kernel may pass frames with a partial checksum, VLAN tags outside the frame, and
//! super-frames: TCP or UDP frames of up to 64 KiB that hardware would segment. A P4 program must process frames as
//! on a wire, so they are completed here as by a network card. The `virtio_net_hdr` of each frame and the packet
//! socket's auxiliary data describe what is missing.

/// The fields of a `struct virtio_net_hdr` that this driver uses, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Offset of the first byte that the checksum covers. It covers all bytes from there to the end of the frame.
    pub csum_start: usize,
    /// Offset of the checksum field from `csum_start`; `None` if the checksum is complete.
    pub csum_offset: Option<usize>,
    /// Whether the frame is a super-frame, and of which protocol.
    pub segments: Segments,
    /// Payload bytes of each segment of a super-frame.
    pub segment_size: usize,
}

/// Whether a frame is ordinary, or a super-frame of a protocol, which must be segmented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segments {
    /// An ordinary frame.
    #[default]
    None,
    /// A super-frame of TCP over IPv4 or IPv6.
    Tcp,
    /// A super-frame of UDP over IPv4 or IPv6 (`UDP_SEGMENT`).
    Udp,
    /// A super-frame of a kind that this driver never requests.
    Other,
}

/// Length in bytes of the `virtio_net_hdr` in front of each frame.
pub const VNET_HEADER: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl Offload {
    /// Parses the bytes of a `virtio_net_hdr`.
    pub fn parse(header: &[u8; VNET_HEADER]) -> Offload {
        let short = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        Offload {
            csum_start: short(6),
            csum_offset: (header[0] & NEEDS_CSUM != 0).then(|| short(8)),
            segments: match header[1] & !GSO_ECN {
                GSO_NONE => Segments::None,
                GSO_TCPV4 | GSO_TCPV6 => Segments::Tcp,
                GSO_UDP_L4 => Segments::Udp,
                _ => Segments::Other,
            },
            segment_size: short(4),
        }
    }

    /// Whether the frame needs no completion.
    pub fn is_finished(&self) -> bool {
        self.csum_offset.is_none() && self.segments == Segments::None
    }
}

/// Completes the checksum of a frame, segments it if it is a super-frame, and passes the resulting frames to `send`.
/// Returns false, and drops the frame, if the frame contradicts `offload`.
pub fn finish(frame: &mut [u8], offload: Offload, mut send: impl FnMut(&[u8])) -> bool {
    match offload.segments {
        Segments::None => {
            if let Some(offset) = offload.csum_offset {
                if !complete_checksum(frame, offload.csum_start, offset) {
                    return false;
                }
            }
            send(frame);
            true
        }
        Segments::Tcp | Segments::Udp => match Headers::find(frame, offload.segments) {
            Some(headers) if offload.segment_size > 0 => {
                segment(frame, headers, offload, &mut send);
                true
            }
            _ => false,
        },
        Segments::Other => false,
    }
}

/// Completes the checksum of a frame, in whose field the kernel has put the sum of the pseudo-header. Returns false if
/// the field is outside of the frame.
fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let at = start + offset;
    if at + 2 > frame.len() {
        return false;
    }
    let sum = fold(sum(&frame[start..]));
    // UDP sends a computed zero as all ones; for other protocols both are equivalent.
    let checksum = if sum == 0xffff { 0xffff } else { !sum };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Offsets of the headers in a super-frame.
#[derive(Clone, Copy, Debug)]
struct Headers {
    ip: usize,
    v6: bool,
    transport: usize,
    payload: usize,
    protocol: u8,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Headers {
    fn find(frame: &[u8], kind: Segments) -> Option<Headers> {
        let mut ip = 12;
        let ethertype = loop {
            let ethertype = u16::from_be_bytes([*frame.get(ip)?, *frame.get(ip + 1)?]);
            ip += 2;
            if ethertype != 0x8100 && ethertype != 0x88a8 {
                break ethertype;
            }
            ip += 2;
        };
        let (v6, protocol, transport) = match ethertype {
            0x0800 => {
                let header = usize::from(frame.get(ip)? & 0xf) * 4;
                (false, *frame.get(ip + 9)?, ip + header)
            }
            // The kernel segments IPv6 packets with extension headers itself.
            0x86dd => (true, *frame.get(ip + 6)?, ip + 40),
            _ => return None,
        };
        let payload = match (kind, protocol) {
            (Segments::Tcp, TCP) => transport + usize::from(frame.get(transport + 12)? >> 4) * 4,
            (Segments::Udp, UDP) => transport + 8,
            _ => return None,
        };
        let smallest = if protocol == TCP { 20 } else { 8 };
        (payload >= transport + smallest && transport >= ip + 20 && payload <= frame.len())
            .then_some(Headers {
                ip,
                v6,
                transport,
                payload,
                protocol,
            })
    }
}

fn segment(frame: &[u8], at: Headers, offload: Offload, send: &mut impl FnMut(&[u8])) {
    let (headers, payload) = frame.split_at(at.payload);
    let pieces = payload.chunks(offload.segment_size);
    let last = pieces.len().saturating_sub(1);
    let mut piece_frame = Vec::with_capacity(at.payload + offload.segment_size);
    for (i, piece) in pieces.enumerate() {
        piece_frame.clear();
        piece_frame.extend_from_slice(headers);
        piece_frame.extend_from_slice(piece);
        let f = &mut piece_frame[..];

        let ip_len = f.len() - at.ip;
        if at.v6 {
            put16(f, at.ip + 4, (ip_len - 40) as u16);
        } else {
            put16(f, at.ip + 2, ip_len as u16);
            let id = get16(f, at.ip + 4).wrapping_add(i as u16);
            put16(f, at.ip + 4, id);
            put16(f, at.ip + 10, 0);
            let checksum = !fold(sum(&f[at.ip..at.transport]));
            put16(f, at.ip + 10, checksum);
        }

        let checksum_at = if at.protocol == TCP {
            const FIN_PSH: u8 = 0x09;
            const CWR: u8 = 0x80;
            let sequence =
                get32(f, at.transport + 4).wrapping_add((i * offload.segment_size) as u32);
            f[at.transport + 4..at.transport + 8].copy_from_slice(&sequence.to_be_bytes());
            if i != last {
                f[at.transport + 13] &= !FIN_PSH;
            }
            if i != 0 {
                f[at.transport + 13] &= !CWR;
            }
            at.transport + 16
        } else {
            put16(f, at.transport + 4, (f.len() - at.transport) as u16);
            at.transport + 6
        };
        put16(f, checksum_at, 0);
        let pseudo = pseudo_sum(f, at);
        let sum = fold(pseudo + sum(&f[at.transport..]));
        let checksum = if sum == 0xffff && at.protocol == UDP {
            0xffff
        } else {
            !sum
        };
        put16(f, checksum_at, checksum);
        send(f);
    }
}

fn pseudo_sum(f: &[u8], at: Headers) -> u64 {
    let addresses = if at.v6 {
        &f[at.ip + 8..at.ip + 40]
    } else {
        &f[at.ip + 12..at.ip + 20]
    };
    sum(addresses) + u64::from(at.protocol) + (f.len() - at.transport) as u64
}

/// Sum of 16-bit words for the Internet checksum, before folding (RFC 1071).
pub(super) fn sum(bytes: &[u8]) -> u64 {
    // In host byte order and in chunks, for speed; the sum of swapped words is the swapped sum.
    let chunks = bytes.chunks_exact(4);
    let mut rest = [0; 4];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    let word = |c: &[u8]| u64::from(u32::from_ne_bytes([c[0], c[1], c[2], c[3]]));
    let sum = word(&rest) + chunks.map(word).sum::<u64>();
    u64::from(u16::from_be_bytes(fold(sum).to_ne_bytes()))
}

/// Folds the sum of an Internet checksum to 16 bits.
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

pub(super) fn get16(f: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([f[at], f[at + 1]])
}

pub(super) fn get32(f: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([f[at], f[at + 1], f[at + 2], f[at + 3]])
}

pub(super) fn put16(f: &mut [u8], at: usize, value: u16) {
    f[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_v4(payload: usize) -> Vec<u8> {
        let mut f = vec![0; 12];
        f.extend([0x08, 0x00]);
        f.extend([
            0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        f.extend([
            0x10, 0, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 0x50, 0x99, 1, 0, 0, 0, 0, 0,
        ]);
        f.extend((0..payload).map(|i| i as u8));
        let len = (f.len() - 14) as u16;
        put16(&mut f, 16, len);
        f
    }

    fn all(frame: &mut [u8], offload: Offload) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        assert!(finish(frame, offload, |f| frames.push(f.to_vec())));
        frames
    }

    fn checks(f: &[u8]) -> bool {
        let kind = if f[23] == TCP {
            Segments::Tcp
        } else {
            Segments::Udp
        };
        let at = Headers::find(f, kind).unwrap();
        fold(sum(&f[at.ip..at.transport])) == 0xffff
            && fold(pseudo_sum(f, at) + sum(&f[at.transport..])) == 0xffff
    }

    #[test]
    fn super_frames_become_frames_with_valid_checksums() {
        let mut frame = tcp_v4(2500);
        let offload = Offload {
            segments: Segments::Tcp,
            segment_size: 1000,
            csum_start: 34,
            csum_offset: Some(16),
        };
        let frames = all(&mut frame, offload);
        assert_eq!(
            frames.iter().map(Vec::len).collect::<Vec<_>>(),
            [1054, 1054, 554]
        );
        assert!(frames.iter().all(|f| checks(f)));
        let ids: Vec<_> = frames.iter().map(|f| get16(f, 18)).collect();
        assert_eq!(ids, [0xffff, 0, 1]);
        let sequences: Vec<_> = frames.iter().map(|f| get32(f, 38)).collect();
        assert_eq!(sequences, [0xffff_fff0, 984, 1984]);
        let flags: Vec<_> = frames.iter().map(|f| f[47]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
        assert_eq!(
            frames[2][54..],
            (2000..2500).map(|i| i as u8).collect::<Vec<_>>()
        );
    }

    #[test]
    fn each_segment_of_a_udp_super_frame_has_its_own_length() {
        let mut frame = tcp_v4(0);
        frame.truncate(34);
        frame[23] = UDP;
        frame.extend([0, 1, 0, 2, 0, 0, 0, 0]);
        frame.extend([7; 150]);
        let offload = Offload {
            segments: Segments::Udp,
            segment_size: 100,
            ..Default::default()
        };
        let frames = all(&mut frame, offload);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [142, 92]);
        assert_eq!(get16(&frames[1], 38), 58);
        assert!(frames.iter().all(|f| checks(f)));
    }

    #[test]
    fn partial_checksums_are_completed() {
        let mut frame = tcp_v4(11);
        let at = Headers::find(&frame, Segments::Tcp).unwrap();
        let ip_checksum = !fold(sum(&frame[14..34]));
        put16(&mut frame, 24, ip_checksum);
        let pseudo = fold(pseudo_sum(&frame, at));
        put16(&mut frame, 50, pseudo);
        let offload = Offload {
            csum_start: 34,
            csum_offset: Some(16),
            ..Default::default()
        };
        assert!(checks(&all(&mut frame, offload)[0]));
    }

    #[test]
    fn frames_that_contradict_their_description_are_dropped() {
        let offload = |segments, csum_start| Offload {
            csum_start,
            csum_offset: Some(16),
            segments,
            segment_size: 100,
        };
        for len in 0..60 {
            let mut frame = tcp_v4(100);
            frame.truncate(len);
            finish(&mut frame, offload(Segments::Tcp, 34), |_| {});
            finish(&mut frame, offload(Segments::Udp, 34), |_| {});
        }
        assert!(!finish(
            &mut tcp_v4(0),
            offload(Segments::None, 60_000),
            |_| {}
        ));
        assert!(!finish(
            &mut tcp_v4(0),
            offload(Segments::Other, 34),
            |_| {}
        ));
    }

    #[test]
    fn virtio_headers_are_parsed() {
        let mut header = [0; VNET_HEADER];
        header[0] = NEEDS_CSUM;
        header[1] = GSO_TCPV4 | GSO_ECN;
        header[4..6].copy_from_slice(&1448u16.to_ne_bytes());
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        header[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let expected = Offload {
            csum_start: 34,
            csum_offset: Some(16),
            segments: Segments::Tcp,
            segment_size: 1448,
        };
        assert_eq!(Offload::parse(&header), expected);
        assert!(Offload::parse(&[0; VNET_HEADER]).is_finished());
    }
}
