//! Headers of a P4 program as layers, from its BMv2 JSON: for headers of a user's own.
//!
//! A layer has the name of the header instance (`ethernet`), or of the header stack (`vlan`), and the fields of its
//! header type. [`Program::dissect`] follows the program's parser.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use alfirk_bmv2_json::{
    decode_hex, BmV2Json, Expr, ExtractTarget, FieldWidth, HeaderType, Op, Operator, ParserOp,
    ReadError, TransitionOn,
};

use crate::field::{read_bits, Access, Field, Kind};
use crate::layer::{Layer, Protocol, ProtocolRef};
use crate::{protocols, Packet};

/// Maximum number of parser states that a packet passes; a parser may have loops.
const MAX_STEPS: usize = 256;
/// Maximum depth of an expression in a parser.
const MAX_DEPTH: usize = 64;
/// Length in bytes of the intrinsic metadata that an ingress parser of Tofino extracts.
const INTRINSIC_BYTES: usize = 8;

/// Error in a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The text is not BMv2 JSON.
    #[error(transparent)]
    Json(#[from] ReadError),
    /// The length of a header is not a multiple of 8 bits; holds its name and its length in bits.
    #[error("header {0} has {1} bits, expected a multiple of 8")]
    Unaligned(String, usize),
    /// A field of variable length is not the last one of its header.
    #[error("header {0} has fields after its varbit field {1}")]
    VarbitInside(String, String),
}

/// Headers and parser of a P4 program.
#[derive(Debug)]
pub struct Program {
    /// Headers, in the order of the JSON, and stacks.
    protocols: Vec<ProtocolRef>,
    json: BmV2Json,
}

impl Program {
    /// Reads the headers of a program from its BMv2 JSON.
    ///
    /// # Errors
    /// If the text is not BMv2 JSON, or a header cannot be a layer.
    pub fn from_json(text: &str) -> Result<Program, ProgramError> {
        let json = BmV2Json::from_text(text)?;
        let mut protocols = Vec::new();
        let types: BTreeMap<&str, &HeaderType> = json
            .header_types
            .iter()
            .map(|header_type| (header_type.name.as_str(), header_type))
            .collect();
        let headers = json.headers.iter().filter(|header| !header.metadata);
        let instances = headers
            // Elements of a stack have the name of the stack.
            .filter(|header| !header.name.contains('['))
            .map(|header| (&header.name, &header.header_type));
        let stacks = json.header_stacks.iter();
        let stacks = stacks.map(|stack| (&stack.name, &stack.header_type));
        for (name, header_type) in instances.chain(stacks) {
            if let Some(header_type) = types.get(header_type.as_str()) {
                let protocol = protocol_of(name, header_type)?;
                protocols.push(ProtocolRef::OfProgram(Arc::new(protocol)));
            }
        }
        Ok(Program { protocols, json })
    }

    /// The headers as protocols, for [`crate::parse_with`].
    pub fn protocols(&self) -> &[ProtocolRef] {
        &self.protocols
    }

    /// A layer of this header or stack, with all fields 0.
    pub fn layer(&self, name: &str) -> Option<Layer> {
        self.protocol(name).cloned().map(Layer::new)
    }

    fn protocol(&self, name: &str) -> Option<&ProtocolRef> {
        self.protocols.iter().find(|protocol| protocol.name == name)
    }

    /// Splits a packet into the headers that the program's parser extracts. What it does not extract is a payload. It
    /// stops where a transition depends on what only a switch has, such as value sets.
    ///
    /// In front of a packet, the parser of a program for Tofino reads metadata of the chip, which is left out here.
    pub fn dissect(&self, bytes: &[u8]) -> Packet {
        let front = self.metadata_bytes();
        let all = [vec![0; front], bytes.to_vec()].concat();
        let mut run = Run {
            program: self,
            bytes: &all,
            front,
            at: 0,
            layers: Vec::new(),
            values: BTreeMap::new(),
            valid: Vec::new(),
        };
        run.parse();
        let mut layers = run.layers;
        let rest = &all[front.max(run.at / 8)..];
        if !rest.is_empty() {
            layers.push(crate::dissect::received(&protocols::RAW, rest));
        }
        layers.into()
    }

