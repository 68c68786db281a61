//! A hostile member of a group, for tests. Besides the packets of its honest queue pair, it sends frames that may harm
//! the group. They are drawn at random: every [`Kind`], from its own address, with PSNs around the window in flight.
//!
//! Other members must not be affected. Acknowledgements of packets that others lack, packets that only the source may
//! send, and malformed frames must have no effect.
//!
//! NAKs that a receiver may send are an exception. Any member may make the source resend a packet or wait, as on a
//! reliable connection. So sequence NAKs and RNR NAKs are drawn only with PSNs for which no receiver sends them,
//! outside of [`Hostile::is_plausible`]. Fatal NAKs (codes 1 to 3) are not drawn: any member may end the connection,
//! and the source gets the error.
//!
//! Selective NAKs are drawn with every PSN. Groups with go-back-N drop them. With selective repeat, a selective NAK of
//! a packet in flight makes the source resend just that packet, so it can only slow the group down.

use std::net::Ipv4Addr;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::icrc;
use crate::wire::{bth, ethernet, ipv4, mrp, udp, MacAddr, NakCode, Opcode, Psn, QpNum, Syndrome};

const IP_AT: usize = ethernet::HEADER_LEN;
const UDP_AT: usize = IP_AT + ipv4::HEADER_LEN;
const BTH_AT: usize = UDP_AT + udp::HEADER_LEN;
const BODY_AT: usize = BTH_AT + bth::HEADER_LEN;
const ICRC_LEN: usize = 4;
/// Length in bytes of the longest frame, as on links with the usual MTU of 1,500 bytes.
const MAX_FRAME_LEN: usize = ethernet::HEADER_LEN + 1_500;

const SEND_ONLY: u8 = 0x04;
const WRITE_ONLY: u8 = 0x0a;
const READ_REQUEST: u8 = 0x0c;
const ACKNOWLEDGE: u8 = 0x11;
const FETCH_ADD: u8 = 0x14;
const SEND_ONLY_INVALIDATE: u8 = 0x17;
const CNP: u8 = 0x81;
/// BECN in byte 4 of the BTH.
const BECN: u8 = 0x40;
const ACK: u8 = 0x1f;
/// AETH syndromes to draw: ACKs without and with a credit limit, a sequence error, NAK codes 4 and 31, RNR NAKs with
/// the longest and a usual timer, and a reserved type.
const SYNDROMES: [u8; 8] = [ACK, 0x00, 0x60, 0x64, 0x7f, 0x20, 0x2c, 0x40];
/// Largest number of packets that this member may have received since its last acknowledgement: responders acknowledge
/// at least every 66th packet.
const MAX_UNACKNOWLEDGED: i32 = 66;
/// Largest distance of drawn PSNs beyond both ends of the window in flight.
const PSN_MARGIN: i32 = 4;
/// Half of the PSN space, where the sign of a serial distance changes.
const HALF_PSN_SPACE: i32 = 1 << 23;

/// The group that a hostile member attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// IPv4 address of the group.
    pub mcst_id: Ipv4Addr,
    /// Virtual queue pair number of the group.
    pub virtual_qpn: QpNum,
    /// MAC address to which hosts send packets of groups.
    pub mac: MacAddr,
    /// Initial PSN of the group.
    pub initial_psn: Psn,
    /// Largest number of packets that the group's source has in flight.
    pub window: u32,
}

/// Kind of a hostile frame. Kinds are drawn with equal probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Requests of every opcode: data from a member that is not the source, READs, atomics, SEND with Invalidate,
    /// opcodes of other services, reserved opcodes.
    Request,
    /// ACKNOWLEDGE packets with every syndrome but fatal NAKs, with forged MSNs and report counts.
    Acknowledgement,
    /// The last ACK again: as this member's queue pair could send it, but with malformed headers.
    MalformedAcknowledgement,
    /// CNPs with valid and invalid ICRCs.
    Cnp,
    /// Requests and acknowledgements with malformed headers.
    MalformedFrame,
    /// Registration packets: random ones, and a single one repeated.
    Registration,
}

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::Request,
        Kind::Acknowledgement,
        Kind::MalformedAcknowledgement,
        Kind::Cnp,
        Kind::MalformedFrame,
        Kind::Registration,
    ];
}

