//! P4_16 text of generated programs.

use super::program::{
    ActionCall, Argument, Block, Direction, Expr, Match, Place, Program, Routine, Statement, Table,
    Type, Typed, HEADERS, REGISTER_CELLS,
};

/// Returns the text of a program for v1model.
pub fn text(program: &Program) -> String {
    let writer = Writer {
        program,
        control: 0,
    };
    writer.program()
}

/// Writes a program; `control` is the control whose parts are written.
struct Writer<'a> {
    program: &'a Program,
    control: usize,
}

fn joined(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(", ")
}

fn type_name(ty: Type) -> String {
    match ty {
        Type::Bool => "bool".to_owned(),
        Type::Bits(width) => format!("bit<{width}>"),
        Type::Int(width) => format!("int<{width}>"),
    }
}

fn literal(ty: Type, value: u128) -> String {
    match ty {
        Type::Bool => (value == 1).to_string(),
        Type::Bits(width) => format!("{width}w{value}"),
        Type::Int(width) => format!("((int<{width}>){width}w{value})"),
    }
}

fn matched(ty: Type, value: Match) -> String {
    let literal = |value| literal(ty, value);
    match value {
        Match::Any => "_".to_owned(),
        Match::Exact(value) => literal(value),
        Match::Ternary(value, mask) => format!("{} &&& {}", literal(value), literal(mask)),
        Match::Range(first, last) => format!("{} .. {}", literal(first), literal(last)),
    }
}

