//! Which fields of two packets differ.

use std::fmt;

use crate::dissect::dissect;
use crate::layer::Layer;
use crate::Packet;

/// A difference between an expected and a received packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the layer, from 0, the outermost first.
    pub depth: usize,
    /// Name of the layer.
    pub layer: String,
    /// Name of the field; `None` if the layer itself is missing or another one.
    pub field: Option<String>,
    /// Expected value, as text.
    pub expected: String,
    /// Received value, as text.
    pub received: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            layer,
            expected,
            received,
            ..
        } = self;
        match &self.field {
            Some(field) => write!(
                f,
                "{layer}.{field}: expected {expected}, received {received}"
            ),
            None => write!(
                f,
                "layer {}: expected {expected}, received {received}",
                self.depth + 1
            ),
        }
    }
}

/// Bits and fields that are not compared.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// Bit N of the packets is compared if bit N here is 1; bits after the end are compared.
    pub bits: Vec<u8>,
    /// Fields that are not compared, as `LAYER.FIELD`, or `LAYER` for all of its fields. Upper and lower case are equal.
    pub ignored: Vec<String>,
}

impl Mask {
    /// A mask that ignores these fields.
    pub fn ignoring<'a>(fields: impl IntoIterator<Item = &'a str>) -> Mask {
        Mask {
            bits: Vec::new(),
            ignored: fields.into_iter().map(str::to_owned).collect(),
        }
    }

    fn ignores(&self, layer: &Layer, field: &str) -> bool {
        self.ignored
            .iter()
            .any(|entry| match entry.split_once('.') {
                Some((of, name)) => {
                    crate::packet::has_name(layer, of) && name.eq_ignore_ascii_case(field)
                }
                None => crate::packet::has_name(layer, entry),
            })
    }

    /// Whether a bit is compared, by its position in the packet.
    fn covers(&self, bit: usize) -> bool {
        self.bits
            .get(bit / 8)
            .is_none_or(|byte| byte >> (7 - bit % 8) & 1 == 1)
    }
}

/// Compares frames field by field. Bits that the mask does not cover are taken from the received frame, so that both
/// have the same layers there.
///
/// ```
/// use scapy::{diff_frames, Ether, Ipv4, Mask, Udp};
///
/// let frame = |ttl: u8| (Ether::new() / Ipv4::to("10.0.0.2").ttl(ttl) / Udp::port(9) / "x").build().unwrap();
/// let differences = diff_frames(&frame(64), &frame(63), &Mask::ignoring(["IP.chksum"]));
/// assert_eq!(differences[0].to_string(), "IP.ttl: expected 64, received 63");
/// assert_eq!(differences.len(), 1);
/// ```
pub fn diff_frames(expected: &[u8], received: &[u8], mask: &Mask) -> Vec<Difference> {
    let mut merged = expected.to_vec();
    for (at, byte) in merged.iter_mut().enumerate() {
        let (Some(bits), Some(other)) = (mask.bits.get(at), received.get(at)) else {
            break;
        };
        *byte = *byte & bits | other & !bits;
    }
    diff(&dissect(&merged), &dissect(received), mask)
}

/// Compares packets field by field. Both must be built or dissected: fields that are left to be computed are compared
/// as 0.
pub fn diff(expected: &Packet, received: &Packet, mask: &Mask) -> Vec<Difference> {
    let mut differences = Vec::new();
    // Position of the layer in both packets, in bits.
    let mut starts = (0, 0);
    let depth = expected.layers().len().max(received.layers().len());
    for depth in 0..depth {
        match (expected.layers().get(depth), received.layers().get(depth)) {
            (Some(left), Some(right)) if left.name() == right.name() => {
                diff_layer(depth, left, right, starts, mask, &mut differences);
                starts.0 += left.header().len() * 8;
                starts.1 += right.header().len() * 8;
            }
            (left, right) => {
                differences.extend(diff_rest(depth, left, right, mask, expected, received));
                break;
            }
        }
    }
    differences
}

/// The difference between two stacks that are not the same from `depth` on.
fn diff_rest(
    depth: usize,
    left: Option<&Layer>,
    right: Option<&Layer>,
    mask: &Mask,
    expected: &Packet,
    received: &Packet,
) -> Option<Difference> {
    let name = left.or(right)?.name();
    let ignored = [left, right].into_iter().flatten().all(|layer| {
        mask.ignored
            .iter()
            .any(|entry| crate::packet::has_name(layer, entry))
    });
    if ignored {
        return None;
    }
    let rest = |packet: &Packet| match packet.layers().get(depth..) {
        None | Some([]) => "the end of the packet".to_owned(),
        Some(layers) => {
            let bytes: Vec<u8> = layers.iter().flat_map(|l| l.header()).copied().collect();
            let names = layers.iter().map(Layer::name).collect::<Vec<_>>();
            format!("{} ({})", names.join("/"), shortened(&bytes))
        }
    };
    Some(Difference {
        depth,
        layer: name.to_owned(),
        field: None,
        expected: rest(expected),
        received: rest(received),
    })
}

fn diff_layer(
    depth: usize,
    left: &Layer,
    right: &Layer,
    starts: (usize, usize),
    mask: &Mask,
    differences: &mut Vec<Difference>,
) {
    let protocol = left.protocol();
    for field in protocol.fields.iter() {
        if mask.ignores(left, &field.name) {
            continue;
        }
        let bits = (field.bytes(left.header()), field.bytes(right.header()));
        if bits.0 == bits.1 {
            continue;
        }
        let position = starts.0 + field.position(left.header());
        let width = field.width_in(left.header());
        if let (Some(a), Some(b)) = &bits {
            let is_covered = |bit: &usize| mask.covers(position + bit);
            let differs = |bit: usize| {
                let at = a.len() * 8 - width + bit;
                let value = |bytes: &[u8]| bytes[at / 8] >> (7 - at % 8) & 1;
                value(a) != value(b)
            };
            if a.len() == b.len() && !(0..width).filter(is_covered).any(differs) {
                continue;
            }
        }
        let text = |layer: &Layer, bytes: &Option<Vec<u8>>| match bytes {
            None => "no such field".to_owned(),
            Some(bytes) if left.is_raw() => shortened(bytes),
            Some(_) => field.text(layer.header()).unwrap_or_default(),
        };
        let (mut expected, mut received) = (text(left, &bits.0), text(right, &bits.1));
        if let (true, (Some(a), Some(b))) = (left.is_raw(), &bits) {
            if let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) {
                let from = |bytes: &[u8]| format!("{} from byte {at}", shortened(&bytes[at..]));
                (expected, received) = (from(a), from(b));
            } else {
                let length = |bytes: &[u8]| format!("{} bytes", bytes.len());
                (expected, received) = (length(a), length(b));
            }
        }
        differences.push(Difference {
            depth,
            layer: left.name().to_owned(),
            field: Some(field.name.to_string()),
            expected,
            received,
        });
    }
}

/// Bytes in hexadecimal, at most 16 of them.
fn shortened(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let text = crate::hex(&bytes[..bytes.len().min(SHOWN)]);
    match bytes.len() {
        0 => "nothing".to_owned(),
        length if length > SHOWN => format!("{text}... ({length} bytes)"),
        _ => text,
    }
}
