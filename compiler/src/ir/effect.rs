//! Effects of statements: stores and calls of externs.

use super::{
    CalculationId, CounterId, DigestId, Expr, ExternInstanceId, FieldListId, FieldPlace, FieldRef,
    HeaderPlace, MeterId, RegisterId, StackId, UnionId, UnionStackId,
};

/// What a parser, an action and a control can do alike. It neither chooses a way nor takes from the packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Stores a number or truth value.
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
    /// The same two for a stack of unions.
    PushUnion { target: UnionStackId, count: u32 },
    /// See [`Effect::PushUnion`].
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
    /// A packet comes to a register of Tofino's, which it may do once. `site` names the place in the source.
    RegisterAccess { register: RegisterId, site: u32 },
    /// `Mirror.emit`: the fields go in front of the copy.
    Mirror { session: Expr, fields: FieldListId },
    /// A low pass filter of Tofino's.
    Filter(Box<Filter>),
    /// `counter.count`.
    Count { counter: CounterId, index: Expr },
    /// `meter.execute_meter`.
    ExecuteMeter {
        meter: MeterId,
        index: Expr,
        target: FieldRef,
        /// The colour that the packet had before.
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
    /// `digest`; the fields to send have been stored in the digest's own fields.
    Digest { receiver: Expr, digest: DigestId },
    /// `clone` and its relatives.
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
    /// A method of an extern object, or an extern function, outside v1model.
    Extern {
        name: String,
        instance: Option<ExternInstanceId>,
        args: Vec<ExternOperand>,
    },
}

/// A call of a low pass filter: `target` gets what the filter makes of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Where the result goes.
    pub target: FieldRef,
    /// How filters are set.
    pub spec: RegisterId,
    /// Which of the settings counts.
    pub spec_index: Expr,
    /// What filters remember.
    pub memory: RegisterId,
    /// Which filter it is.
    pub index: Expr,
    /// The value.
    pub value: Expr,
}

/// An argument of an extern outside v1model.
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
    /// The values that it takes.
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
    /// The values that it takes.
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
