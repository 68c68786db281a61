//! From bytes to layers.

use crate::layer::{Layer, ProtocolRef};
use crate::protocols::{BTH, ETHER, ICRC, PAD, PADDING, RAW};
use crate::{Packet, Protocol};

/// Maximum number of layers; deeper bytes are a payload without structure. A hostile packet could have a layer for
/// each of its bytes.
const MAX_LAYERS: usize = 64;

/// Splits an Ethernet frame into its layers. Any bytes have a result: what is not a header of a known protocol is a
/// payload, the layer `Raw`.
///
/// Building the result returns the same bytes.
///
/// ```
/// use scapy::{dissect, Ether, Ipv4, Udp};
///
/// let bytes = (Ether::new() / Ipv4::to("10.0.0.2") / Udp::port(9000) / "hello").build().unwrap();
/// let packet = dissect(&bytes);
/// assert_eq!(packet.layer("IP").unwrap().text("dst").unwrap(), "10.0.0.2");
/// assert_eq!(packet.build().unwrap(), bytes);
/// ```
pub fn dissect(bytes: &[u8]) -> Packet {
    dissect_as(bytes, &ETHER)
}

/// Splits bytes that begin with a header of this protocol.
pub fn dissect_as(bytes: &[u8], outermost: &'static Protocol) -> Packet {
    let mut layers = Vec::new();
    into(&mut layers, bytes, Some(outermost));
    layers.into()
}

/// Appends the layers of `data` to `layers`.
pub(crate) fn into(layers: &mut Vec<Layer>, mut data: &[u8], mut next: Option<&'static Protocol>) {
    // Layers after the payload of an outer one, the innermost last.
    let mut trailers: Vec<Layer> = Vec::new();
    let mut paddings: Vec<&[u8]> = Vec::new();
    while !data.is_empty() {
        let header = next
            .filter(|_| layers.len() < MAX_LAYERS)
            .and_then(|protocol| Some((protocol, (protocol.header_len)(data)?)))
            .filter(|(_, length)| (1..=data.len()).contains(length));
        let Some((protocol, length)) = header else {
            layers.push(received(&RAW, data));
            break;
        };
        let (header, rest) = data.split_at(length);
        layers.push(received(protocol, header));
        let announced = (protocol.payload_len)(header).unwrap_or(rest.len());
        let (mut payload, padding) = rest.split_at(announced.min(rest.len()));
        if !padding.is_empty() {
            paddings.push(padding);
        }
        if std::ptr::eq(protocol, &BTH) {
            payload = split_icrc(header, payload, &mut trailers);
        }
        next = (protocol.next)(layers, payload);
        data = payload;
    }
    layers.extend(trailers.into_iter().rev());
    let paddings = paddings.into_iter().rev();
    layers.extend(paddings.map(|bytes| received(&PADDING, bytes)));
}

/// Separates ICRC and padding from the payload of a BTH.
fn split_icrc<'a>(header: &[u8], payload: &'a [u8], trailers: &mut Vec<Layer>) -> &'a [u8] {
    let Some((covered, icrc)) = payload.split_last_chunk::<4>() else {
        return payload;
    };
    trailers.push(received(&ICRC, icrc));
    let pad_count = header.get(1).map_or(0, |flags| usize::from(flags >> 4 & 3));
    let (payload, padding) = covered.split_at(covered.len().saturating_sub(pad_count));
    if !padding.is_empty() {
        trailers.push(received(&PAD, padding));
    }
    payload
}

pub(crate) fn received(protocol: &'static Protocol, bytes: &[u8]) -> Layer {
    Layer::received(ProtocolRef::Known(protocol), bytes)
}
