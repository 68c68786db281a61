//! Random programs. None reads an undefined value: a field of a header that may be invalid, or a variable before its assignment.

use super::program::{
    ActionCall, Argument, Block, Control, Direction, Expr, Match, Parameter, Place, Program,
    Routine, Statement, Table, Type, Typed, Variable, HEADERS, INDEX_BITS,
};
use crate::chance::Chance;

/// Types of variables and fields.
const TYPES: [Type; 15] = [
    Type::Bits(1),
    Type::Bits(4),
    Type::Bits(8),
    Type::Bits(13),
    Type::Bits(16),
    Type::Bits(32),
    Type::Bits(33),
    Type::Bits(48),
    Type::Bits(64),
    Type::Bits(65),
    Type::Bits(100),
    Type::Bits(128),
    Type::Int(8),
    Type::Int(32),
    Type::Int(70),
];
/// Depth of blocks in blocks.
const MAX_DEPTH: usize = 3;

/// Where a block is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Function,
    Action,
    /// The `apply` block of a control.
    Apply,
}

/// What a block may use.
#[derive(Clone)]
struct Scope {
    position: Position,
    /// Variables that can be read.
    readable: Vec<Variable>,
    /// Variables that can be assigned; all are readable.
    writable: Vec<Variable>,
    /// Whether each header is valid for sure.
    valid: [bool; HEADERS],
    /// Number of functions and actions that can be called.
    functions: usize,
    actions: usize,
    in_loop: bool,
    result: Option<Type>,
    depth: usize,
}

/// Generates a program.
pub fn generate(chance: &mut Chance) -> Program {
    let mut generator = Generator {
        program: Program::default(),
        control: Control::default(),
        next_table: 0,
        chance,
    };
    generator.headers();
    generator.functions();
    for control in 0..2 {
        generator.control(control);
    }
    generator.program
}

struct Generator<'a> {
    program: Program,
    /// The control that is generated.
    control: Control,
    /// The first table of the control that is not applied yet: each is applied once at most.
    next_table: usize,
    chance: &'a mut Chance,
}