/// Field or property of a frame that is malformed.
#[derive(Debug, Clone, Copy)]
enum Malformation {
    /// VLAN tags: 802.1Q, 802.1ad, VLAN 0, several tags.
    Tags,
    Ttl,
    /// Type of service that contains CE, ECT or a DSCP.
    Tos,
    IpLength,
    UdpLength,
    /// IPv4 options, fragments, an invalid version or checksum.
    IpHeader,
    UdpChecksum,
    SourcePort,
    TransportVersion,
    PadCount,
    MigReq,
    SolicitedEvent,
    /// Reserved bits of the BTH, FECN and BECN.
    Reserved,
    PKey,
    DestQp,
    WrongIcrc,
    /// Bytes after the ICRC, up to an IPv4 length of 1,500.
    Trailer,
    Cut,
    /// Source address of another host or of the group.
    SourceAddress,
}

impl Malformation {
    const ALL: [Malformation; 19] = [
        Malformation::Tags,
        Malformation::Ttl,
        Malformation::Tos,
        Malformation::IpLength,
        Malformation::UdpLength,
        Malformation::IpHeader,
        Malformation::UdpChecksum,
        Malformation::SourcePort,
        Malformation::TransportVersion,
        Malformation::PadCount,
        Malformation::MigReq,
        Malformation::SolicitedEvent,
        Malformation::Reserved,
        Malformation::PKey,
        Malformation::DestQp,
        Malformation::WrongIcrc,
        Malformation::Trailer,
        Malformation::Cut,
        Malformation::SourceAddress,
    ];
}

/// Generator of hostile frames. It is reproducible for a seed and a sequence of calls.
#[derive(Debug)]
pub struct Hostile {
    ip: Ipv4Addr,
    mac: MacAddr,
    target: Target,
    rng: ChaCha8Rng,
    /// Newest PSN that this member has received from the group's source.
    position: Psn,
    /// The one registration packet that is sent repeatedly.
    repeated: Vec<u8>,
}

impl Hostile {
    /// Creates a hostile member with the addresses `ip` and `mac`, which attacks the group `target`.
    pub fn new(ip: Ipv4Addr, mac: MacAddr, target: Target, seed: u64) -> Hostile {
        let mut hostile = Hostile {
            ip,
            mac,
            target,
            rng: ChaCha8Rng::seed_from_u64(seed ^ u64::from(u32::from(ip)) << 32),
            position: target.initial_psn.prev(),
            repeated: Vec::new(),
        };
        hostile.repeated = hostile.registration();
        hostile
    }

    /// The group that is attacked.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sets the newest PSN that this member has received from the group's source.
    pub fn set_position(&mut self, position: Psn) {
        self.position = position;
    }

    /// Updates the newest received PSN from a frame that this member has received.
    pub fn observe_frame(&mut self, frame: &[u8]) {
        let is_ip = ethernet::View::new_checked(frame)
            .is_ok_and(|view| view.ethertype() == ethernet::ETHERTYPE_IPV4);
        let is_group = ipv4::View::new_checked(frame.get(IP_AT..).unwrap_or_default())
            .is_ok_and(|view| view.source() == self.target.mcst_id);
        let is_roce = udp::View::new_checked(frame.get(UDP_AT..).unwrap_or_default())
            .is_ok_and(|view| view.destination_port() == udp::PORT_ROCE);
        let bth = bth::View::new_checked(frame.get(BTH_AT..).unwrap_or_default());
        let (true, true, true, Ok(bth)) = (is_ip, is_group, is_roce, bth) else {
            return;
        };
        if bth.opcode().is_request() && self.position.precedes(bth.psn()) {
            self.position = bth.psn();
        }
    }

    /// Draws a hostile frame of a random kind.
    pub fn frame(&mut self) -> Vec<u8> {
        let kind = self.one_of(&Kind::ALL);
        self.frame_of_kind(kind)
    }

