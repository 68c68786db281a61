//! A layer: the header of one protocol, as bytes, with the fields that are left to be computed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::field::{nearest, Access, Field};
use crate::value::Value;

/// Function that changes the length of a header; see [`Protocol::relayout`].
pub type Relayout = fn(before: &[u8], header: &mut Vec<u8>);

/// A protocol: its name, its fields and its place among others.
pub struct Protocol {
    /// Name in expressions and in `show`, as in scapy where scapy has the layer: `Ether`, `IP`, `BTH`.
    pub name: Cow<'static, str>,
    /// Other names that expressions accept.
    pub aliases: &'static [&'static str],
    /// Header of a layer whose fields have no values yet; its length is the shortest that a header may have.
    pub template: Cow<'static, [u8]>,
    /// Fields in the order of the wire.
    pub fields: Cow<'static, [Field]>,
    /// Length of the header at the start of the bytes; `None` if they are not a header of this protocol.
    pub header_len: fn(&[u8]) -> Option<usize>,
    /// Length of the payload that the header announces; `None` if it reaches to the end of the packet.
    pub payload_len: fn(&[u8]) -> Option<usize>,
    /// Protocol of the payload, from the layers up to this one.
    pub next: fn(&[Layer], &[u8]) -> Option<&'static Protocol>,
    /// Brings the length of a header in line with its fields, after one was set. The first argument is the header
    /// before the change.
    pub relayout: Option<Relayout>,
}

impl Protocol {
    /// The field with this name, and its index.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == name)
    }

    /// The field with this name, or a message that proposes a similar one.
    pub(crate) fn require(&self, name: &str) -> Result<(usize, &Field), String> {
        self.field(name).ok_or_else(|| {
            let names = || self.fields.iter().map(|field| field.name.as_ref());
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.fields.is_empty() => "it has no fields".to_owned(),
                None => format!("its fields are {}", names().collect::<Vec<_>>().join(", ")),
            };
            format!("{} has no field `{name}`; {hint}", self.name)
        })
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol({})", self.name)
    }
}

/// A protocol of this crate, or one from a P4 program.
#[derive(Clone, Debug)]
pub enum ProtocolRef {
    /// A protocol of this crate.
    Known(&'static Protocol),
    /// A header type of a P4 program.
    OfProgram(Arc<Protocol>),
}

impl Deref for ProtocolRef {
    type Target = Protocol;
    fn deref(&self) -> &Protocol {
        match self {
            ProtocolRef::Known(protocol) => protocol,
            ProtocolRef::OfProgram(protocol) => protocol,
        }
    }
}

impl From<&'static Protocol> for ProtocolRef {
    fn from(protocol: &'static Protocol) -> ProtocolRef {
        ProtocolRef::Known(protocol)
    }
}

/// Error: a field cannot have a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct FieldError {
    /// Name of the layer.
    pub layer: String,
    /// Name of the field.
    pub field: String,
    /// The problem, with the names of layer and field.
    pub problem: String,
}

/// Computed fields that say what a packet is, rather than repeat what follows from its bytes.
const CHOICES: [&str; 8] = [
    "becn", "dport", "nh", "opcode", "proto", "s", "segleft", "type",
];

/// The header of one protocol.
#[derive(Clone, Debug)]
pub struct Layer {
    protocol: ProtocolRef,
    header: Vec<u8>,
    /// Bit N: field N has no value and is computed when the packet is built.
    computed: u64,
    /// First value that a setter rejected; building the packet returns it.
    error: Option<FieldError>,
}

impl Layer {
    /// A layer whose fields have their default values, or are left to be computed.
    pub fn new(protocol: impl Into<ProtocolRef>) -> Layer {
        let protocol = protocol.into();
        Layer {
            header: protocol.template.to_vec(),
            computed: computed_fields(&protocol),
            protocol,
            error: None,
        }
    }

    /// A layer with the bytes of a received header.
    pub(crate) fn received(protocol: ProtocolRef, header: &[u8]) -> Layer {
        Layer {
            protocol,
            header: header.to_vec(),
            computed: 0,
            error: None,
        }
    }