    /// Number of bytes that the parser reads in front of a packet: intrinsic metadata and port metadata of Tofino.
    fn metadata_bytes(&self) -> usize {
        match self.json.architecture.as_deref() {
            Some("tna") => INTRINSIC_BYTES + 8,
            Some("t2na") => INTRINSIC_BYTES + 24,
            _ => 0,
        }
    }

    /// Width of a field of an instance or stack in bits.
    fn width(&self, instance: &str, field: &str) -> Option<usize> {
        let headers = self.json.headers.iter();
        let of_instance = headers
            .filter(|header| header.name == instance)
            .map(|header| &header.header_type);
        let stacks = self.json.header_stacks.iter();
        let of_stack = stacks
            .filter(|stack| stack.name == instance)
            .map(|stack| &stack.header_type);
        let name = of_instance.chain(of_stack).next()?;
        let mut types = self.json.header_types.iter();
        let fields = &types.find(|header_type| header_type.name == *name)?.fields;
        match fields.iter().find(|own| own.name == field)?.width {
            FieldWidth::Bits(width) => Some(width as usize),
            FieldWidth::Variable => None,
        }
    }
}

fn protocol_of(name: &str, header_type: &HeaderType) -> Result<Protocol, ProgramError> {
    let mut fields = Vec::new();
    let mut offset = 0;
    for field in &header_type.fields {
        let (kind, width, access) = match field.width {
            FieldWidth::Bits(width) => {
                let width = width as usize;
                (kind_of(&field.name, width), width, Access::Bits)
            }
            FieldWidth::Variable => (Kind::Bytes, 0, Access::Rest),
        };
        let is_last = fields.len() + 1 == header_type.fields.len();
        if matches!(access, Access::Rest) && !is_last {
            let names = (name.to_owned(), field.name.clone());
            return Err(ProgramError::VarbitInside(names.0, names.1));
        }
        let mut own = Field::new("", kind, offset, width, access);
        own.name = Cow::Owned(field.name.clone());
        fields.push(own);
        offset += width;
    }
    if offset % 8 != 0 {
        return Err(ProgramError::Unaligned(name.to_owned(), offset));
    }
    Ok(Protocol {
        name: Cow::Owned(name.to_owned()),
        aliases: &[],
        template: Cow::Owned(vec![0; offset / 8]),
        fields: Cow::Owned(fields),
        // The program's parser decides what a header is.
        header_len: |_| None,
        payload_len: |_| None,
        next: |_, _| None,
        relayout: None,
    })
}

/// Form of a field's values, by its width and name: the JSON has no types of addresses.
fn kind_of(name: &str, width: usize) -> Kind {
    let lower = name.to_ascii_lowercase();
    let is_address =
        lower.contains("addr") || ["src", "dst", "srcip", "dstip"].contains(&lower.as_str());
    match width {
        48 => Kind::Mac,
        32 if is_address => Kind::Ipv4,
        128 if is_address => Kind::Ipv6,
        0..=8 => Kind::Decimal,
        _ => Kind::Hex,
    }
}

/// A number and its width in bits; width 0 for a constant.
type Number = (u128, usize);

/// One packet in the parser.
struct Run<'a> {
    program: &'a Program,
    bytes: &'a [u8],
    /// Number of bytes in front of the packet.
    front: usize,
    /// Position in bits.
    at: usize,
    layers: Vec<Layer>,
    /// Fields of headers and metadata that were extracted or assigned; of a stack, those of its last element.
    values: BTreeMap<(String, String), Number>,
    /// Names of the headers that were extracted.
    valid: Vec<String>,
}