impl Writer<'_> {
    fn program(&self) -> String {
        let p = self.program;
        let fields: String = p
            .fields
            .iter()
            .enumerate()
            .map(|(i, ty)| format!("{} f{i}; ", type_name(*ty)))
            .collect();
        let headers: String = (0..HEADERS).map(|i| format!("h_t h{i}; ")).collect();
        let metadata: String = p
            .metadata
            .iter()
            .map(|&v| format!("{} v{v}; ", type_name(p.variables[v])))
            .collect();
        let structs: String = p
            .structs
            .iter()
            .enumerate()
            .map(|(number, fields)| {
                let fields = fields.iter().enumerate();
                let fields = fields.map(|(i, v)| format!("{} f{i}; ", type_name(p.variables[*v])));
                format!("struct s{number}_t {{ {}}}\n", fields.collect::<String>())
            })
            .collect();
        let functions: String = p
            .functions
            .iter()
            .enumerate()
            .map(|(i, function)| self.routine(&format!("g{i}"), function))
            .collect();
        let selected = joined(p.selected.iter().map(|field| format!("hdr.h0.f{field}")));
        let selects: String = p
            .selects
            .iter()
            .map(|case| {
                let values = case.iter().zip(&p.selected);
                let values = joined(values.map(|(value, field)| matched(p.fields[*field], *value)));
                format!("({values}): second; ")
            })
            .collect();
        let emitted: String = (0..HEADERS)
            .map(|i| format!("p.emit(hdr.h{i}); "))
            .collect();
        let [ingress, egress] = [0, 1].map(|control| Writer { control, ..*self }.control());
        format!(
            "#include <core.p4>
#include <v1model.p4>
header h_t {{ {fields}}}
struct headers_t {{ {headers}}}
struct meta_t {{ {metadata}}}
{structs}{functions}parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    state start {{ p.extract(hdr.h0); transition select({selected}) {{ {selects}default: accept; }} }}
    state second {{ p.extract(hdr.h1); transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
{ingress}}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
{egress}}}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ {emitted}}} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        )
    }

    fn control(&self) -> String {
        let control = &self.program.controls[self.control];
        let mut text = String::new();
        for (i, ty) in control.registers.iter().enumerate() {
            text += &format!("register<{}>({REGISTER_CELLS}) r{i};\n", type_name(*ty));
        }
        for number in &control.structs {
            let fields = &self.program.structs[*number];
            let values = joined(fields.iter().map(|field| {
                let local = control
                    .locals
                    .iter()
                    .find(|(variable, _)| variable == field);
                let (_, value) = local.expect("fields are variables of the control");
                literal(self.program.variables[*field], *value)
            }));
            text += &format!("s{number}_t s{number} = {{ {values} }};\n");
        }
        for &(variable, value) in &control.locals {
            if self.program.struct_of(variable).is_some() {
                continue;
            }
            let ty = self.program.variables[variable];
            let value = literal(ty, value);
            text += &format!("{} v{variable} = {value};\n", type_name(ty));
        }
        for (i, action) in control.actions.iter().enumerate() {
            text += &self.routine(&format!("a{i}"), action);
        }
        for (i, table) in control.tables.iter().enumerate() {
            text += &self.table(i, table);
        }
        let port = if self.control == 0 {
            "sm.egress_spec = 1;\n"
        } else {
            ""
        };
        format!("{text}apply {{\n{port}{}}}\n", self.block(&control.body))
    }

    fn routine(&self, name: &str, routine: &Routine) -> String {
        let parameters = joined(routine.parameters.iter().map(|parameter| {
            let direction = match parameter.direction {
                Direction::In => "in ",
                Direction::Out => "out ",
                Direction::InOut => "inout ",
                Direction::None => "",
            };
            let variable = parameter.variable;
            format!(
                "{direction}{} v{variable}",
                type_name(self.program.variables[variable])
            )
        }));
        let kind = routine.result.map_or("action".to_owned(), type_name);
        format!(
            "{kind} {name}({parameters}) {{\n{}}}\n",
            self.block(&routine.body)
        )
    }

    fn table(&self, number: usize, table: &Table) -> String {
        let keys: String = table
            .keys
            .iter()
            .enumerate()
            .map(|(i, (kind, key))| format!("{} : {kind} @name(\"k{i}\"); ", self.expr(key)))
            .collect();
        let actions: String = table
            .actions
            .iter()
            .map(|action| format!("a{action}; "))
            .collect();
        let entries: String = table
            .entries
            .iter()
            .map(|(matches, call)| {
                let values = matches.iter().zip(&table.keys);
                let values = joined(values.map(|(value, (_, key))| matched(key.ty, *value)));
                format!("({values}) : {};\n", self.action_call(call))
            })
            .collect();
        let entries = match entries.is_empty() {
            true => String::new(),
            false => format!("const entries = {{\n{entries}}}\n"),
        };
        format!(
            "table t{number} {{ key = {{ {keys}}} actions = {{ {actions}}}\n{entries}default_action = {}; }}\n",
            self.action_call(&table.default)
        )
    }

    fn action_call(&self, (action, values): &ActionCall) -> String {
        let parameters = &self.program.controls[self.control].actions[*action].parameters;
        let values = values.iter().zip(parameters);
        let values = values.map(|(value, p)| literal(self.program.variables[p.variable], *value));
        format!("a{action}({})", joined(values))
    }

    fn block(&self, block: &Block) -> String {
        block
            .iter()
            .map(|statement| self.statement(statement) + "\n")
            .collect()
    }

    fn statement(&self, statement: &Statement) -> String {
        let cases = |cases: &[(String, &Block)], default: &Option<Block>| -> String {
            let cases = cases
                .iter()
                .map(|(label, block)| format!("{label}: {{\n{}}}\n", self.block(block)));
            let default = default
                .iter()
                .map(|block| format!("default: {{\n{}}}\n", self.block(block)));
            cases.chain(default).collect()
        };
        match statement {
            Statement::Declare(variable, value) => {
                format!(
                    "{} v{variable} = {};",
                    type_name(value.ty),
                    self.expr(value)
                )
            }
            Statement::Assign(place, slice, op, value) => {
                let slice = slice.map_or(String::new(), |(high, low)| format!("[{high}:{low}]"));
                format!("{}{slice} {op}= {};", self.place(*place), self.expr(value))
            }
            Statement::If(condition, yes, no) => {
                format!("if ({}) {}", self.expr(condition), self.branches(yes, no))
            }
            Statement::CallAction(action, arguments) => {
                format!("a{action}({});", self.arguments(arguments))
            }
            Statement::CallFunction(function, arguments) => {
                format!("g{function}({});", self.arguments(arguments))
            }
            Statement::Apply(table) => format!("t{table}.apply();"),
            Statement::IfHit(table, hit, yes, no) => {
                let outcome = if *hit { "hit" } else { "miss" };
                format!("if (t{table}.apply().{outcome}) {}", self.branches(yes, no))
            }
            Statement::SwitchAction(table, labels, default) => {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(a, block)| (format!("a{a}"), block))
                    .collect();
                format!(
                    "switch (t{table}.apply().action_run) {{\n{}}}",
                    cases(&labels, default)
                )
            }
            Statement::Switch(value, labels, default) => {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(values, block)| {
                        let values: Vec<_> = values.iter().map(|v| literal(value.ty, *v)).collect();
                        (values.join(": "), block)
                    })
                    .collect();
                format!(
                    "switch ({}) {{\n{}}}",
                    self.expr(value),
                    cases(&labels, default)
                )
            }
            Statement::For(variable, first, last, body) => {
                let ty = self.program.variables[*variable];
                let (first, last) = (literal(ty, *first), literal(ty, *last));
                let body = self.block(body);
                format!(
                    "for ({} v{variable} in {first} .. {last}) {{\n{body}}}",
                    type_name(ty)
                )
            }
            Statement::Break => "break;".to_owned(),
            Statement::Continue => "continue;".to_owned(),
            Statement::SetValid(header, values) => {
                let values = values.iter().enumerate();
                let values =
                    values.map(|(i, value)| format!(" hdr.h{header}.f{i} = {};", self.expr(value)));
                format!("hdr.h{header}.setValid();{}", values.collect::<String>())
            }
            Statement::SetInvalid(header) => format!("hdr.h{header}.setInvalid();"),
            Statement::Copy(to, from) => format!("hdr.h{to} = hdr.h{from};"),
            Statement::SetHeader(header, values) => {
                format!("hdr.h{header} = {};", self.list(values))
            }
            Statement::SetStruct(number, values) => format!("s{number} = {};", self.list(values)),
            Statement::ReadRegister(register, place, index) => {
                format!(
                    "r{register}.read({}, (bit<32>)({}));",
                    self.place(*place),
                    self.expr(index)
                )
            }
            Statement::WriteRegister(register, index, value) => {
                format!(
                    "r{register}.write((bit<32>)({}), {});",
                    self.expr(index),
                    self.expr(value)
                )
            }
            Statement::Exit => "exit;".to_owned(),
            Statement::Return(None) => "return;".to_owned(),
            Statement::Return(Some(value)) => format!("return {};", self.expr(value)),
        }
    }

    fn branches(&self, yes: &Block, no: &Block) -> String {
        let no = match no.is_empty() {
            true => String::new(),
            false => format!(" else {{\n{}}}", self.block(no)),
        };
        format!("{{\n{}}}{no}", self.block(yes))
    }

    fn arguments(&self, arguments: &[Argument]) -> String {
        joined(arguments.iter().map(|argument| match argument {
            Argument::In(value) => self.expr(value),
            Argument::Place(place) => self.place(*place),
        }))
    }

    fn list(&self, values: &[Typed]) -> String {
        format!(
            "{{ {} }}",
            joined(values.iter().map(|value| self.expr(value)))
        )
    }

    fn place(&self, place: Place) -> String {
        let variable = match place {
            Place::Variable(variable) => variable,
            Place::Field(header, field) => return format!("hdr.h{header}.f{field}"),
        };
        match self.program.struct_of(variable) {
            Some((number, field)) => format!("s{number}.f{field}"),
            None if self.program.metadata.contains(&variable) => format!("meta.v{variable}"),
            None => format!("v{variable}"),
        }
    }

    fn expr(&self, value: &Typed) -> String {
        let to = |value: &Typed| self.expr(value);
        match &value.expr {
            Expr::Literal(number) => literal(value.ty, *number),
            Expr::Read(place) => self.place(*place),
            Expr::IsValid(header) => format!("hdr.h{header}.isValid()"),
            Expr::Unary(op, a) => format!("({op}{})", to(a)),
            Expr::Binary(op, ab)
            | Expr::Shift(op, ab)
            | Expr::Compare(op, ab)
            | Expr::Logic(op, ab) => {
                format!("({} {op} {})", to(&ab[0]), to(&ab[1]))
            }
            Expr::Concat(ab) => format!("({} ++ {})", to(&ab[0]), to(&ab[1])),
            Expr::Slice(a, low) => format!("({})[{}:{low}]", to(a), low + value.ty.width() - 1),
            Expr::Cast(a) => format!("(({})({}))", type_name(value.ty), to(a)),
            Expr::Choose(abc) => format!("({} ? {} : {})", to(&abc[0]), to(&abc[1]), to(&abc[2])),
            Expr::Call(function, arguments) => {
                format!("g{function}({})", self.arguments(arguments))
            }
        }
    }
}
