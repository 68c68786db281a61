//! Packet-in and packet-out headers (P4Runtime § 16.1).
//!
//! A packet to or from the controller passes the pipeline with a header in front, whose type has
//! `@controller_header`. This module encodes metadata values to that header and decodes them. Fields are in
//! declaration order, most significant bit first; padding bits fill the last byte.

use alfirk_p4runtime::{
    bytestring,
    p4::{
        config::v1::ControllerPacketMetadata,
        v1::{PacketIn, PacketMetadata, PacketOut},
    },
    Code, Status,
};

use std::{borrow::Cow, sync::Arc};

use super::translation::{self, Translation, Translations, Use};
use alfirk_bmv2::LoadedProgram;

/// Layout of the packet-in or packet-out header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerHeader {
    fields: Vec<Field>,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    id: u32,
    name: String,
    bits: usize,
    offset: usize,
    translation: Option<Arc<Translation>>,
}

impl ControllerHeader {
    /// Computes the layout of a controller header. For fields of translated types, P4Info has the widths of the
    /// controller's values; the header has the widths of the program's.
    pub fn new(
        metadata: &ControllerPacketMetadata,
        program: &LoadedProgram,
        translations: &Translations,
    ) -> ControllerHeader {
        let names: Vec<&str> = metadata.metadata.iter().map(|f| f.name.as_str()).collect();
        let widths = program.header_widths(&names);
        ControllerHeader::with_widths(metadata, widths.as_deref(), translations)
    }

    fn with_widths(
        metadata: &ControllerPacketMetadata,
        widths: Option<&[u32]>,
        translations: &Translations,
    ) -> ControllerHeader {
        let mut offset = 0;
        let mut fields = Vec::with_capacity(metadata.metadata.len());
        for (at, field) in metadata.metadata.iter().enumerate() {
            let mut bits = usize::try_from(field.bitwidth).unwrap_or(0);
            let mut of_type = translation::of_name(translations, field.type_name.as_ref());
            let kept = widths.map(|widths| widths[at] as usize);
            if let (Some(of), Some(kept)) = (&of_type, kept) {
                of.set_width(kept);
                bits = kept;
            }
            of_type = of_type.filter(|of| !of.is_identity(bits));
            fields.push(Field {
                id: field.id,
                name: field.name.clone(),
                bits,
                offset,
                translation: of_type,
            });
            offset += bits;
        }
        ControllerHeader {
            fields,
            bytes: offset.div_ceil(8),
        }
    }

    /// Returns the bytes that enter the pipeline for a packet-out: header, then payload.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the metadata fields are not exactly those of the header.
    pub fn encode(&self, packet: &PacketOut) -> Result<Vec<u8>, Status> {
        let invalid =
            |why: String| Status::new(Code::InvalidArgument, format!("packet-out: {why}"));
        let mut bytes = vec![0; self.bytes + packet.payload.len()];
        bytes[self.bytes..].copy_from_slice(&packet.payload);
        let mut seen = vec![false; self.fields.len()];
        for metadata in &packet.metadata {
            let id = metadata.metadata_id;
            let index = self
                .fields
                .iter()
                .position(|field| field.id == id)
                .ok_or_else(|| invalid(format!("no metadata field has id {id}")))?;
            let field = &self.fields[index];
            if std::mem::replace(&mut seen[index], true) {
                return Err(invalid(format!(
                    "metadata field {} occurs twice",
                    field.name
                )));
            }
            let place = || format!("metadata field {}", field.name);
            let mut value = Cow::Borrowed(&metadata.value);
            if let Some(of) = &field.translation {
                let data = of.data_value(&metadata.value, Use::Write);
                let place = format!("packet-out: {}", place());
                value = Cow::Owned(data.map_err(|error| error.at(&place))?);
            }
            bytestring::check(&value, field.bits)
                .map_err(|e| invalid(format!("{}: {e}", place())))?;
            write_bits(&mut bytes, field.offset, field.bits, &value);
        }
        match seen.iter().position(|seen| !seen) {
            Some(missing) => Err(invalid(format!(
                "metadata field {} is missing",
                self.fields[missing].name
            ))),
            None => Ok(bytes),
        }
    }

