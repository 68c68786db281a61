//! The instructions that a program is compiled to.
//!
//! All operands are *slots*: indexes into one flat array of 64-bit words that holds the packet's
//! fields, the arguments of the running action, temporaries and the program's constants. A slot of
//! a field of up to 64 bits holds its value, sign-extended when the field is signed; wider fields
//! have several slots, least significant word first. A temporary holds a value modulo 2^64.

/// Index into the packet's words.
pub type Slot = u16;

/// Index of an instruction in `LoadedProgram::code`.
pub type Pc = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Mov {
        d: Slot,
        a: Slot,
    },
    /// The low `bits` bits, unsigned.
    Mask {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// The low `bits` bits, signed.
    Sext {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    Add {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Sub {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Mul {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    And {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Or {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Xor {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Not {
        d: Slot,
        a: Slot,
    },
    /// Zero when `b` is 64 or more, as for `ShrU`.
    Shl {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    ShrU {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    ShrS {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// Zero when `b` is zero, as for `ModU`.
    DivU {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    ModU {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// Clamp a signed number to `bits` bits, unsigned.
    UsatS {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// Clamp an unsigned number to `bits` bits, unsigned.
    UsatU {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// Clamp a signed number to `bits` bits, signed.
    SatS {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// Clamp an unsigned number to `bits` bits, signed.
    SatU {
        d: Slot,
        a: Slot,
        bits: u8,
    },

    /// Bits `low` to `low + bits - 1`.
    Bits {
        d: Slot,
        a: Slot,
        low: u8,
        bits: u8,
    },
    /// The low `bits` bits of the sum.
    AddBits {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    SubBits {
        d: Slot,
        a: Slot,
        b: Slot,
        bits: u8,
    },
    /// `a << shift` joined with so many bits of `b`, from `low` on.
    Join {
        d: Slot,
        a: Slot,
        shift: u8,
        b: Slot,
        low: u8,
        bits: u8,
    },
    /// One bit of `(a >> low_a) - (b >> low_b)`: the order of two serial numbers.
    SubBit {
        d: Slot,
        a: Slot,
        low_a: u8,
        b: Slot,
        low_b: u8,
        bit: u8,
    },

    Eq {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ne {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    LtU {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    LeU {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    LtS {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    LeS {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `d := x & (a == b)`
    AndEq {
        d: Slot,
        x: Slot,
        a: Slot,
        b: Slot,
    },
    AndNe {
        d: Slot,
        x: Slot,
        a: Slot,
        b: Slot,
    },
    OrEq {
        d: Slot,
        x: Slot,
        a: Slot,
        b: Slot,
    },
    OrNe {
        d: Slot,
        x: Slot,
        a: Slot,
        b: Slot,
    },

    Jump {
        to: Pc,
    },
    JumpIfZero {
        a: Slot,
        to: Pc,
    },
    JumpIfNot {
        a: Slot,
        b: Slot,
        to: Pc,
        test: Test,
    },

    /// Jumps unless `Bits` is `b`, or is not, as `equal` says.
    JumpUnlessBits {
        a: Slot,
        low: u8,
        bits: u8,
        b: Slot,
        equal: bool,
        to: Pc,
    },
    /// Jumps unless `SubBit` is `set`.
    JumpUnlessSubBit {
        a: Slot,
        low_a: u8,
        b: Slot,
        low_b: u8,
        bit: u8,
        set: bool,
        to: Pc,
    },

    // Pairs and triples of instructions in one, made by `fuse`: the first one's operands, then
    // those of the next that are not the result before.
    Mov2 {
        d: Slot,
        a: Slot,
        e: Slot,
        b: Slot,
    },
    Mov3 {
        d: Slot,
        a: Slot,
        e: Slot,
        b: Slot,
        f: Slot,
        c: Slot,
    },
    /// The same word to `n` words from `d` on, which would be `n` moves.
    Fill {
        d: Slot,
        a: Slot,
        n: u16,
    },
    MovJump {
        d: Slot,
        a: Slot,
        to: Pc,
    },
    /// Two jumps in a row, each when `==` is not as its `equal` says; `to` counts from the next one, forward.
    JumpPair {
        a: Slot,
        b: Slot,
        x: Slot,
        y: Slot,
        equal: [bool; 2],
        to: [u16; 2],
    },
    /// A jump when `==` is not as its `equal` says, behind the second one, which jumps as that says; `to` counts from here,
    /// forward.
    JumpElse {
        a: Slot,
        b: Slot,
        x: Slot,
        y: Slot,
        equal: [bool; 2],
        to: [u16; 2],
    },
    /// `Mov`, then a jump when `==` is not as `equal` says.
    MovJumpUnless {
        d: Slot,
        a: Slot,
        x: Slot,
        y: Slot,
        equal: bool,
        to: Pc,
    },
    Bits2 {
        d: Slot,
        a: Slot,
        e: Slot,
        b: Slot,
        low: [u8; 2],
        bits: [u8; 2],
    },
    /// `RegisterRead`, then `JumpUnlessSubBit` of what was read; `to` counts from the next one, forward.
    ReadJump {
        d: Slot,
        array: u16,
        i: Slot,
        low_a: u8,
        b: Slot,
        low_b: u8,
        bit: u8,
        set: bool,
        to: u16,
    },
    /// `JumpIfNot` with the test known.
    JumpUnlessEq {
        a: Slot,
        b: Slot,
        to: Pc,
    },
    JumpUnlessNe {
        a: Slot,
        b: Slot,
        to: Pc,
    },

    /// Copy `n` words.
    Copy {
        d: Slot,
        a: Slot,
        n: u16,
    },
    /// Evaluate `LoadedProgram::bigs[index]`.
    Big {
        index: u32,
    },

    /// Read a field of an element of a stack: `LoadedProgram::elements[element]`, at index `i`.
    LoadElement {
        d: Slot,
        element: u16,
        i: Slot,
    },
    /// Write one; the value is already wrapped. Indexes outside of the stack are ignored.
    StoreElement {
        element: u16,
        i: Slot,
        a: Slot,
    },

    AddHeader {
        h: u16,
    },
    RemoveHeader {
        h: u16,
    },
    AssignHeader {
        d: u16,
        s: u16,
    },
    /// The same on elements of stacks: `LoadedProgram::dyn_headers[op]`.
    DynHeader {
        op: u16,
    },
    /// Validity and all fields are equal, and both are valid.
    HeaderEq {
        d: Slot,
        a: u16,
        b: u16,
    },
    UnionEq {
        d: Slot,
        a: u16,
        b: u16,
    },
    UnionValid {
        d: Slot,
        u: u16,
    },
    AssignUnion {
        d: u16,
        s: u16,
    },
    AssignStack {
        d: u16,
        s: u16,
    },
    AssignUnionStack {
        d: u16,
        s: u16,
    },
    Push {
        stack: u16,
        n: Slot,
    },
    Pop {
        stack: u16,
        n: Slot,
    },
    AssignVl {
        d: u16,
        s: u16,
    },

    RegisterRead {
        d: Slot,
        array: u16,
        i: Slot,
    },
    RegisterWrite {
        array: u16,
        i: Slot,
        a: Slot,
    },
    Count {
        array: u16,
        i: Slot,
    },
    /// `before` is the colour that the packet had, 0 for none.
    Meter {
        d: Slot,
        array: u16,
        i: Slot,
        before: Slot,
    },
    /// `d := filtered`, of a value; both arrays are registers.
    Filter {
        d: Slot,
        spec: u16,
        s: Slot,
        memory: u16,
        i: Slot,
        value: Slot,
    },
    /// `d := hash % max + base`, where a `max` of 0 counts as 1.
    Hash {
        d: Slot,
        calculation: u16,
        base: Slot,
        max: Slot,
    },
    Random {
        d: Slot,
        low: Slot,
        high: Slot,
    },

    /// `spec := drop port` in so many bits, `group := 0`.
    MarkToDrop {
        spec: Slot,
        bits: u8,
        group: Option<Slot>,
    },
    /// A packet may do this once for each register.
    RegisterAccess {
        array: u16,
        site: u16,
    },
    Digest {
        list: Slot,
    },
    CloneIngress {
        session: Slot,
        list: Slot,
    },
    CloneEgress {
        session: Slot,
        list: Slot,
    },
    Resubmit {
        list: Slot,
    },
    Recirculate {
        list: Slot,
    },
    Truncate {
        bytes: Slot,
    },
    Log {
        index: u16,
    },
    /// Drop the packet and report when `a` is zero.
    Assert {
        a: Slot,
        index: u16,
    },
    Exit,
    /// Tell the log.
    Note {
        index: u16,
    },

    /// Look the packet up and call the action found.
    Apply {
        table: u16,
    },
    /// Call an action and come back.
    Call {
        action: u16,
    },
    /// End of the pipeline when the packet has met `Exit`.
    EndIfExit,
    /// End of an action.
    Return,
    /// End of a pipeline.
    End,
}

/// What `JumpIfNot` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    Eq,
    Ne,
    LtU,
    LeU,
    LtS,
    LeS,
}

impl Test {
    #[inline(always)]
    pub fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Test::Eq => a == b,
            Test::Ne => a != b,
            Test::LtU => a < b,
            Test::LeU => a <= b,
            Test::LtS => (a as i64) < b as i64,
            Test::LeS => a as i64 <= b as i64,
        }
    }
}

const _: () = assert!(std::mem::size_of::<Op>() <= 16);