impl Generator<'_> {
    fn any_type(&mut self) -> Type {
        match self.chance.one_in(8) {
            true => Type::Bool,
            false => *self.chance.pick(&TYPES),
        }
    }

    fn variable(&mut self, ty: Type) -> Variable {
        self.program.variables.push(ty);
        self.program.variables.len() - 1
    }

    /// A typical value of a type: small, at a limit, or arbitrary.
    fn number(&mut self, ty: Type) -> u128 {
        let low = self.chance.edgy();
        let value = match self.chance.below(4) {
            0 => u128::from(self.chance.number()) << 64 | u128::from(low),
            1 => !u128::from(low),
            _ => u128::from(low),
        };
        value & ty.mask()
    }

    fn headers(&mut self) {
        let mut bits = 0;
        for _ in 0..2 + self.chance.below(5) {
            let ty = *self.chance.pick(&TYPES);
            self.program.fields.push(ty);
            bits += ty.width();
        }
        if bits % 8 != 0 {
            self.program.fields.push(Type::Bits(8 - bits % 8));
        }
        let is_selectable = |ty: &Type| matches!(ty, Type::Bits(1..=64));
        let mut fields: Vec<usize> = (0..self.program.fields.len()).collect();
        fields.retain(|field| is_selectable(&self.program.fields[*field]));
        fields.truncate(1 + self.chance.below(2));
        if fields.is_empty() {
            self.program.fields.push(Type::Bits(8));
            fields.push(self.program.fields.len() - 1);
        }
        for _ in 0..self.chance.below(4) {
            let types: Vec<Type> = fields
                .iter()
                .map(|field| self.program.fields[*field])
                .collect();
            let case = types.into_iter().map(|ty| self.any_match(ty)).collect();
            self.program.selects.push(case);
        }
        self.program.selected = fields;
        for _ in 0..self.chance.below(4) {
            let ty = *self.chance.pick(&TYPES);
            let variable = self.variable(ty);
            self.program.metadata.push(variable);
        }
    }

    fn any_match(&mut self, ty: Type) -> Match {
        let (a, b) = (self.number(ty), self.number(ty));
        match self.chance.below(6) {
            0 => Match::Any,
            1 | 2 => Match::Exact(a),
            3 | 4 => Match::Ternary(a & b, b),
            _ => Match::Range(a.min(b), a.max(b)),
        }
    }

    fn functions(&mut self) {
        for number in 0..self.chance.below(4) {
            let result = self.any_type();
            let scope = Scope {
                position: Position::Function,
                readable: Vec::new(),
                writable: Vec::new(),
                valid: [false; HEADERS],
                functions: number,
                actions: 0,
                in_loop: false,
                result: Some(result),
                depth: 1,
            };
            let directions = [
                Direction::In,
                Direction::In,
                Direction::InOut,
                Direction::Out,
            ];
            let function = self.routine(scope, &directions);
            self.program.functions.push(function);
        }
    }

    /// Generates a function or an action; parameters have these directions.
    fn routine(&mut self, mut scope: Scope, directions: &[Direction]) -> Routine {
        let mut parameters = Vec::new();
        let mut body = Vec::new();
        let mut outs = Vec::new();
        for _ in 0..self.chance.below(4) {
            let direction = *self.chance.pick(directions);
            let ty = self.any_type();
            let variable = self.variable(ty);
            match direction {
                Direction::In | Direction::None => scope.readable.push(variable),
                Direction::InOut => {
                    scope.readable.push(variable);
                    scope.writable.push(variable);
                }
                Direction::Out => outs.push((variable, ty)),
            }
            parameters.push(Parameter {
                direction,
                variable,
            });
        }
        for (variable, ty) in outs {
            let value = self.value(&scope, ty, 2);
            body.push(Statement::Assign(
                Place::Variable(variable),
                None,
                "",
                value,
            ));
            scope.readable.push(variable);
            scope.writable.push(variable);
        }
        let count = 1 + self.chance.below(4);
        self.statements(&mut scope, &mut body, count);
        if let Some(ty) = scope.result {
            let value = self.value(&scope, ty, 2);
            body.push(Statement::Return(Some(value)));
        }
        Routine {
            parameters,
            result: scope.result,
            body,
        }
    }

    fn control(&mut self, number: usize) {
        self.control = Control::default();
        self.next_table = 0;
        let mut scope = Scope {
            position: Position::Apply,
            readable: self.program.metadata.clone(),
            writable: self.program.metadata.clone(),
            valid: [true, false, false],
            functions: self.program.functions.len(),
            actions: 0,
            in_loop: false,
            result: None,
            depth: 0,
        };
        for _ in 0..1 + self.chance.below(4) {
            let ty = self.any_type();
            let variable = self.variable(ty);
            let value = self.number(ty);
            self.control.locals.push((variable, value));
            scope.readable.push(variable);
            scope.writable.push(variable);
        }
        if self.chance.one_in(2) {
            let ty = *self.chance.pick(&TYPES);
            let fields: Vec<Variable> = (0..2 + self.chance.below(2))
                .map(|_| self.variable(ty))
                .collect();
            for field in &fields {
                let value = self.number(ty);
                self.control.locals.push((*field, value));
                scope.readable.push(*field);
                scope.writable.push(*field);
            }
            self.control.structs.push(self.program.structs.len());
            self.program.structs.push(fields);
        }
        for _ in 0..self.chance.below(3) {
            let ty = *self.chance.pick(&TYPES);
            self.control.registers.push(ty);
        }
        for number in 0..1 + self.chance.below(5) {
            let inner = Scope {
                position: Position::Action,
                actions: number,
                depth: 1,
                ..scope.clone()
            };
            let directions: &[Direction] = match number % 2 {
                0 => &[Direction::None],
                _ => &[Direction::In, Direction::InOut, Direction::Out],
            };
            let action = self.routine(inner, directions);
            self.control.actions.push(action);
        }
        scope.actions = self.control.actions.len();
        for _ in 0..self.chance.below(4) {
            // Keys are evaluated where the table is applied.
            let table = self.table(&scope);
            self.control.tables.push(table);
        }
        let mut body = Vec::new();
        if number == 0 {
            for variable in self.program.metadata.clone() {
                let ty = self.program.variables[variable];
                let value = self.number(ty);
                let value = Typed {
                    ty,
                    expr: Expr::Literal(value),
                };
                body.push(Statement::Assign(
                    Place::Variable(variable),
                    None,
                    "",
                    value,
                ));
            }
        }
        let count = 2 + self.chance.below(8);
        self.statements(&mut scope, &mut body, count);
        self.control.body = body;
        self.program.controls[number] = std::mem::take(&mut self.control);
    }

    fn table(&mut self, scope: &Scope) -> Table {
        let mut actions: Vec<usize> = (0..self.control.actions.len()).step_by(2).collect();
        if actions.len() > 1 && self.chance.one_in(2) {
            actions.remove(self.chance.below(actions.len()));
        }
        let default = self.action_call(&actions);
        let is_lpm = self.chance.one_in(4);
        let kinds: &[&str] = match self.chance.one_in(3) {
            true => &["exact"],
            false => &["exact", "ternary", "range"],
        };
        let mut keys = Vec::new();
        for _ in 0..1 + if is_lpm { 0 } else { self.chance.below(3) } {
            let ty = *self.chance.pick(&[1, 2, 4, 8, 16, 32, 64, 128]);
            let kind = if is_lpm {
                "lpm"
            } else {
                self.chance.pick(kinds)
            };
            let ty = Type::Bits(if kind == "range" { ty.min(32) } else { ty });
            keys.push((kind, self.value(scope, ty, 2)));
        }
        let mut entries: Vec<(Vec<Match>, ActionCall)> = Vec::new();
        for _ in 0..self.chance.below(6) {
            let mut values = Vec::new();
            for (kind, key) in &keys {
                let ty = key.ty;
                let (a, b) = (self.number(ty), self.number(ty));
                values.push(match *kind {
                    "exact" => Match::Exact(a),
                    "ternary" => match self.chance.below(3) {
                        0 => Match::Any,
                        1 => Match::Exact(a),
                        _ => Match::Ternary(a & b, b),
                    },
                    "range" => Match::Range(a.min(b), a.max(b)),
                    _ => {
                        let host_bits = self.chance.below(ty.width() as usize + 1) as u32;
                        let mask = ty.mask().checked_shr(host_bits).unwrap_or(0);
                        let mask = mask.checked_shl(host_bits).unwrap_or(0);
                        Match::Ternary(a & mask, mask)
                    }
                });
            }
            let is_new = !entries
                .iter()
                .any(|(other, _)| format!("{other:?}") == format!("{values:?}"));
            if is_new {
                entries.push((values, self.action_call(&actions)));
            }
        }
        if is_lpm {
            let length = |values: &[Match]| match values[0] {
                Match::Ternary(_, mask) => mask.count_ones(),
                _ => unreachable!("an entry of a prefix"),
            };
            entries.sort_by_key(|(values, _)| std::cmp::Reverse(length(values)));
        }
        Table {
            keys,
            actions,
            entries,
            default,
        }
    }

    fn action_call(&mut self, actions: &[usize]) -> ActionCall {
        let action = *self.chance.pick(actions);
        let parameters = &self.control.actions[action].parameters;
        let types: Vec<Type> = parameters
            .iter()
            .map(|p| self.program.variables[p.variable])
            .collect();
        (
            action,
            types.into_iter().map(|ty| self.number(ty)).collect(),
        )
    }

    /// Generates a block in another one. A header is valid for sure after it if it is before and at the end of it.
    fn block(&mut self, scope: &mut Scope) -> Block {
        let mut inner = Scope {
            depth: scope.depth + 1,
            ..scope.clone()
        };
        let mut block = Vec::new();
        let count = 1 + self.chance.below(3);
        self.statements(&mut inner, &mut block, count);
        for (outer, inner) in scope.valid.iter_mut().zip(inner.valid) {
            *outer &= inner;
        }
        block
    }

    fn statements(&mut self, scope: &mut Scope, block: &mut Block, count: usize) {
        for _ in 0..count {
            let statement = self.statement(scope);
            let is_end = matches!(
                statement,
                Statement::Break | Statement::Continue | Statement::Exit | Statement::Return(_)
            );
            block.push(statement);
            if is_end {
                return;
            }
        }
    }

    fn statement(&mut self, scope: &mut Scope) -> Statement {
        let is_nested = scope.depth < MAX_DEPTH;
        let in_apply = scope.position == Position::Apply;
        loop {
            match self.chance.below(25) {
                0 | 1 => {
                    let ty = self.any_type();
                    let value = self.value(scope, ty, 3);
                    let variable = self.variable(ty);
                    scope.readable.push(variable);
                    scope.writable.push(variable);
                    return Statement::Declare(variable, value);
                }
                2..=6 => {
                    if let Some(statement) = self.assignment(scope) {
                        return statement;
                    }
                }
                7..=9 if is_nested => {
                    let mut tested = scope.clone();
                    let header = 1 + self.chance.below(HEADERS - 1);
                    let condition =
                        match scope.position != Position::Function && self.chance.one_in(3) {
                            true => {
                                tested.valid[header] = true;
                                Typed {
                                    ty: Type::Bool,
                                    expr: Expr::IsValid(header),
                                }
                            }
                            false => self.value(scope, Type::Bool, 3),
                        };
                    let before = scope.valid;
                    let yes = self.block(&mut tested);
                    let no = if self.chance.one_in(2) {
                        self.block(scope)
                    } else {
                        Vec::new()
                    };
                    for (i, valid) in scope.valid.iter_mut().enumerate() {
                        *valid &= before[i] && tested.valid[i];
                    }
                    return Statement::If(condition, yes, no);
                }
                10 | 11 if scope.actions > 1 => {
                    let action = self.chance.below(scope.actions / 2) * 2 + 1;
                    let parameters = self.control.actions[action].parameters.clone();
                    if let Some(arguments) = self.arguments(scope, &parameters, 2) {
                        return Statement::CallAction(action, arguments);
                    }
                }
                12 if scope.functions > 0 => {
                    if let Some((function, arguments)) = self.call(scope, None, 2) {
                        return Statement::CallFunction(function, arguments);
                    }
                }
                13 | 14
                    if in_apply
                        && !scope.in_loop
                        && self.next_table < self.control.tables.len() =>
                {
                    return self.application(scope);
                }
                15 if is_nested => {
                    let ty = *self.chance.pick(&[
                        Type::Bits(1),
                        Type::Bits(4),
                        Type::Bits(16),
                        Type::Bits(64),
                    ]);
                    // In actions and functions p4c does not support `switch`.
                    if !in_apply {
                        continue;
                    }
                    let value = self.value(scope, ty, 2);
                    let mut cases: Vec<(Vec<u128>, Block)> = Vec::new();
                    for _ in 0..1 + self.chance.below(3) {
                        let mut labels: Vec<u128> = Vec::new();
                        for _ in 0..1 + self.chance.below(2) {
                            let label = self.number(ty);
                            if !labels.contains(&label)
                                && !cases.iter().any(|(used, _)| used.contains(&label))
                            {
                                labels.push(label);
                            }
                        }
                        if !labels.is_empty() {
                            cases.push((labels, self.block(scope)));
                        }
                    }
                    let default = self.chance.one_in(2).then(|| self.block(scope));
                    return Statement::Switch(value, cases, default);
                }
                16 if is_nested => {
                    let ty = *self.chance.pick(&[
                        Type::Bits(4),
                        Type::Bits(8),
                        Type::Int(8),
                        Type::Bits(32),
                    ]);
                    let variable = self.variable(ty);
                    let first = self.chance.below(4) as u128;
                    let mut inner = Scope {
                        in_loop: true,
                        ..scope.clone()
                    };
                    inner.readable.push(variable);
                    let body = self.block(&mut inner);
                    let last = first + self.chance.below(4) as u128;
                    return Statement::For(variable, first, last, body);
                }
                17 if scope.in_loop && scope.depth > 1 => {
                    return match self.chance.one_in(2) {
                        true => Statement::Break,
                        false => Statement::Continue,
                    };
                }
                18 if scope.position != Position::Function => {
                    return self.validity(scope);
                }
                19 if scope.position != Position::Function
                    && scope.depth > 1
                    && self.chance.one_in(3) =>
                {
                    return Statement::Exit;
                }
                20 if scope.depth > 1 && self.chance.one_in(2) => {
                    let value = scope.result.map(|ty| self.value(scope, ty, 2));
                    return Statement::Return(value);
                }
                21 if !self.control.structs.is_empty() && scope.position != Position::Function => {
                    let structs = self.control.structs.clone();
                    let number = *self.chance.pick(&structs);
                    let types = self.program.structs[number]
                        .iter()
                        .map(|v| self.program.variables[*v]);
                    let types: Vec<Type> = types.collect();
                    return Statement::SetStruct(number, self.list(scope, &types));
                }
                22 if scope.position != Position::Function => {
                    let header = 1 + self.chance.below(HEADERS - 1);
                    let types = self.program.fields.clone();
                    let values = self.list(scope, &types);
                    scope.valid[header] = true;
                    return Statement::SetHeader(header, values);
                }
                23 if !self.control.registers.is_empty()
                    && scope.position != Position::Function =>
                {
                    let register = self.chance.below(self.control.registers.len());
                    let ty = self.control.registers[register];
                    let index = self.value(scope, Type::Bits(INDEX_BITS), 2);
                    if self.chance.one_in(2) {
                        let value = self.value(scope, ty, 2);
                        return Statement::WriteRegister(register, index, value);
                    }
                    if let Some(place) = self.place(scope, ty) {
                        return Statement::ReadRegister(register, place, index);
                    }
                }
                _ => {}
            }
        }
    }

    /// Values of these types. Some are those of other fields, so that their order matters.
    fn list(&mut self, scope: &Scope, types: &[Type]) -> Vec<Typed> {
        types.iter().map(|ty| self.value(scope, *ty, 1)).collect()
    }

    fn assignment(&mut self, scope: &Scope) -> Option<Statement> {
        let any = self.any_type();
        let place = match self.place(scope, any) {
            Some(place) => place,
            None => Place::Variable(
                *scope
                    .writable
                    .get(self.chance.below(scope.writable.len().max(1)))?,
            ),
        };
        let ty = self.program.type_of(place);
        if let Type::Bits(2..) = ty {
            if self.chance.one_in(4) {
                let low = self.chance.below(ty.width() as usize) as u32;
                let high = low + self.chance.below((ty.width() - low) as usize) as u32;
                let value = self.value(scope, Type::Bits(high - low + 1), 3);
                return Some(Statement::Assign(place, Some((high, low)), "", value));
            }
        }
        if ty != Type::Bool && self.chance.one_in(4) {
            let op = *self
                .chance
                .pick(&["+", "-", "*", "&", "|", "^", "|+|", "|-|", "<<", ">>"]);
            let value = match op {
                "<<" | ">>" => self.value(scope, Type::Bits(4), 2),
                _ => self.value(scope, ty, 2),
            };
            return Some(Statement::Assign(place, None, op, value));
        }
        let value = self.value(scope, ty, 4);
        Some(Statement::Assign(place, None, "", value))
    }

    fn application(&mut self, scope: &mut Scope) -> Statement {
        let table = self.next_table;
        self.next_table += 1;
        match self.chance.below(3) {
            0 if scope.depth < MAX_DEPTH => {
                let yes = self.block(scope);
                let no = if self.chance.one_in(2) {
                    self.block(scope)
                } else {
                    Vec::new()
                };
                Statement::IfHit(table, self.chance.one_in(2), yes, no)
            }
            1 if scope.depth < MAX_DEPTH => {
                let mut cases = Vec::new();
                for action in self.control.tables[table].actions.clone() {
                    if self.chance.one_in(2) {
                        cases.push((action, self.block(scope)));
                    }
                }
                let default = self.chance.one_in(2).then(|| self.block(scope));
                Statement::SwitchAction(table, cases, default)
            }
            _ => Statement::Apply(table),
        }
    }

    /// A statement that changes whether a header is valid. Only the `apply` block makes one invalid, and not in a loop, so that it is known
    /// which headers are valid.
    fn validity(&mut self, scope: &mut Scope) -> Statement {
        let header = 1 + self.chance.below(HEADERS - 1);
        if scope.position == Position::Apply && !scope.in_loop && self.chance.one_in(2) {
            if self.chance.one_in(2) {
                scope.valid[header] = false;
                return Statement::SetInvalid(header);
            }
            let from = self.chance.below(HEADERS);
            scope.valid[header] = scope.valid[from];
            return Statement::Copy(header, from);
        }
        // A new header has no value before all of its fields are assigned.
        let types = self.program.fields.clone();
        let values = types.into_iter().map(|ty| self.value(scope, ty, 1));
        let values = values.collect();
        scope.valid[header] = true;
        Statement::SetValid(header, values)
    }

    /// A place of a type that can be read and written.
    fn place(&mut self, scope: &Scope, ty: Type) -> Option<Place> {
        let places = self.places(scope, &scope.writable, ty);
        (!places.is_empty()).then(|| *self.chance.pick(&places))
    }

    fn places(&self, scope: &Scope, variables: &[Variable], ty: Type) -> Vec<Place> {
        let variables = variables
            .iter()
            .filter(|v| self.program.variables[**v] == ty);
        let mut places: Vec<Place> = variables.map(|v| Place::Variable(*v)).collect();
        for header in (0..HEADERS).filter(|header| scope.valid[*header]) {
            let fields =
                (0..self.program.fields.len()).filter(|field| self.program.fields[*field] == ty);
            places.extend(fields.map(|field| Place::Field(header, field)));
        }
        places
    }

    /// A call of a function with this result, if one can be called.
    fn call(
        &mut self,
        scope: &Scope,
        result: Option<Type>,
        depth: usize,
    ) -> Option<(usize, Vec<Argument>)> {
        let fits = |function: &usize| {
            result.is_none() || self.program.functions[*function].result == result
        };
        let functions: Vec<usize> = (0..scope.functions).filter(fits).collect();
        if functions.is_empty() {
            return None;
        }
        let function = *self.chance.pick(&functions);
        let parameters = self.program.functions[function].parameters.clone();
        let arguments = self.arguments(scope, &parameters, depth)?;
        Some((function, arguments))
    }

    fn arguments(
        &mut self,
        scope: &Scope,
        parameters: &[Parameter],
        depth: usize,
    ) -> Option<Vec<Argument>> {
        let mut arguments = Vec::new();
        for parameter in parameters {
            let ty = self.program.variables[parameter.variable];
            arguments.push(match parameter.direction {
                Direction::Out | Direction::InOut => Argument::Place(self.place(scope, ty)?),
                Direction::In | Direction::None => {
                    Argument::In(self.value(scope, ty, depth.saturating_sub(1)))
                }
            });
        }
        Some(arguments)
    }

    /// An expression of a type; `depth` limits the operators in it.
    fn value(&mut self, scope: &Scope, ty: Type, depth: usize) -> Typed {
        let expr = match depth == 0 || self.chance.one_in(4) {
            true => self.leaf(scope, ty),
            false => self.operation(scope, ty, depth - 1),
        };
        Typed { ty, expr }
    }

    fn leaf(&mut self, scope: &Scope, ty: Type) -> Expr {
        let places = self.places(scope, &scope.readable, ty);
        if !places.is_empty() && !self.chance.one_in(4) {
            return Expr::Read(*self.chance.pick(&places));
        }
        // A part of a wider value, if there is one.
        if let Type::Bits(width) = ty {
            for other in TYPES {
                let places = self.places(scope, &scope.readable, other);
                if matches!(other, Type::Bits(wider) if wider > width)
                    && !places.is_empty()
                    && self.chance.one_in(3)
                {
                    let low = self.chance.below((other.width() - width) as usize + 1) as u32;
                    let expr = Expr::Read(*self.chance.pick(&places));
                    return Expr::Slice(Box::new(Typed { ty: other, expr }), low);
                }
            }
        }
        Expr::Literal(self.number(ty))
    }

    fn pair(&mut self, scope: &Scope, types: [Type; 2], depth: usize) -> Box<[Typed; 2]> {
        Box::new(types.map(|ty| self.value(scope, ty, depth)))
    }

    fn operation(&mut self, scope: &Scope, ty: Type, depth: usize) -> Expr {
        loop {
            match (self.chance.below(10), ty) {
                (0, _) => {
                    if let Some((function, arguments)) = self.call(scope, Some(ty), depth) {
                        return Expr::Call(function, arguments);
                    }
                }
                (1, _) => {
                    let condition = self.value(scope, Type::Bool, depth);
                    let values = [0; 2].map(|_| self.value(scope, ty, depth));
                    let [yes, no] = values;
                    return Expr::Choose(Box::new([condition, yes, no]));
                }
                (2, Type::Bool) => return Expr::Unary("!", Box::new(self.value(scope, ty, depth))),
                (3 | 4, Type::Bool) => {
                    let op = *self.chance.pick(&["&&", "||"]);
                    return Expr::Logic(op, self.pair(scope, [ty; 2], depth));
                }
                (5, Type::Bool) if scope.position != Position::Function => {
                    return Expr::IsValid(self.chance.below(HEADERS));
                }
                (_, Type::Bool) => {
                    let operands = self.any_type();
                    let op = match operands {
                        Type::Bool => *self.chance.pick(&["==", "!="]),
                        _ => *self.chance.pick(&["==", "!=", "<", "<=", ">", ">="]),
                    };
                    return Expr::Compare(op, self.pair(scope, [operands; 2], depth));
                }
                (2, _) => {
                    let op = *self.chance.pick(&["~", "-"]);
                    return Expr::Unary(op, Box::new(self.value(scope, ty, depth)));
                }
                (3 | 4, _) => {
                    let op = *self
                        .chance
                        .pick(&["+", "-", "*", "&", "|", "^", "|+|", "|-|"]);
                    return Expr::Binary(op, self.pair(scope, [ty; 2], depth));
                }
                (5, _) => {
                    let op = *self.chance.pick(&["<<", ">>"]);
                    let by = *self.chance.pick(&[Type::Bits(4), Type::Bits(8)]);
                    return Expr::Shift(op, self.pair(scope, [ty, by], depth));
                }
                (6, Type::Bits(width @ 2..)) => {
                    let first = 1 + self.chance.below(width as usize - 1) as u32;
                    let types = [Type::Bits(first), Type::Bits(width - first)];
                    return Expr::Concat(self.pair(scope, types, depth));
                }
                (7, Type::Bits(width)) => {
                    let wider = width + self.chance.below((128 - width) as usize + 1) as u32;
                    let low = self.chance.below((wider - width) as usize + 1) as u32;
                    let value = self.value(scope, Type::Bits(wider), depth);
                    return Expr::Slice(Box::new(value), low);
                }
                (8 | 9, Type::Bits(width)) => {
                    let from = match self.chance.below(3) {
                        0 if width == 1 => Type::Bool,
                        1 if (2..128).contains(&width) => Type::Int(width),
                        _ => Type::Bits(1 + self.chance.below(128) as u32),
                    };
                    return Expr::Cast(Box::new(self.value(scope, from, depth)));
                }
                (8 | 9, Type::Int(width)) => {
                    let from = match self.chance.one_in(2) {
                        true => Type::Bits(width),
                        false => Type::Int(2 + self.chance.below(100) as u32),
                    };
                    return Expr::Cast(Box::new(self.value(scope, from, depth)));
                }
                _ => {}
            }
        }
    }
}
