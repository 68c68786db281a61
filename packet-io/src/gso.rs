//! Generic segmentation offload (GSO) of the sending side: joins consecutive segments of a TCP stream to a
//! super-frame, which the kernel segments again.
//!
//! For each sent frame the kernel runs the path from the packet socket to the device, and wakes the receiver. For a
//! super-frame it does both once, and produces the same frames. This is the inverse of [`offload`](super::offload).
//! It is used only where the resulting frames have the same bytes: TCP over IPv4 without VLAN tags.

use std::ops::Range;

use super::{
    offload::{fold, get16, get32, put16, sum, VNET_HEADER},
    sys::BATCH,
};

const ETHERNET: usize = 14;
/// Length of the longest headers: Ethernet, IPv4 and TCP, each with all options.
const HEADERS: usize = ETHERNET + 60 + 60;
/// Maximum length of an IPv4 packet.
const MAX_PACKET: usize = 65_535;

const TCP: u8 = 6;
const FIN_PSH: u8 = 0x09;
const ACK: u8 = 0x10;

/// A TCP segment in a frame, which may start or continue a super-frame.
struct Segment<'a> {
    frame: &'a [u8],
    tcp: usize,
    payload: usize,
}

/// Consecutive TCP segments of a batch that are sent as one super-frame.
pub struct SuperFrame {
    headers: [u8; VNET_HEADER + HEADERS],
    len: usize,
    /// Indexes of the joined frames in the batch; at least two.
    pub frames: Range<usize>,
}

impl SuperFrame {
    /// Finds the first super-frame of a batch at index `from` or later; `None` if there is none.
    pub fn find(frames: &[Vec<u8>], from: usize) -> Option<SuperFrame> {
        (from..frames.len().saturating_sub(1)).find_map(|at| SuperFrame::starting_at(frames, at))
    }

    fn starting_at(frames: &[Vec<u8>], at: usize) -> Option<SuperFrame> {
        let first = Segment::parse(&frames[at])?;
        // The cheapest tests come first: most frames do not start a super-frame.
        let second = Segment::parse(&frames[at + 1])?;
        if !second.follows(&first, 1, first.bytes()) || !first.is_right() {
            return None;
        }
        let size = first.bytes();
        let mut bytes = size;
        let mut end = at + 1;
        let mut last = first.flags();
        let behind = &frames[..frames.len().min(at + BATCH)];
        while let Some(next) = behind.get(end).and_then(|frame| Segment::parse(frame)) {
            let fits = first.frame.len() - ETHERNET + bytes + next.bytes() - size <= MAX_PACKET;
            // Only the last segment may be shorter or have flags that the kernel keeps there.
            let goes_on = last & FIN_PSH == 0 && bytes % size == 0;
            if !fits || !goes_on || !next.follows(&first, end - at, bytes) || !next.is_right() {
                break;
            }
            bytes += next.bytes();
            last = next.flags();
            end += 1;
        }
        (end - at > 1).then(|| first.super_frame(size, bytes, last, at..end))
    }

    /// Headers of the super-frame: a `virtio_net_hdr`, and the headers of its segments. They replace the headers of the
    /// first frame.
    pub fn headers(&self) -> &[u8] {
        &self.headers[..self.len]
    }

    /// Offset of the TCP payload in each of the frames.
    pub fn payload(&self) -> usize {
        self.len - VNET_HEADER
    }
}

