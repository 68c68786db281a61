//! The headers of PacketIn and PacketOut.

use alfirk_p4runtime::bytestring;
use alfirk_p4runtime::p4::v1::{PacketIn, PacketMetadata, PacketOut};

use super::schema::{ProgramError, Schema};

/// What the pipeline says of a frame that it punts to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInHeader {
    /// One of the `PACKET_IN_*` constants.
    pub reason: u8,
    /// The port that the frame came from.
    pub ingress_port: u32,
}

/// What the controller says of a frame that it hands to the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOutHeader {
    /// One of the `PACKET_OUT_*` constants.
    pub kind: u8,
    /// Where a forwarded frame leaves; 0 otherwise.
    pub egress_port: u32,
}

/// Ids of the metadata fields.
#[derive(Clone, Debug)]
pub struct PacketIo {
    packet_in: [u32; 3],
    packet_out: [u32; 3],
}

impl PacketIo {
    pub(super) fn resolve(schema: &Schema) -> Result<PacketIo, ProgramError> {
        Ok(PacketIo {
            packet_in: schema.packet_header(
                "packet_in",
                [("reason", 8), ("pad", 7), ("ingress_port", 9)],
            )?,
            packet_out: schema
                .packet_header("packet_out", [("kind", 8), ("pad", 7), ("egress_port", 9)])?,
        })
    }

    /// The message that carries `payload` into the pipeline.
    pub fn packet_out(&self, header: PacketOutHeader, payload: Vec<u8>) -> PacketOut {
        let values = [u64::from(header.kind), 0, u64::from(header.egress_port)];
        let fields = self.packet_out.iter().zip(values);
        PacketOut {
            payload,
            metadata: fields
                .map(|(id, value)| PacketMetadata {
                    metadata_id: *id,
                    value: bytestring::encode(value),
                })
                .collect(),
        }
    }

    /// The header of a message to the pipeline, for who plays the switch; `None` when a field is missing or too wide.
    pub fn packet_out_header(&self, packet: &PacketOut) -> Option<PacketOutHeader> {
        let [kind, _, egress_port] = self.packet_out;
        Some(PacketOutHeader {
            kind: u8::try_from(field(&packet.metadata, kind, 8)?).ok()?,
            egress_port: u32::try_from(field(&packet.metadata, egress_port, 9)?).ok()?,
        })
    }

    /// The header of a message from the pipeline; `None` when a field is missing or too wide.
    pub fn packet_in(&self, packet: &PacketIn) -> Option<PacketInHeader> {
        let [reason, _, ingress_port] = self.packet_in;
        Some(PacketInHeader {
            reason: u8::try_from(field(&packet.metadata, reason, 8)?).ok()?,
            ingress_port: u32::try_from(field(&packet.metadata, ingress_port, 9)?).ok()?,
        })
    }
}

fn field(metadata: &[PacketMetadata], id: u32, width: usize) -> Option<u128> {
    let field = metadata.iter().find(|m| m.metadata_id == id)?;
    bytestring::decode(&field.value, width).ok()
}
