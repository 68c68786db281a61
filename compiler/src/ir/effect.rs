//! Effects of statements: stores and calls of externs.

use super::{
    CalculationId, CounterId, DigestId, Expr, ExternInstanceId, FieldListId, FieldPlace, FieldRef,
    HeaderPlace, MeterId, RegisterId, StackId, UnionId, UnionStackId,
};

/// An effect that parsers, actions and controls have in common. It neither branches nor consumes packet data.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Stores a number or boolean.
    Assign { target: FieldPlace, value: Expr },
    /// Copies a varbit field.
    AssignVarbit {
        target: FieldPlace,
        value: FieldPlace,
    },
    /// Copies a header with its validity.
    AssignHeader {
        target: HeaderPlace,
        value: HeaderPlace,
    },
    /// Copies a header union.
    AssignUnion { target: UnionId, value: UnionId },
    /// Copies a header stack.
    AssignStack { target: StackId, value: StackId },
    /// Copies a stack of header unions.
    AssignUnionStack {
        target: UnionStackId,
        value: UnionStackId,
    },
    /// `setValid` or `setInvalid`.
    SetValidity { target: HeaderPlace, valid: bool },
    /// `push_front` of a header stack.
    Push { target: StackId, count: u32 },
    /// `pop_front` of a header stack.
    Pop { target: StackId, count: u32 },
    /// `push_front` of a stack of unions.
    PushUnion { target: UnionStackId, count: u32 },
    /// `pop_front` of a stack of unions.
    PopUnion { target: UnionStackId, count: u32 },
    /// A call of an architecture extern.
    Primitive(Primitive),
}

/// A call of an extern of the architecture.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// `mark_to_drop(standard_metadata)`.
    MarkToDrop,
    /// `register.read`.
    RegisterRead {
        target: FieldRef,
        register: RegisterId,
        index: Expr,
    },
    /// `register.write`.
    RegisterWrite {
        register: RegisterId,
        index: Expr,
        value: Expr,
    },
    /// Marks an access of a Tofino register, allowed once per packet. `site` is an index of source positions.
    RegisterAccess { register: RegisterId, site: u32 },
    /// `Mirror.emit`: the fields go in front of the copy.
    Mirror { session: Expr, fields: FieldListId },
    /// A low-pass filter of Tofino.
    Filter(Box<Filter>),
    /// `counter.count`.
    Count { counter: CounterId, index: Expr },
    /// `meter.execute_meter`.
    ExecuteMeter {
        meter: MeterId,
        index: Expr,
        target: FieldRef,
        /// The previous colour of the packet.
        precolor: Option<Expr>,
    },
    /// `hash`: base + calculation mod max.
    Hash {
        target: FieldRef,
        base: Expr,
        calculation: CalculationId,
        max: Expr,
    },
    /// `random` in `low..=high`.
    Random {
        target: FieldRef,
        low: Expr,
        high: Expr,
    },
    /// `digest`; its values have been stored in the digest's fields.
    Digest { receiver: Expr, digest: DigestId },
    /// `clone` and its variants.
    Clone {
        egress: bool,
        session: Expr,
        fields: FieldListId,
    },
    /// `resubmit`.
    Resubmit { fields: FieldListId },
    /// `recirculate`.
    Recirculate { fields: FieldListId },
    /// `truncate` to bytes.
    Truncate(Expr),
    /// `log_msg`.
    LogMsg { format: String, args: Vec<Expr> },
    /// `assert`.
    Assert(Expr),
    /// `assume`.
    Assume(Expr),
    /// A method or function of an extern that is not part of v1model.
    Extern {
        name: String,
        instance: Option<ExternInstanceId>,
        args: Vec<ExternOperand>,
    },
}

/// A call of a low-pass filter: `target` is set to the filtered value.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Destination of the result.
    pub target: FieldRef,
    /// Register with the configurations.
    pub spec: RegisterId,
    /// Index of the configuration.
    pub spec_index: Expr,
    /// Register with the states.
    pub memory: RegisterId,
    /// Index of the filter.
    pub index: Expr,
    /// The value.
    pub value: Expr,
}

/// An operand of an extern that is not part of v1model.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternOperand {
    /// A value, or a field to store in.
    Expr(Expr),
    /// A whole header.
    Header(HeaderPlace),
    /// A string.
    String(String),
}

impl Effect {
    /// The expressions that it reads.
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
    /// The expressions that it reads.
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
            Primitive::MarkToDrop
            | Primitive::RegisterAccess { .. }
            | Primitive::Resubmit { .. }
            | Primitive::Recirculate { .. } => Vec::new(),
        }
    }
}