    /// Draws a hostile frame of kind `kind`.
    pub fn frame_of_kind(&mut self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Request => self.request(),
            Kind::Acknowledgement => self.acknowledgement(),
            Kind::MalformedAcknowledgement => {
                let frame = self.last_ack();
                self.malformed(frame)
            }
            Kind::Cnp => self.cnp(),
            Kind::MalformedFrame => {
                let frame = match self.draw(2) {
                    0 => self.request(),
                    _ => self.acknowledgement(),
                };
                self.malformed(frame)
            }
            Kind::Registration => match self.draw(2) {
                0 => self.registration(),
                _ => self.repeated.clone(),
            },
        }
    }

    /// Whether a receiver with this member's newest PSN may send a NAK of `psn`. That PSN is then after the packets that
    /// the receiver has acknowledged, and the source may have sent it.
    pub fn is_plausible(&self, psn: Psn) -> bool {
        let ahead = psn.distance_from(self.position);
        (-MAX_UNACKNOWLEDGED..=self.window() + PSN_MARGIN).contains(&ahead)
    }

    fn window(&self) -> i32 {
        i32::try_from(self.target.window).map_or(HALF_PSN_SPACE - 1 - PSN_MARGIN, |window| {
            window.clamp(1, HALF_PSN_SPACE - 1 - PSN_MARGIN)
        })
    }

    /// Draws a number below `count`.
    fn draw(&mut self, count: u32) -> u32 {
        self.rng.next_u32() % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.draw(all.len() as u32) as usize]
    }

    /// Draws a number between -`most` and `most`.
    fn draw_signed(&mut self, most: i32) -> i32 {
        let count = 2 * most.unsigned_abs() + 1;
        self.draw(count) as i32 - most
    }

    /// Draws a PSN, mostly around the newest received PSN and around both ends of the window.
    fn psn(&mut self) -> Psn {
        let window = self.window();
        let from_position = match self.draw(8) {
            0..=2 => self.draw_signed(PSN_MARGIN),
            3..=4 => self.draw_signed(window + PSN_MARGIN),
            5 => self.one_of(&[-window, window]) + self.draw_signed(PSN_MARGIN),
            6 => match self.draw(2) {
                0 => HALF_PSN_SPACE + self.draw_signed(PSN_MARGIN),
                _ => {
                    let initial = self.target.initial_psn.distance_from(self.position);
                    initial + self.draw_signed(PSN_MARGIN)
                }
            },
            _ => return Psn::new(self.rng.next_u32()),
        };
        Psn::new(self.position.get().wrapping_add_signed(from_position))
    }

    fn request(&mut self) -> Vec<u8> {
        let opcode = match self.draw(4) {
            0 => self.one_of(&[SEND_ONLY, WRITE_ONLY]),
            1 => self.one_of(&[READ_REQUEST, FETCH_ADD, SEND_ONLY_INVALIDATE]),
            // Acknowledgements are another kind.
            _ => match self.rng.next_u32() as u8 {
                ACKNOWLEDGE | CNP => SEND_ONLY,
                opcode => opcode,
            },
        };
        let psn = self.psn();
        let body = self.one_of(&[0, 4, 16, 28, 64, 16 + 64]);
        self.roce(opcode, psn, body)
    }

    fn acknowledgement(&mut self) -> Vec<u8> {
        let psn = self.psn();
        let syndrome = match self.draw(2) {
            0 => self.one_of(&SYNDROMES),
            _ => self.rng.next_u32() as u8,
        };
        let syndrome = match syndrome.into() {
            Syndrome::RnrNak(_) | Syndrome::Nak(NakCode::PsnSequenceError)
                if self.is_plausible(psn) =>
            {
                ACK
            }
            Syndrome::Nak(
                NakCode::InvalidRequest
                | NakCode::RemoteAccessError
                | NakCode::RemoteOperationalError,
            ) => ACK,
            _ => syndrome,
        };
        // Includes the next and the last report count of a selective NAK.
        let msn = match self.draw(4) {
            0 => 1 + self.draw(3),
            1 => 255,
            2 => 0xff_ffff,
            _ => self.rng.next_u32() & 0xff_ffff,
        };
        self.acknowledge(psn, syndrome, msn)
    }

    /// Creates the ACK that the member's own queue pair sends for everything received.
    fn last_ack(&mut self) -> Vec<u8> {
        let msn = self.draw(3);
        self.acknowledge(self.position, ACK, msn)
    }

    fn acknowledge(&mut self, psn: Psn, syndrome: u8, msn: u32) -> Vec<u8> {
        let mut frame = self.roce(ACKNOWLEDGE, psn, 4);
        frame[BODY_AT..][..4].copy_from_slice(&(u32::from(syndrome) << 24 | msn).to_be_bytes());
        write_icrc(&mut frame);
        frame
    }

    fn cnp(&mut self) -> Vec<u8> {
        let psn = self.psn();
        let mut frame = self.roce(CNP, psn, 16);
        // Usually as a NIC sends it, with reserved bytes after the BTH.
        if self.draw(4) > 0 {
            frame[BODY_AT..][..16].fill(0);
        }
        frame[BTH_AT + 4] = BECN;
        write_icrc(&mut frame);
        if self.draw(2) == 0 {
            self.corrupt_icrc(&mut frame);
        }
        frame
    }

    /// Creates a packet of the group with a random body after its BTH.
    fn roce(&mut self, opcode: u8, psn: Psn, body: usize) -> Vec<u8> {
        let mut frame = self.datagram(udp::PORT_ROCE, bth::HEADER_LEN + body + ICRC_LEN);
        bth::Repr {
            ack_req: self.draw(2) == 0,
            ..bth::Repr::new(Opcode::SendOnly, self.target.virtual_qpn, psn)
        }
        .emit(&mut frame[BTH_AT..]);
        // The opcode type cannot represent every byte.
        frame[BTH_AT] = opcode;
        let end = frame.len() - ICRC_LEN;
        self.rng.fill_bytes(&mut frame[BODY_AT..end]);
        write_icrc(&mut frame);
        frame
    }

    /// Malforms one or two properties of a frame. The ICRC stays valid, unless the ICRC itself is malformed.
    fn malformed(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        for _ in 0..1 + self.draw(2) {
            let malformation = self.one_of(&Malformation::ALL);
            self.malform(&mut frame, malformation);
        }
        frame
    }

    fn malform(&mut self, frame: &mut Vec<u8>, malformation: Malformation) {
        // An earlier change may have truncated the headers, or moved them behind tags.
        let is_plain = frame.len() >= BODY_AT + ICRC_LEN && frame[12..14] == [8, 0];
        if !is_plain {
            return;
        }
        let random = self.rng.next_u32();
        match malformation {
            Malformation::Tags => {
                for _ in 0..1 + self.draw(3) {
                    let tag_type = self.one_of(&[0x8100u16, 0x88a8]);
                    let control = self.one_of(&[0, 1, 0xe064, 0xffff]);
                    let tag = [tag_type.to_be_bytes(), u16::to_be_bytes(control)].concat();
                    frame.splice(12..12, tag);
                }
                return;
            }
            Malformation::Ttl => frame[IP_AT + 8] = self.one_of(&[0, 1, 2, 255]),
            Malformation::Tos => frame[IP_AT + 1] = self.one_of(&[1, 2, 3, 0xb8, 0xff]),
            Malformation::IpLength => {
                let right = (frame.len() - IP_AT) as u16;
                let near = [right - 1, right + 1, right - 4, right + 4];
                let far = [0, 20, 28, 40, 1_500, 0xffff];
                let length = match self.draw(2) {
                    0 => self.one_of(&near),
                    _ => self.one_of(&far),
                };
                frame[IP_AT + 2..][..2].copy_from_slice(&length.to_be_bytes());
            }
            Malformation::UdpLength => {
                let right = (frame.len() - UDP_AT) as u16;
                let lengths = [0, 8, 20, right - 4, right - 1, right + 4, 1_480, 0xffff];
                let length = self.one_of(&lengths);
                frame[UDP_AT + 4..][..2].copy_from_slice(&length.to_be_bytes());
            }
            Malformation::IpHeader => match self.draw(6) {
                0 => frame[IP_AT] = 0x46,
                1 => frame[IP_AT] = 0x44,
                2 => frame[IP_AT] = 0x65,
                3 => frame[IP_AT + 6] = 0x20,
                4 => frame[IP_AT + 7] = 1,
                _ => {
                    frame[IP_AT + 10] ^= 0x55;
                    return;
                }
            },
            Malformation::UdpChecksum => {
                frame[UDP_AT + 6..][..2].copy_from_slice(&random.to_be_bytes()[..2])
            }
            Malformation::SourcePort => {
                frame[UDP_AT..][..2].copy_from_slice(&random.to_be_bytes()[..2]);
            }
            Malformation::TransportVersion => frame[BTH_AT + 1] |= 1 << (random % 4),
            Malformation::PadCount => frame[BTH_AT + 1] |= 0x10 << (random % 2),
            Malformation::MigReq => frame[BTH_AT + 1] ^= 0x40,
            Malformation::SolicitedEvent => frame[BTH_AT + 1] ^= 0x80,
            Malformation::Reserved => match random % 2 {
                0 => frame[BTH_AT + 4] = (random >> 8) as u8,
                _ => frame[BTH_AT + 8] = (random >> 8) as u8,
            },
            Malformation::PKey => {
                frame[BTH_AT + 2..][..2].copy_from_slice(&random.to_be_bytes()[..2])
            }
            Malformation::DestQp => {
                frame[BTH_AT + 5..][..3].copy_from_slice(&random.to_be_bytes()[..3])
            }
            Malformation::WrongIcrc => {
                self.corrupt_icrc(frame);
                return;
            }
            Malformation::Trailer => {
                let room = (MAX_FRAME_LEN - frame.len()) as u32;
                let more = match self.draw(2) {
                    0 => room,
                    _ => 1 + self.draw(64),
                };
                let len = frame.len() + more.min(room) as usize;
                if self.draw(2) == 0 {
                    // The IPv4 length includes the trailer.
                    let total = (len - IP_AT) as u16;
                    frame[IP_AT + 2..][..2].copy_from_slice(&total.to_be_bytes());
                    write_ip_checksum(frame);
                }
                frame.resize(len, 0xaa);
                return;
            }
            Malformation::Cut => {
                let len = IP_AT + self.draw((frame.len() - IP_AT) as u32) as usize;
                frame.truncate(len);
                return;
            }
            Malformation::SourceAddress => {
                let address = match random % 2 {
                    0 => self.target.mcst_id,
                    _ => Ipv4Addr::from(u32::from(self.ip) ^ 1),
                };
                frame[IP_AT + 12..][..4].copy_from_slice(&address.octets());
            }
        }
        write_ip_checksum(frame);
        write_icrc(frame);
    }

    fn corrupt_icrc(&mut self, frame: &mut [u8]) {
        let at = frame.len() - 1 - self.draw(ICRC_LEN as u32) as usize;
        frame[at] ^= 1 << self.draw(8);
    }

    fn registration(&mut self) -> Vec<u8> {
        let nodes = self.one_of(&[0, 1, 2, 20]);
        let mut frame = self.datagram(mrp::PORT, mrp::METADATA_LEN + nodes * mrp::NODE_LEN);
        self.rng.fill_bytes(&mut frame[BTH_AT..]);
        // The version is valid; the kind is arbitrary.
        frame[BTH_AT] = mrp::VERSION << 4 | frame[BTH_AT] & 0xf;
        if self.draw(2) == 0 {
            // The packet is the only one of its registration, with a valid node count.
            frame[BTH_AT + 1..][..3].copy_from_slice(&[0, 1, nodes as u8]);
        }
        if nodes > 0 && self.draw(2) == 0 {
            // The first node is the group itself.
            let node = &mut frame[BTH_AT + mrp::METADATA_LEN..][..mrp::NODE_LEN];
            node[..4].copy_from_slice(&self.target.mcst_id.octets());
            node[4..7].copy_from_slice(&self.target.virtual_qpn.get().to_be_bytes()[1..]);
            node[7] = mrp::NODE_IS_GROUP;
        }
        frame
    }

    fn datagram(&mut self, port: u16, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; BTH_AT + payload];
        ethernet::Repr {
            destination: self.target.mac,
            source: self.mac,
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(&mut frame);
        ipv4::Repr {
            tos: 0,
            payload_len: (udp::HEADER_LEN + payload) as u16,
            identification: self.rng.next_u32() as u16,
            dont_fragment: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            source: self.ip,
            destination: self.target.mcst_id,
        }
        .emit(&mut frame[IP_AT..]);
        udp::Repr {
            source_port: 0xc000,
            destination_port: port,
            payload_len: payload as u16,
        }
        .emit(&mut frame[UDP_AT..]);
        frame
    }
}

/// Computes the ICRC of a frame and writes it to the last four bytes.
fn write_icrc(frame: &mut [u8]) {
    let end = frame.len() - ICRC_LEN;
    let crc = icrc::compute(&frame[IP_AT..end]).expect("the packet has all headers");
    frame[end..].copy_from_slice(&crc.to_le_bytes());
}

/// Computes the IPv4 header checksum of a frame and writes it to the header.
fn write_ip_checksum(frame: &mut [u8]) {
    frame[IP_AT + 10..][..2].fill(0);
    let sum = ipv4::checksum(&frame[IP_AT..UDP_AT]);
    frame[IP_AT + 10..][..2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
