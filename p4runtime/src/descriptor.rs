//! Protobuf descriptors of all P4Runtime messages, for reflection.

use std::sync::OnceLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::p4::config::v1::P4Info;

/// An encoded `google.protobuf.FileDescriptorSet` of every file in `proto/` and their imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Returns the descriptors of all messages, decoded from [`FILE_DESCRIPTOR_SET`].
pub fn pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| decode(FILE_DESCRIPTOR_SET))
}

/// Returns the protobuf descriptor of a generated message type.
pub fn of<M: Name>() -> MessageDescriptor {
    find::<M>(pool())
}

/// Returns the protobuf descriptor of a message type, preferably from P4Info's files alone. Decoding the descriptors of
/// all P4Runtime files would take longer than printing a P4Info.
pub fn of_p4info<M: Name>() -> MessageDescriptor {
    static P4INFO: OnceLock<DescriptorPool> = OnceLock::new();
    const SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/p4info_descriptors.bin"));
    if M::PACKAGE != P4Info::PACKAGE {
        return of::<M>();
    }
    find::<M>(P4INFO.get_or_init(|| decode(SET)))
}

fn find<M: Name>(pool: &DescriptorPool) -> MessageDescriptor {
    pool.get_message_by_name(&M::full_name())
        .expect("every generated message is in the descriptor set")
}

fn decode(set: &[u8]) -> DescriptorPool {
    DescriptorPool::decode(set).expect("build.rs wrote a valid descriptor set")
}

pub(crate) fn to_dynamic<M: Message + Name>(
    message: &M,
    descriptor: MessageDescriptor,
) -> DynamicMessage {
    DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .expect("an encoded message decodes with its own descriptor")
}
