//! Effects of statements: stores and calls of externs.

use super::{
    CalculationId, CounterId, DigestId, Expr, ExternInstanceId, FieldListId, FieldPlace, FieldRef,
    HeaderId, HeaderPlace, MeterId, RegisterId, StackId, UnionId, UnionStackId,
};

/// An effect that parsers, actions and controls have in common. It neither branches nor consumes packet data.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Stores a number or boolean.
    Assign {
        /// The field that is written.
        target: FieldPlace,
        /// The stored value, of the field's type.
        value: Expr,
    },
    /// Copies a varbit field with its current width.
    AssignVarbit {
        /// The field that is written.
        target: FieldPlace,
        /// The field that is read, of the same type.
        value: FieldPlace,
    },
    /// Copies a header with its validity.
    AssignHeader {
        /// The header that is written.
        target: HeaderPlace,
        /// The header that is read, of the same type.
        value: HeaderPlace,
    },
    /// Copies all members of a header union with their validity.
    AssignUnion {
        /// The union that is written.
        target: UnionId,
        /// The union that is read, of the same type.
        value: UnionId,
    },
    /// Copies all elements of a header stack and its `nextIndex`.
    AssignStack {
        /// The stack that is written.
        target: StackId,
        /// The stack that is read, of the same type.
        value: StackId,
    },
    /// Copies all elements of a stack of header unions and its `nextIndex`.
    AssignUnionStack {
        /// The stack that is written.
        target: UnionStackId,
        /// The stack that is read, of the same type.
        value: UnionStackId,
    },
    /// `setValid` or `setInvalid`.
    SetValidity {
        /// The header.
        target: HeaderPlace,
        /// True for `setValid`.
        valid: bool,
    },
    /// `push_front` of a header stack.
    Push {
        /// The stack.
        target: StackId,
        /// Number of positions by which elements move towards higher indices.
        count: u32,
    },
    /// `pop_front` of a header stack.
    Pop {
        /// The stack.
        target: StackId,
        /// Number of positions by which elements move towards lower indices.
        count: u32,
    },
    /// `push_front` of a stack of header unions.
    PushUnion {
        /// The stack.
        target: UnionStackId,
        /// Number of positions by which elements move towards higher indices.
        count: u32,
    },
    /// `pop_front` of a stack of header unions.
    PopUnion {
        /// The stack.
        target: UnionStackId,
        /// Number of positions by which elements move towards lower indices.
        count: u32,
    },
    /// A call of an architecture extern.
    Primitive(Primitive),
}

/// A call of an extern of the architecture.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// `mark_to_drop(metadata)`: sets the egress port to the drop port.
    MarkToDrop {
        /// The header with the egress port.
        metadata: HeaderId,
    },
    /// `register.read`: stores a cell in a field.
    RegisterRead {
        /// The field that is written.
        target: FieldRef,
        /// The register array.
        register: RegisterId,
        /// Index of the cell, from 0.
        index: Expr,
    },
    /// `register.write`: stores a value in a cell.
    RegisterWrite {
        /// The register array.
        register: RegisterId,
        /// Index of the cell, from 0.
        index: Expr,
        /// The stored value.
        value: Expr,
    },
    /// Marks the start of an access of a register that a packet may access once. The compiler checks all paths, and the switch drops a packet
    /// with a second access.
    RegisterAccess {
        /// The accessed register array.
        register: RegisterId,
        /// Number of the access in the program, by which the compiler finds its source position.
        site: u32,
    },
    /// `Mirror.emit`: mirrors the packet with a list of fields as the first header of the copy.
    Mirror {
        /// Number of the mirror session, which the control plane configures.
        session: Expr,
        /// The fields in front of the copy.
        fields: FieldListId,
    },
    /// `Lpf.execute`: a low-pass filter.
    Filter(Box<Filter>),
    /// `counter.count`: counts the packet in a cell.
    Count {
        /// The counter array.
        counter: CounterId,
        /// Index of the cell, from 0.
        index: Expr,
    },
    /// `meter.execute_meter`: stores the packet's colour in a field.
    ExecuteMeter {
        /// The meter array.
        meter: MeterId,
        /// Index of the cell, from 0.
        index: Expr,
        /// The field that is written: 0 green, 1 yellow, 2 red.
        target: FieldRef,
        /// The previous colour of the packet for a colour-aware meter; `None` for a colour-blind one.
        precolor: Option<Expr>,
    },
    /// `hash`: stores `base + calculation mod max` in a field.
    Hash {
        /// The field that is written.
        target: FieldRef,
        /// Smallest result.
        base: Expr,
        /// The hash function and its inputs.
        calculation: CalculationId,
        /// Number of possible results.
        max: Expr,
    },
    /// `random`: stores a uniformly distributed number in a field.
    Random {
        /// The field that is written.
        target: FieldRef,
        /// Smallest number.
        low: Expr,
        /// Largest number, inclusive.
        high: Expr,
    },
    /// `digest`: sends the digest's fields to the control plane. Preceding assignments have stored the values in the fields.
    Digest {
        /// First argument of `digest`, which the switch ignores.
        receiver: Expr,
        /// The digest and its fields.
        digest: DigestId,
    },
    /// `clone` or `clone_preserving_field_list`.
    Clone {
        /// True for a copy of the packet in egress (`E2E`); false for a copy of the ingress packet (`I2E`).
        egress: bool,
        /// Number of the clone session, which the control plane configures.
        session: Expr,
        /// Metadata fields that the copy keeps.
        fields: FieldListId,
    },
    /// `resubmit_preserving_field_list`: the packet enters ingress again as it arrived.
    Resubmit {
        /// Metadata fields that the packet keeps.
        fields: FieldListId,
    },
    /// `recirculate_preserving_field_list`: the deparsed packet enters ingress again.
    Recirculate {
        /// Metadata fields that the packet keeps.
        fields: FieldListId,
    },
    /// `truncate`: the operand is the maximum length of the packet in bytes.
    Truncate(Expr),
    /// `log_msg`: writes a line to the switch's log.
    LogMsg {
        /// Text with a `{}` for each argument.
        format: String,
        /// The logged values.
        args: Vec<Expr>,
    },
    /// `assert`: the switch stops if the condition is false.
    Assert(Expr),
    /// `assume`: the switch treats it like `assert`; a verifier may rely on the condition.
    Assume(Expr),
    /// A method or function of an extern that the compiler does not know (`--emit-externs`).
    Extern {
        /// Name of the primitive for the switch.
        name: String,
        /// The instance of a method; `None` for a function.
        instance: Option<ExternInstanceId>,
        /// Arguments in the order of the parameters.
        args: Vec<ExternOperand>,
    },
}