impl<'a> Segment<'a> {
    /// Parses a frame that TCP segmentation could have produced; `None` for other frames. Does not check checksums.
    fn parse(frame: &'a [u8]) -> Option<Segment<'a>> {
        /// All bits but "don't fragment".
        const FRAGMENT: u16 = 0xbfff;
        if frame.len() < ETHERNET + 40 || frame[23] != TCP || frame[12..14] != [0x08, 0] {
            return None;
        }
        let ip = usize::from(frame[14] & 0xf) * 4;
        let tcp = ETHERNET + ip;
        let payload = tcp + usize::from(*frame.get(tcp + 12)? >> 4) * 4;
        let is_whole = get16(frame, 20) & FRAGMENT == 0;
        let has_its_length = usize::from(get16(frame, 16)) == frame.len() - ETHERNET;
        let has_data = payload < frame.len() && payload >= tcp + 20 && ip >= 20;
        if frame[14] >> 4 != 4 || !is_whole || !has_its_length || !has_data {
            return None;
        }
        let segment = Segment {
            frame,
            tcp,
            payload,
        };
        // SYN, RST, URG, ECE and CWR must not be copied to every segment.
        (segment.flags() & !FIN_PSH == ACK).then_some(segment)
    }

    fn bytes(&self) -> usize {
        self.frame.len() - self.payload
    }

    fn flags(&self) -> u8 {
        self.frame[self.tcp + 13]
    }

    /// Whether the kernel would produce this frame as segment `number` of a super-frame that starts with `first`, after `bytes` of its
    /// payload.
    fn follows(&self, first: &Segment, number: usize, bytes: usize) -> bool {
        let (f, g, tcp) = (self.frame, first.frame, self.tcp);
        let equal = |range: Range<usize>| f[range.clone()] == g[range];
        self.payload == first.payload
            && tcp == first.tcp
            && self.bytes() <= first.bytes()
            && get16(f, 18) == get16(g, 18).wrapping_add(number as u16)
            && get32(f, tcp + 4) == get32(g, tcp + 4).wrapping_add(bytes as u32)
            && equal(0..16)
            && equal(20..24)
            && equal(26..tcp + 4)
            && equal(tcp + 8..tcp + 13)
            && equal(tcp + 14..tcp + 16)
            && equal(tcp + 18..self.payload)
    }

    /// Whether the checksums of IP and TCP are those that the kernel would compute. The kernel never writes a checksum
    /// of 0 as all ones.
    fn is_right(&self) -> bool {
        get16(self.frame, 24) != 0xffff
            && get16(self.frame, self.tcp + 16) != 0xffff
            && fold(sum(&self.frame[ETHERNET..self.tcp])) == 0xffff
            && fold(self.pseudo_sum(self.frame.len() - self.tcp) + sum(&self.frame[self.tcp..]))
                == 0xffff
    }

    fn pseudo_sum(&self, len: usize) -> u64 {
        sum(&self.frame[26..34]) + u64::from(TCP) + len as u64
    }

    fn super_frame(
        &self,
        size: usize,
        bytes: usize,
        flags: u8,
        frames: Range<usize>,
    ) -> SuperFrame {
        const NEEDS_CSUM: u8 = 1;
        const GSO_TCPV4: u8 = 1;
        const CHECKSUM: usize = 16;
        let mut headers = [0; VNET_HEADER + HEADERS];
        let len = VNET_HEADER + self.payload;
        let (vnet, all) = headers.split_at_mut(VNET_HEADER);
        vnet[..2].copy_from_slice(&[NEEDS_CSUM, GSO_TCPV4]);
        for (at, value) in [(2, self.payload), (4, size), (6, self.tcp), (8, CHECKSUM)] {
            vnet[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        }
        all[..self.payload].copy_from_slice(&self.frame[..self.payload]);
        put16(all, 16, (self.payload - ETHERNET + bytes) as u16);
        put16(all, 24, 0);
        let checksum = !fold(sum(&all[ETHERNET..self.tcp]));
        put16(all, 24, checksum);
        all[self.tcp + 13] = flags;
        // The kernel completes the checksum of each segment.
        let pseudo = fold(self.pseudo_sum(self.payload - self.tcp + bytes));
        put16(all, self.tcp + CHECKSUM, pseudo);
        SuperFrame {
            headers,
            len,
            frames,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{finish, Offload};

    const SIZE: usize = 100;
    const HEADERS_LEN: usize = ETHERNET + 20 + 32;

    /// A super-frame with a timestamp option, as TCP sends it; IP identification and sequence number wrap within it.
    fn super_frame(payload: usize, flags: u8) -> (Vec<u8>, Offload) {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        f.extend([
            0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        f.extend([0x9c, 0x40, 0x13, 0x89, 0xff, 0xff, 0xff, 0x80, 1, 2, 3, 4]);
        f.extend([0x80, flags, 1, 0xf6, 0, 0, 0, 0]);
        f.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        f.extend((0..payload).map(|i| (i * 7) as u8));
        let len = (f.len() - ETHERNET) as u16;
        put16(&mut f, 16, len);
        let mut header = [0; VNET_HEADER];
        header[..2].copy_from_slice(&[1, 1]);
        for (at, value) in [(4, SIZE), (6, 34), (8, 16)] {
            header[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        }
        (f, Offload::parse(&header))
    }

    fn cut(frame: &mut [u8], offload: Offload) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        assert!(finish(frame, offload, |f| frames.push(f.to_vec())));
        frames
    }

    fn segments(payload: usize, flags: u8) -> Vec<Vec<u8>> {
        let (mut frame, offload) = super_frame(payload, flags);
        cut(&mut frame, offload)
    }

    /// The frames that the kernel makes of a super-frame.
    fn arrive(frames: &[Vec<u8>], super_frame: &SuperFrame) -> Vec<Vec<u8>> {
        let (vnet, headers) = super_frame.headers().split_at(VNET_HEADER);
        let mut frame = headers.to_vec();
        for segment in &frames[super_frame.frames.clone()] {
            frame.extend_from_slice(&segment[super_frame.payload()..]);
        }
        let offload = Offload::parse(vnet.try_into().unwrap());
        assert_eq!((offload.csum_start, offload.csum_offset), (34, Some(16)));
        cut(&mut frame, offload)
    }

    /// The frame ranges of all super-frames of a batch; asserts that they arrive unchanged.
    fn joined(frames: &[Vec<u8>]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(super_frame) = SuperFrame::find(frames, from) {
            assert_eq!(
                arrive(frames, &super_frame),
                frames[super_frame.frames.clone()]
            );
            from = super_frame.frames.end;
            found.push((super_frame.frames.start, from));
        }
        found
    }

    #[test]
    fn segments_of_a_stream_arrive_unchanged() {
        for payload in [2 * SIZE, 5 * SIZE, 5 * SIZE + 1, 6 * SIZE - 1] {
            for flags in [ACK, ACK | 8, ACK | 9] {
                let frames = segments(payload, flags);
                assert_eq!(joined(&frames), [(0, frames.len())], "{payload} {flags:#x}");
            }
        }
    }

    #[test]
    fn super_frames_may_be_between_other_frames() {
        let other = vec![super_frame(0, ACK).0];
        let frames = [
            other.clone(),
            segments(3 * SIZE, ACK),
            other,
            segments(2 * SIZE, ACK),
        ]
        .concat();
        assert_eq!(joined(&frames), [(1, 4), (5, 7)]);
    }

    #[test]
    fn a_short_or_pushed_segment_ends_a_super_frame() {
        let short = segments(3 * SIZE + 20, ACK);
        let pushed = segments(3 * SIZE, ACK | 8);
        for first in [short, pushed] {
            let more = segments(8 * SIZE, ACK);
            let frames = [&first[..], &more[first.len()..]].concat();
            assert_eq!(joined(&frames)[0], (0, first.len()));
        }
    }

    #[test]
    fn segments_with_any_other_changed_byte_arrive_unchanged() {
        let frames = segments(4 * SIZE, ACK);
        for number in 0..frames.len() {
            for at in 0..HEADERS_LEN + 1 {
                for bit in 0..8 {
                    let mut changed = frames.clone();
                    changed[number][at] ^= 1 << bit;
                    joined(&changed);
                }
            }
        }
    }

    #[test]
    fn segments_with_wrong_checksums_are_not_joined() {
        for at in [24, 50, HEADERS_LEN + 10] {
            let mut frames = segments(4 * SIZE, ACK);
            frames[2][at] ^= 1;
            assert_eq!(joined(&frames), [(0, 2)], "byte {at}");
        }
    }

    #[test]
    fn a_super_frame_is_limited_by_packet_length_and_batch() {
        for (size, longest) in [(SIZE, BATCH), (1448, 45)] {
            let (mut frame, offload) = super_frame(80 * size, ACK);
            let segment_size = size;
            let offload = Offload {
                segment_size,
                ..offload
            };
            let frames = cut(&mut frame, offload);
            assert_eq!(joined(&frames), [(0, longest), (longest, 80)]);
        }
    }

    #[test]
    fn truncated_frames_are_not_joined() {
        let frames = segments(2 * SIZE, ACK);
        for len in 0..frames[0].len() {
            let mut short = frames.clone();
            short[0].truncate(len);
            short[1].truncate(len);
            assert!(joined(&short).is_empty(), "{len}");
        }
    }
}
