//! The descriptors of all messages, for reflection.

use std::sync::OnceLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

/// An encoded `google.protobuf.FileDescriptorSet` of every file in `proto/` and of what they import.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The decoded [`FILE_DESCRIPTOR_SET`].
pub fn pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| {
        DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("build.rs wrote a valid descriptor set")
    })
}

/// The descriptor of a generated message.
pub fn of<M: Name>() -> MessageDescriptor {
    pool()
        .get_message_by_name(&M::full_name())
        .expect("every generated message is in the descriptor set")
}

pub(crate) fn to_dynamic<M: Message + Name>(message: &M) -> DynamicMessage {
    DynamicMessage::decode(of::<M>(), message.encode_to_vec().as_slice())
        .expect("an encoded message decodes with its own descriptor")
}
