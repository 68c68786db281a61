//! Meaning of generated programs, written from the P4_16 specification and independent of the compiler: operands and arguments are
//! evaluated from left to right, parameters are copied in before a call and out after it, even if it executes `exit` (sections 6.8, 8.1
//! and 12.5 of version 1.2.5).

use super::program::{
    all_hold, Argument, Block, Control, Direction, Expr, Place, Program, Routine, Statement, Type,
    Typed, HEADERS, REGISTER_CELLS,
};

/// What follows a statement.
enum Flow {
    Next,
    Break,
    Continue,
    Return(Option<u128>),
    Exit,
}

/// State of one packet.
struct Packet<'a> {
    program: &'a Program,
    control: &'a Control,
    /// The registers of the control.
    registers: &'a mut [[u128; REGISTER_CELLS]],
    variables: Vec<u128>,
    /// Validity and fields of each header.
    headers: Vec<(bool, Vec<u128>)>,
}

/// The cells of all registers of each control.
pub struct Registers([Vec<[u128; REGISTER_CELLS]>; 2]);

impl Registers {
    /// All cells are 0 at the start.
    pub fn new(program: &Program) -> Registers {
        let cells = |control: &Control| vec![[0; REGISTER_CELLS]; control.registers.len()];
        Registers(program.controls.each_ref().map(cells))
    }
}

/// Returns the frame that a program sends for a frame, which is at least as long as a header.
pub fn evaluate(program: &Program, registers: &mut Registers, frame: &[u8]) -> Vec<u8> {
    let [ingress, egress] = &mut registers.0;
    let mut packet = Packet {
        program,
        control: &program.controls[0],
        registers: ingress,
        variables: vec![0; program.variables.len()],
        headers: vec![(false, vec![0; program.fields.len()]); HEADERS],
    };
    let rest = packet.parse(frame);
    packet.run();
    packet.control = &program.controls[1];
    packet.registers = egress;
    packet.run();
    let mut out = Vec::new();
    for (is_valid, fields) in &packet.headers {
        if *is_valid {
            out.extend(packed(program, fields));
        }
    }
    out.extend(rest);
    out
}

/// Returns the bytes of a header.
fn packed(program: &Program, fields: &[u128]) -> Vec<u8> {
    let mut bytes = vec![0; program.header_bytes()];
    let mut at = 0;
    for (ty, value) in program.fields.iter().zip(fields) {
        for bit in (0..ty.width()).rev() {
            bytes[at / 8] |= ((value >> bit & 1) as u8) << (7 - at % 8);
            at += 1;
        }
    }
    bytes
}

/// Returns a value of an `int` type as a number.
fn signed(ty: Type, value: u128) -> i128 {
    let unused = 128 - ty.width();
    (value << unused) as i128 >> unused
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::Int(_))
}