    /// Removes the header of a packet that left the switch through the CPU port, and returns its fields and the
    /// payload. `None` when the packet is shorter than the header.
    pub fn decode(&self, frame: &[u8]) -> Option<PacketIn> {
        let payload = frame.get(self.bytes..)?.to_vec();
        let metadata = self
            .fields
            .iter()
            .map(|field| {
                let value = read_bits(frame, field.offset, field.bits);
                PacketMetadata {
                    metadata_id: field.id,
                    value: match &field.translation {
                        Some(of) => of.controller_value(&value),
                        None => value,
                    },
                }
            })
            .collect();
        Some(PacketIn { payload, metadata })
    }
}

fn write_bits(bytes: &mut [u8], offset: usize, bits: usize, value: &[u8]) {
    for i in 0..bits {
        // Bit i counts from the least significant end of the value.
        let set = value
            .len()
            .checked_sub(1 + i / 8)
            .is_some_and(|byte| value[byte] >> (i % 8) & 1 == 1);
        let at = offset + bits - 1 - i;
        if set {
            bytes[at / 8] |= 0x80 >> (at % 8);
        }
    }
}

fn read_bits(bytes: &[u8], offset: usize, bits: usize) -> Vec<u8> {
    let mut value = vec![0; bits.div_ceil(8).max(1)];
    let len = value.len();
    for i in 0..bits {
        let at = offset + bits - 1 - i;
        if bytes[at / 8] & (0x80 >> (at % 8)) != 0 {
            value[len - 1 - i / 8] |= 1 << (i % 8);
        }
    }
    bytestring::canonical(&value).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::p4::config::v1::controller_packet_metadata::Metadata;

    fn header(widths: &[i32]) -> ControllerHeader {
        let fields = (1..).zip(widths).map(|(id, &bitwidth)| Metadata {
            id,
            name: format!("f{id}"),
            bitwidth,
            ..Default::default()
        });
        let metadata = ControllerPacketMetadata {
            preamble: None,
            metadata: fields.collect(),
        };
        ControllerHeader::with_widths(&metadata, None, &Translations::new())
    }

    fn packet_out(values: &[(u32, &[u8])]) -> PacketOut {
        PacketOut {
            payload: b"payload".to_vec(),
            metadata: values
                .iter()
                .map(|&(metadata_id, value)| PacketMetadata {
                    metadata_id,
                    value: value.to_vec(),
                })
                .collect(),
        }
    }

    #[test]
    fn fields_are_in_network_byte_order() {
        let header = header(&[8, 7, 9]);
        let bytes = header
            .encode(&packet_out(&[(3, &[1, 3]), (1, &[0xab]), (2, &[0])]))
            .unwrap();
        assert_eq!(bytes, b"\xab\x01\x03payload");
        let packet = header.decode(&bytes).unwrap();
        assert_eq!(packet.payload, b"payload");
        let values: Vec<_> = packet.metadata.iter().map(|m| m.value.clone()).collect();
        assert_eq!(values, [vec![0xab], vec![0], vec![1, 3]]);
    }

    #[test]
    fn padding_bits_fill_the_last_byte() {
        let header = header(&[9]);
        let bytes = header.encode(&packet_out(&[(1, &[1, 1])])).unwrap();
        assert_eq!(bytes, b"\x80\x80payload");
        assert_eq!(header.decode(&bytes).unwrap().metadata[0].value, [1, 1]);
    }

    #[test]
    fn errors_name_the_invalid_metadata_field() {
        let header = header(&[9, 16]);
        let why = |values: &[(u32, &[u8])]| header.encode(&packet_out(values)).unwrap_err().message;
        assert!(why(&[(1, &[1])]).contains("f2 is missing"));
        assert!(why(&[(1, &[1]), (2, &[1]), (7, &[1])]).contains("id 7"));
        assert!(why(&[(1, &[1]), (1, &[1])]).contains("twice"));
        assert!(why(&[(1, &[2, 0]), (2, &[1])]).contains("f1: value needs 10 bits"));
        assert!(why(&[(1, &[]), (2, &[1])]).contains("f1: byte string is empty"));
    }

    #[test]
    fn frames_shorter_than_the_header_are_not_decoded() {
        assert_eq!(header(&[9, 16]).decode(b"\0\0\0"), None);
        assert!(header(&[9, 16]).decode(b"\0\0\0\0").is_some());
    }
}