/// A call of a low-pass filter (`Lpf.execute`): filters `value` and stores the result in `target`.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The field that is written.
    pub target: FieldRef,
    /// Register array with the configurations of the filters, which the control plane sets.
    pub spec: RegisterId,
    /// Index of the filter's configuration in `spec`.
    pub spec_index: Expr,
    /// Register array with the states of the filters.
    pub memory: RegisterId,
    /// Index of the filter's state in `memory`.
    pub index: Expr,
    /// The new sample.
    pub value: Expr,
}

/// An operand of an extern that the compiler does not know.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternOperand {
    /// A value, or the field of an `out` or `inout` argument.
    Expr(Expr),
    /// A whole header.
    Header(HeaderPlace),
    /// A string literal.
    String(String),
}

impl Effect {
    /// The expressions that the effect evaluates.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Effect::Assign { value, .. } => vec![value],
            Effect::Primitive(primitive) => primitive.exprs(),
            Effect::AssignVarbit { .. }
            | Effect::AssignHeader { .. }
            | Effect::AssignUnion { .. }
            | Effect::AssignStack { .. }
            | Effect::AssignUnionStack { .. }
            | Effect::SetValidity { .. }
            | Effect::Push { .. }
            | Effect::Pop { .. }
            | Effect::PushUnion { .. }
            | Effect::PopUnion { .. } => Vec::new(),
        }
    }
}

impl Primitive {
    /// The expressions that the primitive evaluates.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Primitive::RegisterRead { index, .. } | Primitive::Count { index, .. } => vec![index],
            Primitive::ExecuteMeter {
                index, precolor, ..
            } => [index].into_iter().chain(precolor).collect(),
            Primitive::Filter(filter) => vec![&filter.spec_index, &filter.index, &filter.value],
            Primitive::RegisterWrite { index, value, .. } => vec![index, value],
            Primitive::Hash { base, max, .. } => vec![base, max],
            Primitive::Random { low, high, .. } => vec![low, high],
            Primitive::Digest { receiver: expr, .. }
            | Primitive::Clone { session: expr, .. }
            | Primitive::Mirror { session: expr, .. }
            | Primitive::Truncate(expr)
            | Primitive::Assert(expr)
            | Primitive::Assume(expr) => vec![expr],
            Primitive::LogMsg { args, .. } => args.iter().collect(),
            Primitive::Extern { args, .. } => (args.iter())
                .filter_map(|arg| match arg {
                    ExternOperand::Expr(expr) => Some(expr),
                    _ => None,
                })
                .collect(),
            Primitive::MarkToDrop { .. }
            | Primitive::RegisterAccess { .. }
            | Primitive::Resubmit { .. }
            | Primitive::Recirculate { .. } => Vec::new(),
        }
    }
}
