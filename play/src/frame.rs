//! Frames as layers with named fields, for the page.

use scapy::p4::Program;
use serde::Serialize;

/// A frame: its bytes, and its layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The bytes in hexadecimal.
    pub data: String,
    /// The layers, the outermost first.
    pub layers: Vec<FrameLayer>,
}

/// A layer of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameLayer {
    /// Name of the header in the program, or of the protocol.
    pub name: String,
    /// Offset in the frame in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
    /// The fields, in the order of the wire.
    pub fields: Vec<FrameField>,
}

/// A field of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameField {
    /// Name of the field.
    pub name: String,
    /// The value as text.
    pub value: String,
    /// Offset in the frame in bits.
    pub offset: usize,
    /// Width in bits.
    pub width: usize,
}

/// Splits a frame into the headers that the program's parser extracts; into those of well-known protocols if it extracts none.
pub(crate) fn dissect(bytes: &[u8], program: Option<&Program>) -> scapy::Packet {
    let of_program = program.map(|program| program.dissect(bytes));
    let has_header = |packet: &scapy::Packet| {
        let first = packet.layers().first();
        first.is_some_and(|layer| layer.name() != "Raw")
    };
    of_program
        .filter(has_header)
        .unwrap_or_else(|| scapy::dissect(bytes))
}

/// Describes a dissected packet with these bytes.
pub(crate) fn describe(bytes: &[u8], packet: &scapy::Packet) -> Frame {
    let mut offset = 0;
    let mut layers = Vec::new();
    for layer in packet.layers() {
        let header = layer.header();
        let fields = layer.protocol().fields.iter();
        let fields = fields
            .filter(|field| field.exists(header))
            .map(|field| FrameField {
                name: field.name.to_string(),
                value: field.text(header).unwrap_or_default(),
                offset: offset * 8 + field.position(header),
                width: field.width_in(header),
            });
        layers.push(FrameLayer {
            name: layer.name().to_owned(),
            offset,
            length: header.len(),
            fields: fields.collect(),
        });
        offset += header.len();
    }
    Frame {
        data: scapy::hex(bytes),
        layers,
    }
}
