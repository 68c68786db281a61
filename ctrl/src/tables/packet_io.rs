//! The headers of PacketIn and PacketOut.

use alfirk_p4runtime::bytestring;
use alfirk_p4runtime::p4::v1::{PacketIn, PacketMetadata, PacketOut};

use super::schema::{ProgramError, Schema};

/// Header of a PacketIn: metadata of a frame that the pipeline punts to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInHeader {
    /// Why the pipeline punts the frame: one of the `PACKET_IN_*` constants.
    pub reason: u8,
    /// Ingress port of the frame; for `PACKET_IN_ICRC` its egress port.
    pub ingress_port: u32,
}

/// Header of a PacketOut: instructions to the pipeline for the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOutHeader {
    /// What the pipeline does with the payload: one of the `PACKET_OUT_*` constants.
    pub kind: u8,
    /// Egress port of a frame to forward; 0 for other kinds.
    pub egress_port: u32,
}

/// P4Info ids of the metadata fields of both headers.
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

    /// Creates the PacketOut that sends `payload` to the pipeline.
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

    /// Parses the header of a PacketOut, for simulated switches; `None` if a field is missing or too wide.
    pub fn packet_out_header(&self, packet: &PacketOut) -> Option<PacketOutHeader> {
        let [kind, _, egress_port] = self.packet_out;
        Some(PacketOutHeader {
            kind: u8::try_from(field(&packet.metadata, kind, 8)?).ok()?,
            egress_port: u32::try_from(field(&packet.metadata, egress_port, 9)?).ok()?,
        })
    }

    /// Parses the header of a PacketIn; `None` if a field is missing or too wide.
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