    /// The layer's protocol.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    pub(crate) fn protocol_ref(&self) -> &ProtocolRef {
        &self.protocol
    }

    /// Whether this is a layer of a protocol of this crate.
    pub fn is(&self, protocol: &'static Protocol) -> bool {
        matches!(self.protocol, ProtocolRef::Known(own) if std::ptr::eq(own, protocol))
    }

    /// Name of the protocol.
    pub fn name(&self) -> &str {
        &self.protocol.name
    }

    /// Bytes of the header. Fields that are left to be computed are zero.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The first value that could not be set.
    pub fn error(&self) -> Option<&FieldError> {
        self.error.as_ref()
    }

    /// Sets a field to a value.
    ///
    /// # Errors
    /// If the protocol has no such field, or the field cannot have the value. The layer is then unchanged.
    pub fn try_set(&mut self, name: &str, value: impl Into<Value>) -> Result<(), FieldError> {
        let value = value.into();
        self.assign(name, &value).map_err(|problem| FieldError {
            layer: self.protocol.name.to_string(),
            field: name.to_owned(),
            problem,
        })
    }

    /// Sets a field to a value. A value that the field cannot have is reported when the packet is built.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Layer {
        if let Err(error) = self.try_set(name, value) {
            self.error.get_or_insert(error);
        }
        self
    }

    fn assign(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let protocol = self.protocol.clone();
        let (index, field) = protocol.require(name)?;
        if *value == Value::Computed {
            if field.is_computed {
                self.computed |= bit(index);
            } else if let Some(default) = field.bytes(&protocol.template) {
                field.write(&mut self.header, &default);
            }
            return Ok(());
        }
        let bits = field
            .encode(value)
            .map_err(|problem| format!("{}.{name}: {problem}", protocol.name))?;
        if let Some(flag) = field.flag.filter(|_| !field.exists(&self.header)) {
            self.assign(flag, &Value::Number(1))?;
        }
        let before = self.header.clone();
        field.write(&mut self.header, &bits);
        if let Some(relayout) = protocol.relayout {
            relayout(&before, &mut self.header);
        }
        self.computed &= !bit(index);
        Ok(())
    }

    /// Leaves a field to be computed when the packet is built, as `del packet[IP].chksum` does in scapy. Without effect
    /// on fields that are not computed.
    pub fn clear(&mut self, name: &str) {
        if let Some((index, field)) = self.protocol.field(name) {
            if field.is_computed {
                self.computed |= bit(index);
            }
        }
    }

    /// Leaves lengths, counts, checksums and ICRC to be computed; see [`crate::Packet::clear_computed`].
    pub(crate) fn clear_all(&mut self) {
        for (index, field) in self.protocol.fields.iter().enumerate() {
            if field.is_computed && !CHOICES.contains(&&*field.name) {
                self.computed |= bit(index);
            }
        }
    }

    /// Whether the field with this index is left to be computed.
    pub(crate) fn is_open(&self, index: usize) -> bool {
        self.computed & bit(index) != 0
    }

    /// Ends the computation: all fields have values.
    pub(crate) fn close(&mut self) {
        self.computed = 0;
    }

    /// Writes the value of a field that was left to be computed; a field with a value keeps it.
    pub(crate) fn fill(&mut self, name: &str, value: u128) {
        let protocol = self.protocol.clone();
        if let Some((index, field)) = protocol.field(name) {
            if self.is_open(index) && field.exists(&self.header) {
                field.write_number(&mut self.header, value);
            }
        }
    }

    /// Whether the field with this name is left to be computed.
    pub fn is_computed(&self, name: &str) -> bool {
        self.protocol
            .field(name)
            .is_some_and(|(index, _)| self.is_open(index))
    }

    /// A field as a number; `None` if the layer has no such field, or it is wider than 128 bits.
    pub fn number(&self, name: &str) -> Option<u128> {
        self.protocol.field(name)?.1.number(&self.header)
    }

    /// A field as bytes.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.protocol.field(name)?.1.bytes(&self.header)
    }

    /// A field as text, as `show` prints it.
    pub fn text(&self, name: &str) -> Option<String> {
        self.protocol.field(name)?.1.text(&self.header)
    }

    /// The fields that this header has, with their indices.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (usize, &Field)> {
        let fields = self.protocol.fields.iter().enumerate();
        fields.filter(|(_, field)| field.exists(&self.header))
    }

    /// Whether the layer is a payload without structure.
    pub(crate) fn is_raw(&self) -> bool {
        matches!(&*self.protocol.fields, [field] if matches!(field.access, Access::Rest))
    }
}

/// Two layers are equal if they have the same protocol, bytes and computed fields.
impl PartialEq for Layer {
    fn eq(&self, other: &Layer) -> bool {
        self.name() == other.name()
            && self.header == other.header
            && self.computed == other.computed
            && self.error == other.error
    }
}

fn bit(index: usize) -> u64 {
    1_u64.checked_shl(index as u32).unwrap_or(0)
}

fn computed_fields(protocol: &Protocol) -> u64 {
    let fields = protocol.fields.iter().enumerate();
    let computed = fields.filter(|(_, field)| field.is_computed);
    computed.fold(0, |bits, (index, _)| bits | bit(index))
}