impl Packet<'_> {
    /// Extracts the headers, and returns the rest of the frame.
    fn parse<'f>(&mut self, frame: &'f [u8]) -> &'f [u8] {
        let rest = self.extract(0, frame).expect("the frame has a header");
        let fields = &self.headers[0].1;
        let selected: Vec<u128> = self
            .program
            .selected
            .iter()
            .map(|field| fields[*field])
            .collect();
        let mut cases = self.program.selects.iter();
        let is_second = cases.any(|case| all_hold(case, &selected));
        match is_second {
            true => self.extract(1, rest).unwrap_or(rest),
            false => rest,
        }
    }

    /// Extracts a header, if the bytes suffice, and returns the bytes after it.
    fn extract<'f>(&mut self, header: usize, bytes: &'f [u8]) -> Option<&'f [u8]> {
        let (mine, rest) = bytes.split_at_checked(self.program.header_bytes())?;
        let mut at = 0;
        let mut fields = Vec::new();
        for ty in &self.program.fields {
            let mut value = 0;
            for _ in 0..ty.width() {
                value = value << 1 | u128::from(mine[at / 8] >> (7 - at % 8) & 1);
                at += 1;
            }
            fields.push(value);
        }
        self.headers[header] = (true, fields);
        Some(rest)
    }

    /// Executes the control.
    fn run(&mut self) {
        for &(variable, value) in &self.control.locals {
            self.variables[variable] = value;
        }
        self.block(&self.control.body);
    }

    fn read(&self, place: Place) -> u128 {
        match place {
            Place::Variable(variable) => self.variables[variable],
            Place::Field(header, field) => self.headers[header].1[field],
        }
    }

    fn write(&mut self, place: Place, value: u128) {
        match place {
            Place::Variable(variable) => self.variables[variable] = value,
            Place::Field(header, field) => self.headers[header].1[field] = value,
        }
    }

    fn block(&mut self, block: &Block) -> Flow {
        for statement in block {
            match self.statement(statement) {
                Flow::Next => {}
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn statement(&mut self, statement: &Statement) -> Flow {
        match statement {
            Statement::Declare(variable, value) => {
                self.variables[*variable] = self.value(value);
            }
            Statement::Assign(place, slice, op, value) => self.assign(*place, *slice, op, value),
            Statement::If(condition, yes, no) => {
                let holds = self.value(condition) == 1;
                return self.block(if holds { yes } else { no });
            }
            Statement::CallAction(action, arguments) => {
                let action = &self.control.actions[*action];
                if let Flow::Exit = self.call(action, arguments) {
                    return Flow::Exit;
                }
            }
            Statement::CallFunction(function, arguments) => {
                self.call(&self.program.functions[*function], arguments);
            }
            Statement::Apply(table) => {
                if let (_, _, Flow::Exit) = self.apply(*table) {
                    return Flow::Exit;
                }
            }
            Statement::IfHit(table, wanted, yes, no) => {
                return match self.apply(*table) {
                    (_, _, Flow::Exit) => Flow::Exit,
                    (_, hit, _) => self.block(if hit == *wanted { yes } else { no }),
                };
            }
            Statement::SwitchAction(table, cases, default) => {
                return match self.apply(*table) {
                    (_, _, Flow::Exit) => Flow::Exit,
                    (action, ..) => {
                        let case = cases.iter().find(|(label, _)| *label == action);
                        self.case(case.map(|(_, block)| block), default)
                    }
                };
            }
            Statement::Switch(value, cases, default) => {
                let value = self.value(value);
                let case = cases.iter().find(|(labels, _)| labels.contains(&value));
                return self.case(case.map(|(_, block)| block), default);
            }
            Statement::For(variable, first, last, body) => {
                for value in *first..=*last {
                    self.variables[*variable] = value;
                    match self.block(body) {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        flow => return flow,
                    }
                }
            }
            Statement::Break => return Flow::Break,
            Statement::Continue => return Flow::Continue,
            Statement::SetValid(header, values) => {
                self.headers[*header].0 = true;
                for (field, value) in values.iter().enumerate() {
                    let value = self.value(value);
                    self.write(Place::Field(*header, field), value);
                }
            }
            Statement::SetInvalid(header) => self.headers[*header].0 = false,
            Statement::Copy(to, from) => self.headers[*to] = self.headers[*from].clone(),
            Statement::SetHeader(header, values) => {
                let values = values.iter().map(|value| self.value(value)).collect();
                self.headers[*header] = (true, values);
            }
            Statement::SetStruct(number, values) => {
                let values: Vec<u128> = values.iter().map(|value| self.value(value)).collect();
                for (variable, value) in self.program.structs[*number].iter().zip(values) {
                    self.variables[*variable] = value;
                }
            }
            Statement::ReadRegister(register, place, index) => {
                let index = self.value(index);
                self.write(*place, self.registers[*register][index as usize]);
            }
            Statement::WriteRegister(register, index, value) => {
                let index = self.value(index);
                self.registers[*register][index as usize] = self.value(value);
            }
            Statement::Exit => return Flow::Exit,
            Statement::Return(value) => {
                let value = value.as_ref().map(|value| self.value(value));
                return Flow::Return(value);
            }
        }
        Flow::Next
    }

    fn case(&mut self, case: Option<&Block>, default: &Option<Block>) -> Flow {
        match case.or(default.as_ref()) {
            Some(block) => self.block(block),
            None => Flow::Next,
        }
    }

    fn assign(&mut self, place: Place, slice: Option<(u32, u32)>, op: &str, value: &Typed) {
        let bits = |number: u128, (high, low): (u32, u32)| {
            number >> low & Type::Bits(high - low + 1).mask()
        };
        let range = slice.unwrap_or((self.program.type_of(place).width() - 1, 0));
        let old = bits(self.read(place), range);
        let operand = self.value(value);
        let new = match op {
            "" => operand,
            "<<" | ">>" => shift(
                op,
                value_type(self.program.type_of(place), slice),
                old,
                operand,
            ),
            _ => binary(op, value.ty, old, operand),
        };
        // The value may have changed the rest of the place.
        let mask = Type::Bits(range.0 - range.1 + 1).mask() << range.1;
        let whole = self.read(place) & !mask | new << range.1 & mask;
        self.write(place, whole);
    }

    /// Applies a table. Returns the number of the executed action, and whether an entry matched.
    fn apply(&mut self, table: usize) -> (usize, bool, Flow) {
        let table = &self.control.tables[table];
        let keys: Vec<u128> = table.keys.iter().map(|(_, key)| self.value(key)).collect();
        let mut entries = table.entries.iter();
        let hit = entries.find(|(matches, _)| all_hold(matches, &keys));
        let (action, values) = hit.map_or(&table.default, |(_, call)| call);
        let routine = &self.control.actions[*action];
        for (parameter, value) in routine.parameters.iter().zip(values) {
            self.variables[parameter.variable] = *value;
        }
        (*action, hit.is_some(), self.block(&routine.body))
    }

    fn call(&mut self, routine: &Routine, arguments: &[Argument]) -> Flow {
        let values: Vec<u128> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::In(value) => self.value(value),
                Argument::Place(place) => self.read(*place),
            })
            .collect();
        for (parameter, value) in routine.parameters.iter().zip(values) {
            self.variables[parameter.variable] = value;
        }
        let flow = self.block(&routine.body);
        for (parameter, argument) in routine.parameters.iter().zip(arguments) {
            if let (Direction::Out | Direction::InOut, Argument::Place(place)) =
                (parameter.direction, argument)
            {
                self.write(*place, self.variables[parameter.variable]);
            }
        }
        flow
    }

    fn value(&mut self, typed: &Typed) -> u128 {
        let ty = typed.ty;
        let value = match &typed.expr {
            Expr::Literal(value) => *value,
            Expr::Read(place) => self.read(*place),
            Expr::IsValid(header) => u128::from(self.headers[*header].0),
            Expr::Unary("-", a) => self.value(a).wrapping_neg(),
            Expr::Unary(_, a) => !self.value(a),
            Expr::Binary(op, ab) => {
                let [a, b] = self.both(ab);
                binary(op, ty, a, b)
            }
            Expr::Shift(op, ab) => {
                let [a, b] = self.both(ab);
                shift(op, ty, a, b)
            }
            Expr::Compare(op, ab) => {
                let [a, b] = self.both(ab);
                let order = match is_signed(ab[0].ty) {
                    true => signed(ab[0].ty, a).cmp(&signed(ab[0].ty, b)),
                    false => a.cmp(&b),
                };
                u128::from(match *op {
                    "==" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                })
            }
            Expr::Logic(op, ab) => match (self.value(&ab[0]), *op) {
                (0, "&&") => 0,
                (1, "||") => 1,
                _ => self.value(&ab[1]),
            },
            Expr::Concat(ab) => {
                let [a, b] = self.both(ab);
                a << ab[1].ty.width() | b
            }
            Expr::Slice(a, low) => self.value(a) >> low,
            Expr::Cast(a) => match is_signed(a.ty) {
                true => signed(a.ty, self.value(a)) as u128,
                false => self.value(a),
            },
            Expr::Choose(abc) => match self.value(&abc[0]) {
                1 => self.value(&abc[1]),
                _ => self.value(&abc[2]),
            },
            Expr::Call(function, arguments) => {
                match self.call(&self.program.functions[*function], arguments) {
                    Flow::Return(Some(value)) => value,
                    _ => unreachable!("a function ends with return"),
                }
            }
        };
        value & ty.mask()
    }

    fn both(&mut self, operands: &[Typed; 2]) -> [u128; 2] {
        let a = self.value(&operands[0]);
        [a, self.value(&operands[1])]
    }
}