impl Run<'_> {
    /// Follows the parser until it accepts, rejects, or needs what is not known. `None` ends it early.
    fn parse(&mut self) -> Option<()> {
        let program = self.program;
        let parser = program.json.parsers.first()?;
        let mut name = parser.init_state.as_deref()?;
        for _ in 0..MAX_STEPS {
            let state = parser
                .parse_states
                .iter()
                .find(|state| state.name == name)?;
            for statement in &state.parser_ops {
                self.execute(&statement.op)?;
            }
            let mut key = Vec::new();
            let mut is_known = true;
            for part in &state.transition_key {
                match self.eval(part, 0) {
                    Some((value, width)) if (1..=128).contains(&width) => {
                        key.extend(&value.to_be_bytes()[16 - width.div_ceil(8)..]);
                    }
                    _ => is_known = false,
                }
            }
            let next = state
                .transitions
                .iter()
                .find(|transition| match &transition.on {
                    TransitionOn::Default => true,
                    TransitionOn::Hexstr { value, mask } => {
                        is_known && matches(&key, value, mask.as_deref())
                    }
                    // Its members are the switch's.
                    TransitionOn::ParseVset { .. } => false,
                })?;
            if !is_known && next.on != TransitionOn::Default {
                return None;
            }
            name = next.next_state.as_deref()?;
        }
        None
    }

    fn execute(&mut self, op: &ParserOp) -> Option<()> {
        match op {
            ParserOp::Extract(target) => self.extract(target, 0),
            ParserOp::ExtractVl(target, length) => {
                let bits = self.eval(length, 0)?.0;
                self.extract(target, usize::try_from(bits).ok()?)
            }
            ParserOp::Set(Expr::Field(field), value) => {
                let key = (field.header.clone(), field.field.clone());
                match self.eval(value, 0) {
                    Some((number, _)) => {
                        let width = self.program.width(&field.header, &field.field)?;
                        let number = match width {
                            0..=127 => number & ((1 << width) - 1),
                            _ => number,
                        };
                        self.values.insert(key, (number, width));
                    }
                    // The field has a value that is not known here.
                    None => drop(self.values.insert(key, (0, 0))),
                }
                Some(())
            }
            ParserOp::Shift(bytes) => self.skip(usize::try_from(*bytes).ok()?.checked_mul(8)?),
            ParserOp::Advance(bits) => {
                let bits = self.eval(bits, 0)?.0;
                self.skip(usize::try_from(bits).ok()?)
            }
            ParserOp::Set(..) | ParserOp::Verify(..) | ParserOp::Primitive(_) => Some(()),
        }
    }

    /// Skips bits, which become a payload between two headers.
    fn skip(&mut self, bits: usize) -> Option<()> {
        let end = self.at.checked_add(bits).filter(|end| end % 8 == 0)?;
        let skipped = self.bytes.get(self.at / 8..end / 8)?;
        let before = self.front.saturating_sub(self.at / 8);
        let skipped = &skipped[before.min(skipped.len())..];
        if !skipped.is_empty() {
            self.layers
                .push(crate::dissect::received(&protocols::RAW, skipped));
        }
        self.at = end;
        Some(())
    }

    /// Extracts a header. `variable`: length of its varbit field in bits.
    fn extract(&mut self, target: &ExtractTarget, variable: usize) -> Option<()> {
        let name = match target {
            ExtractTarget::Regular(name) | ExtractTarget::Stack(name) => name,
            ExtractTarget::UnionStack { header, .. } => header,
        };
        let name = name.split('[').next()?;
        let protocol = self.program.protocol(name)?.clone();
        let length = protocol.template.len().checked_add(variable / 8)?;
        let start = self.at / 8;
        let header = self.bytes.get(start..start.checked_add(length)?)?;
        if variable % 8 != 0 {
            return None;
        }
        for field in protocol.fields.iter() {
            if let Some(number) = field.number(header) {
                let key = (name.to_owned(), field.name.to_string());
                self.values.insert(key, (number, field.width_in(header)));
            }
        }
        self.valid.push(name.to_owned());
        if start >= self.front {
            self.layers.push(Layer::received(protocol, header));
        }
        self.at += length * 8;
        Some(())
    }

    fn value(&self, header: &str, field: &str) -> Option<Number> {
        let name = header.split('[').next()?;
        if field == "$valid$" {
            let is_valid = self.valid.iter().any(|own| own == name);
            return Some((is_valid.into(), 1));
        }
        let key = (name.to_owned(), field.to_owned());
        match self.values.get(&key) {
            Some((_, 0)) => None,
            Some(value) => Some(*value),
            // Metadata is 0 at the start, apart from what the switch sets.
            None if header == "standard_metadata" => None,
            None => Some((0, self.program.width(header, field)?)),
        }
    }

    fn eval(&self, expr: &Expr, depth: usize) -> Option<Number> {
        if depth > MAX_DEPTH {
            return None;
        }
        match expr {
            Expr::Field(field) => self.value(&field.header, &field.field),
            Expr::StackField { stack, field } => self.value(stack, field),
            Expr::Hexstr { value, bitwidth } => {
                let (is_negative, bytes) = decode_hex(value).ok()?;
                let number = crate::value::big_endian(&bytes);
                let is_usable = !is_negative && bytes.len() <= 16;
                is_usable.then_some((number, bitwidth.map_or(0, |width| width as usize)))
            }
            Expr::Bool(value) => Some(((*value).into(), 1)),
            Expr::Lookahead { offset, width } => {
                let at = self.at.checked_add(usize::try_from(*offset).ok()?)?;
                let width = usize::try_from(*width).ok()?;
                Some((read_bits(self.bytes, at, width)?, width))
            }
            Expr::Op(op) => self.operator(op, depth + 1),
            Expr::Wrapped(inner) => self.eval(inner, depth + 1),
            _ => None,
        }
    }

    fn operator(&self, op: &Op, depth: usize) -> Option<Number> {
        if op.op == Operator::Ternary {
            let (condition, _) = self.eval(op.cond.as_ref()?, depth)?;
            return match condition {
                0 => self.eval(&op.right, depth),
                _ => self.eval(op.left.as_ref()?, depth),
            };
        }
        let (right, right_width) = self.eval(&op.right, depth)?;
        match op.op {
            Operator::Not => return Some((u128::from(right == 0), 1)),
            Operator::D2b => return Some((u128::from(right != 0), 1)),
            Operator::B2d => return Some((right, 1)),
            _ => {}
        }
        let (left, left_width) = self.eval(op.left.as_ref()?, depth)?;
        let shift = || u32::try_from(right).ok();
        let number = match op.op {
            Operator::Add => left.checked_add(right)?,
            Operator::Sub => left.checked_sub(right)?,
            Operator::Mul => left.checked_mul(right)?,
            Operator::Shl => left.checked_mul(1_u128.checked_shl(shift()?)?)?,
            Operator::Shr => left.checked_shr(shift()?).unwrap_or(0),
            Operator::BitAnd => left & right,
            Operator::BitOr => left | right,
            Operator::BitXor => left ^ right,
            Operator::Eq => u128::from(left == right),
            Operator::Ne => u128::from(left != right),
            Operator::Lt => u128::from(left < right),
            Operator::Le => u128::from(left <= right),
            Operator::Gt => u128::from(left > right),
            Operator::Ge => u128::from(left >= right),
            Operator::And => u128::from(left != 0 && right != 0),
            Operator::Or => u128::from(left != 0 || right != 0),
            _ => return None,
        };
        Some((number, left_width.max(right_width)))
    }
}

/// Whether a key equals a value under a mask, both in hexadecimal.
fn matches(key: &[u8], value: &str, mask: Option<&str>) -> bool {
    let padded = |text: &str| -> Option<Vec<u8>> {
        let (_, bytes) = decode_hex(text).ok()?;
        let skipped = bytes.len().saturating_sub(key.len());
        let mut padded = vec![0; key.len().saturating_sub(bytes.len())];
        padded.extend(&bytes[skipped..]);
        Some(padded)
    };
    let Some(value) = padded(value) else {
        return false;
    };
    let mask = mask
        .and_then(padded)
        .unwrap_or_else(|| vec![0xff; key.len()]);
    key.iter()
        .zip(value)
        .zip(mask)
        .all(|((key, value), mask)| key & mask == value & mask)
}
