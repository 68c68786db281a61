//! Syntax of generated programs. All variables have distinct numbers, so scopes need no names.

/// Type of a value. Each value is stored as the bits of its type, zero-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    /// `bit<N>`, 1 to 128 bits.
    Bits(u32),
    /// `int<N>`, 2 to 127 bits.
    Int(u32),
}

impl Type {
    /// Number of bits.
    pub fn width(self) -> u32 {
        match self {
            Type::Bool => 1,
            Type::Bits(width) | Type::Int(width) => width,
        }
    }

    /// The largest stored value.
    pub fn mask(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }
}

/// Number of a variable: an index of [`Program::variables`].
pub type Variable = usize;

/// What can be read and assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Variable(Variable),
    /// A header, and a field of [`Program::fields`].
    Field(usize, usize),
}

/// An expression with its type.
#[derive(Clone, Debug)]
pub struct Typed {
    pub ty: Type,
    pub expr: Expr,
}

#[derive(Clone, Debug)]
pub enum Expr {
    Literal(u128),
    Read(Place),
    IsValid(usize),
    /// `!`, `~` or `-`
    Unary(&'static str, Box<Typed>),
    /// An operator on two values of the result's type.
    Binary(&'static str, Box<[Typed; 2]>),
    /// A shift by an unsigned number.
    Shift(&'static str, Box<[Typed; 2]>),
    Compare(&'static str, Box<[Typed; 2]>),
    /// `&&` or `||`
    Logic(&'static str, Box<[Typed; 2]>),
    Concat(Box<[Typed; 2]>),
    /// Bits from this position; the type has their number.
    Slice(Box<Typed>, u32),
    Cast(Box<Typed>),
    Choose(Box<[Typed; 3]>),
    /// A call of a function of [`Program::functions`].
    Call(usize, Vec<Argument>),
}

#[derive(Clone, Debug)]
pub enum Argument {
    In(Typed),
    /// For a parameter that is `out` or `inout`.
    Place(Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    InOut,
    /// Given by entries of tables.
    None,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub direction: Direction,
    pub variable: Variable,
}

/// A function or an action.
#[derive(Clone, Debug)]
pub struct Routine {
    pub parameters: Vec<Parameter>,
    /// `None` for an action.
    pub result: Option<Type>,
    pub body: Block,
}

pub type Block = Vec<Statement>;

#[derive(Clone, Debug)]
pub enum Statement {
    Declare(Variable, Typed),
    /// Place, high and low bit of a slice of it, operator of a compound assignment, and value.
    Assign(Place, Option<(u32, u32)>, &'static str, Typed),
    If(Typed, Block, Block),
    CallAction(usize, Vec<Argument>),
    CallFunction(usize, Vec<Argument>),
    Apply(usize),
    /// Whether the table must hit or miss for the first block.
    IfHit(usize, bool, Block, Block),
    /// `switch` over the action that a table executes.
    SwitchAction(usize, Vec<(usize, Block)>, Option<Block>),
    Switch(Typed, Vec<(Vec<u128>, Block)>, Option<Block>),
    /// A variable, and its first and last value.
    For(Variable, u128, u128, Block),
    Break,
    Continue,
    /// `setValid`, then all fields are assigned.
    SetValid(usize, Vec<Typed>),
    SetInvalid(usize),
    /// Copies the second header to the first.
    Copy(usize, usize),
    /// Assigns a list to a header, which becomes valid. All values are computed first.
    SetHeader(usize, Vec<Typed>),
    /// Assigns a list to a struct of [`Program::structs`]. All values are computed first.
    SetStruct(usize, Vec<Typed>),
    /// Reads a register of the control into a place, at an index.
    ReadRegister(usize, Place, Typed),
    /// Writes a value to a register of the control, at an index.
    WriteRegister(usize, Typed, Typed),
    Exit,
    Return(Option<Typed>),
}

/// What a key must be.
#[derive(Clone, Copy, Debug)]
pub enum Match {
    Any,
    Exact(u128),
    /// Value and mask.
    Ternary(u128, u128),
    /// First and last value.
    Range(u128, u128),
}

impl Match {
    pub fn holds(self, key: u128) -> bool {
        match self {
            Match::Any => true,
            Match::Exact(value) => key == value,
            Match::Ternary(value, mask) => key & mask == value & mask,
            Match::Range(first, last) => (first..=last).contains(&key),
        }
    }
}

/// Whether each key is what the match at its place wants.
pub fn all_hold(matches: &[Match], keys: &[u128]) -> bool {
    let mut pairs = matches.iter().zip(keys);
    pairs.all(|(value, key)| value.holds(*key))
}

/// An action with the values of its parameters.
pub type ActionCall = (usize, Vec<u128>);

#[derive(Clone, Debug)]
pub struct Table {
    /// Match kind and expression of each key.
    pub keys: Vec<(&'static str, Typed)>,
    pub actions: Vec<usize>,
    /// The first entry that matches is executed: they are in the order of their priority, or of their prefixes' lengths.
    pub entries: Vec<(Vec<Match>, ActionCall)>,
    pub default: ActionCall,
}

#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Variables with their first values.
    pub locals: Vec<(Variable, u128)>,
    /// Structs of [`Program::structs`], whose fields are in `locals`.
    pub structs: Vec<usize>,
    /// Type of the cells of each register; it has [`REGISTER_CELLS`].
    pub registers: Vec<Type>,
    pub actions: Vec<Routine>,
    pub tables: Vec<Table>,
    pub body: Block,
}

/// Number of bits of an index of a register.
pub const INDEX_BITS: u32 = 2;

/// Number of cells of a register.
pub const REGISTER_CELLS: usize = 1 << INDEX_BITS;

/// Number of headers. The parser extracts the first, and the second if the first matches a `select`.
pub const HEADERS: usize = 3;

#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Types of all variables.
    pub variables: Vec<Type>,
    /// Variables that are fields of the struct of metadata, which keep their values from ingress to egress.
    pub metadata: Vec<Variable>,
    /// Variables that are the fields of each struct.
    pub structs: Vec<Vec<Variable>>,
    /// Types of the fields of each header. Their sum is a whole number of bytes.
    pub fields: Vec<Type>,
    /// Fields of the first header that the parser compares.
    pub selected: Vec<usize>,
    /// Values of these fields before the second header.
    pub selects: Vec<Vec<Match>>,
    pub functions: Vec<Routine>,
    /// Ingress and egress.
    pub controls: [Control; 2],
}

impl Program {
    pub fn type_of(&self, place: Place) -> Type {
        match place {
            Place::Variable(variable) => self.variables[variable],
            Place::Field(_, field) => self.fields[field],
        }
    }

    /// The struct of which a variable is a field, and the number of the field.
    pub fn struct_of(&self, variable: Variable) -> Option<(usize, usize)> {
        self.structs
            .iter()
            .enumerate()
            .find_map(|(number, fields)| {
                let field = fields.iter().position(|field| *field == variable)?;
                Some((number, field))
            })
    }

    /// Length of a header in bytes.
    pub fn header_bytes(&self) -> usize {
        self.fields
            .iter()
            .map(|ty| ty.width() as usize)
            .sum::<usize>()
            / 8
    }
}