/// Returns the type of a place, or of a slice of it.
fn value_type(ty: Type, slice: Option<(u32, u32)>) -> Type {
    slice.map_or(ty, |(high, low)| Type::Bits(high - low + 1))
}

/// Computes an operator on two values of a type. The result may have more bits than the type.
fn binary(op: &str, ty: Type, a: u128, b: u128) -> u128 {
    let limit = ty.mask();
    match (op, is_signed(ty)) {
        ("+", _) => a.wrapping_add(b),
        ("-", _) => a.wrapping_sub(b),
        ("*", _) => a.wrapping_mul(b),
        ("&", _) => a & b,
        ("|", _) => a | b,
        ("^", _) => a ^ b,
        ("|+|", false) => a.checked_add(b).map_or(limit, |sum| sum.min(limit)),
        ("|-|", false) => a.saturating_sub(b),
        (_, _) => {
            let (a, b) = (signed(ty, a), signed(ty, b));
            let exact = if op == "|+|" { a + b } else { a - b };
            let most = (limit >> 1) as i128;
            exact.clamp(-most - 1, most) as u128
        }
    }
}

/// Shifts a value of a type. The result may have more bits than the type.
fn shift(op: &str, ty: Type, a: u128, by: u128) -> u128 {
    let by = by.min(128) as u32;
    match (op, is_signed(ty)) {
        ("<<", _) => a.checked_shl(by).unwrap_or(0),
        (_, true) => (signed(ty, a) >> by.min(127)) as u128,
        (_, false) => a.checked_shr(by).unwrap_or(0),
    }
}
