//! The instruction set of compiled programs.
//!
//! All operands are *slots*: indexes into one flat array of 64-bit words with the packet's fields, the parameters of
//! the running action, temporaries and the program's constants. A field of up to 64 bits occupies one slot,
//! sign-extended if the field is signed. A wider field occupies several, least significant word first. A temporary
//! holds a value modulo 2^64.

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
    /// `d := a`'s low `bits` bits, zero-extended.
    Mask {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// `d := a`'s low `bits` bits, sign-extended.
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
    /// `d := a << b`; zero when `b` is 64 or more, as for `ShrU`.
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
    /// `d := a / b`, unsigned; zero when `b` is zero, as for `ModU`.
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
    /// Saturates a signed number to `bits` bits, unsigned.
    UsatS {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// Saturates an unsigned number to `bits` bits, unsigned.
    UsatU {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// Saturates a signed number to `bits` bits, signed.
    SatS {
        d: Slot,
        a: Slot,
        bits: u8,
    },
    /// Saturates an unsigned number to `bits` bits, signed.
    SatU {
        d: Slot,
        a: Slot,
        bits: u8,
    },

    /// `d := a`'s bits `low` to `low + bits - 1`.
    Bits {
        d: Slot,
        a: Slot,
        low: u8,
        bits: u8,
    },
    /// `d :=` the low `bits` bits of `a + b`.
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
    /// `d := (a << shift) | Bits(b, low, bits)`
    Join {
        d: Slot,
        a: Slot,
        shift: u8,
        b: Slot,
        low: u8,
        bits: u8,
    },
    /// `d :=` bit `bit` of `(a >> low_a) - (b >> low_b)`: the order of two serial numbers.
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

    /// `if (Bits(a, low, bits) == b) != equal { goto to }`
    JumpUnlessBits {
        a: Slot,
        low: u8,
        bits: u8,
        b: Slot,
        equal: bool,
        to: Pc,
    },
    /// `if SubBit(...) != set { goto to }`
    JumpUnlessSubBit {
        a: Slot,
        low_a: u8,
        b: Slot,
        low_b: u8,
        bit: u8,
        set: bool,
        to: Pc,
    },

    // Fused pairs and triples of instructions, created by `fuse`. Their operands are those of the first
    // instruction, followed by those of the others that are not results of the first.
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
    /// Copies word `a` to the `n` words that start at `d`: a fusion of `n` moves.
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
    /// Two consecutive conditional jumps; `to` counts forward from the next instruction.
    /// `if (a == b) != equal[0] { goto next + to[0] }; if (x == y) != equal[1] { goto next + to[1] }; skip one`
    JumpPair {
        a: Slot,
        b: Slot,
        x: Slot,
        y: Slot,
        equal: [bool; 2],
        to: [u16; 2],
    },
    /// A conditional jump to another one; `to` counts forward from the next instruction.
    /// `if (a == b) != equal[0] { goto next + to[if (x == y) == equal[1] { 0 } else { 1 }] }`
    JumpElse {
        a: Slot,
        b: Slot,
        x: Slot,
        y: Slot,
        equal: [bool; 2],
        to: [u16; 2],
    },
    /// `d := a; if (x == y) != equal { goto to }`
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
    /// `RegisterRead`, then `JumpUnlessSubBit` of the value read; `to` counts forward from the next instruction.
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
    /// `JumpIfNot` with a fixed test.
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

    /// Copies `n` words.
    Copy {
        d: Slot,
        a: Slot,
        n: u16,
    },
    /// Evaluates `LoadedProgram::bigs[index]`.
    Big {
        index: u32,
    },

    /// Reads a field of stack element `i`: `LoadedProgram::elements[element]`.
    LoadElement {
        d: Slot,
        element: u16,
        i: Slot,
    },
    /// Writes a field of stack element `i`. The value must be wrapped; indexes beyond the stack are ignored.
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
    /// A header operation on stack elements: `LoadedProgram::dyn_headers[op]`.
    DynHeader {
        op: u16,
    },
    /// True if both headers are valid and all fields are equal.
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
    /// `before`: colour of the packet before this meter, 0 if none.
    Meter {
        d: Slot,
        array: u16,
        i: Slot,
        before: Slot,
    },
    /// Applies a low-pass filter to a value. The filter's configuration and state are cells of registers.
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

    /// `spec := drop port` (`bits` wide), `group := 0`.
    MarkToDrop {
        spec: Slot,
        bits: u8,
        group: Option<Slot>,
    },
    /// Records a register access; a second one for the same packet is a fault (Tofino).
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
    /// Drops the packet and logs the assertion when `a` is zero.
    Assert {
        a: Slot,
        index: u16,
    },
    Exit,
    /// Writes the text of a condition or primitive to the log.
    Note {
        index: u16,
    },

    /// Looks up the packet in a table, and calls the action of the entry or the default action.
    Apply {
        table: u16,
    },
    /// Calls an action.
    Call {
        action: u16,
    },
    /// Ends the pipeline if the packet has executed `Exit`.
    EndIfExit,
    /// Returns from an action.
    Return,
    /// Ends a pipeline.
    End,
}

/// Comparison operator of `JumpIfNot`.
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
