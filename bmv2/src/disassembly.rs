//! Disassembly: the code of a program as text, with names of fields and objects, and source lines.

use crate::exec::node::{BigDest, Binary, Cast, Kind, Node, Unary};
use crate::exec::ops::{FusedOp, Operand, Pc, Slot, Test};
use crate::exec::words::{param_words, words_of};
use crate::program::{DynHeaderOp, DynRef, Listing, LoadedProgram, Param};
use crate::LoadError;
use std::fmt::Write;

/// Returns the code of a program, which is BMv2 JSON, as text: each action, parse state and pipeline with its
/// instructions, their positions, and the source lines from which they come.
///
/// # Errors
/// As [`LoadedProgram::from_json`].
pub fn disassemble(json: &str) -> Result<String, LoadError> {
    let (program, listing) = LoadedProgram::with_listing(json)?;
    let program = Disassembly {
        program: &program,
        listing: &listing,
    };
    Ok(program.text())
}

/// A program with the origin of its code.
struct Disassembly<'a> {
    program: &'a LoadedProgram,
    listing: &'a Listing,
}

impl<'a> Disassembly<'a> {
    fn text(&self) -> String {
        let mut text = String::from(
            "# An instruction with several parts is fused: it has the effect of the next ones too, and skips them.\n",
        );
        let parts = &self.listing.parts;
        for (i, (start, name)) in parts.iter().enumerate() {
            let end = parts
                .get(i + 1)
                .map_or(self.program.code.len() as Pc, |next| next.0);
            if *start < end {
                self.part(&mut text, name, *start, end);
            }
        }
        text
    }

    fn part(&self, text: &mut String, name: &str, start: Pc, end: Pc) {
        let action = self
            .program
            .actions
            .iter()
            .find(|action| action.code == start);
        let params = action.map_or(&[][..], |action| &action.params);
        let names = Names::of(self, params);
        let list: Vec<String> = params
            .iter()
            .map(|param| format!("{}: {}", param.name, param.bits))
            .collect();
        let list = match list.is_empty() {
            true => String::new(),
            false => format!("({})", list.join(", ")),
        };
        line(text, format_args!("\n{name}{list}:"));
        let mut last = None;
        for pc in start..end {
            let source = self.listing.line(pc);
            if source != last {
                if let Some(source) = source {
                    let (file, number, fragment) = (&source.file, source.line, &source.fragment);
                    line(text, format_args!("        # {file}:{number}: {fragment}"));
                }
                last = source;
            }
            let op = self.program.code[pc as usize];
            line(text, format_args!("{pc:6}  {}", names.instruction(op, pc)));
            op.operands(|_, operand| {
                if let Operand::Table(table) = operand {
                    line(text, format_args!("          {}", self.exits(table)));
                }
            });
        }
    }

    /// Returns the text of the next instruction after a table: one per action, then those after a hit and a miss.
    fn exits(&self, table: u16) -> String {
        let table = &self.program.tables[usize::from(table)];
        let actions = table.actions.iter().map(|(action, next)| {
            let name = &self.program.actions[usize::from(*action)].name;
            format!("{name} -> {next}")
        });
        let hit = table.on_hit.map(|next| format!("hit -> {next}"));
        let miss = table.on_miss.unwrap_or(table.after_miss);
        let all: Vec<String> = actions
            .chain(hit)
            .chain([format!("miss -> {miss}")])
            .collect();
        all.join(", ")
    }
}

/// Appends a line to the text of the disassembly.
fn line(text: &mut String, line: std::fmt::Arguments) {
    writeln!(text, "{line}").expect("a String takes everything");
}

/// Names of the operands of instructions: fields, parameters and temporaries. A part of the code, such as an action,
/// has its own names of parameters.
struct Names<'a> {
    program: &'a LoadedProgram,
    /// Name of each of the packet's 64-bit words, such as `ipv4.ttl`.
    words: Vec<String>,
}

impl<'a> Names<'a> {
    fn of(disassembly: &Disassembly<'a>, params: &[Param]) -> Names<'a> {
        let Disassembly { program, listing } = *disassembly;
        let layout = &program.layout;
        let count = layout.initial.len();
        let mut words: Vec<String> = (0..count).map(|slot| format!("t{slot}")).collect();
        let mut name = |slot: usize, count: usize, name: String| {
            for i in 0..count {
                let Some(word) = words.get_mut(slot + i) else {
                    continue;
                };
                *word = match count {
                    1 => name.clone(),
                    _ => format!("{name}@{i}"),
                };
            }
        };
        for slot in usize::from(layout.params)..count {
            name(slot, 1, format!("arg{}", slot - usize::from(layout.params)));
        }
        let end_of_args = program.actions.iter().map(|action| action.words).max();
        let end_of_args = usize::from(layout.params) + end_of_args.unwrap_or(0);
        for slot in end_of_args..count {
            name(slot, 1, format!("t{}", slot - end_of_args));
        }
        for param in params {
            let slot = usize::from(layout.params) + param.offset;
            name(slot, param_words(param.bits), param.name.clone());
        }
        for header in &layout.headers {
            if !header.metadata {
                let valid = format!("{}.valid", header.name);
                name(usize::from(header.valid), 1, valid);
            }
            for field in header.fields.iter().filter(|field| field.bits > 0) {
                let slot = usize::from(field.slot);
                name(
                    slot,
                    words_of(field.bits),
                    format!("{}.{}", header.name, field.name),
                );
            }
            if let Some(varbit) = header.varbit {
                name(
                    usize::from(varbit.length),
                    1,
                    format!("{}.length", header.name),
                );
            }
        }
        for (i, stack) in layout.stacks.iter().enumerate() {
            name(usize::from(stack.next), 1, format!("stack{i}.next"));
        }
        for (i, stack) in layout.union_stacks.iter().enumerate() {
            name(usize::from(stack.next), 1, format!("unions{i}.next"));
        }
        for &slot in &listing.constants {
            let value = layout.initial[usize::from(slot)];
            name(usize::from(slot), 1, constant(value));
        }
        Names { program, words }
    }

    /// Returns the disassembly of one instruction; `pc` is its position, from which jump targets are computed.
    fn instruction(&self, op: FusedOp, pc: Pc) -> String {
        let mut text = String::new();
        let mut rest = op.text();
        while let Some((before, (name, after))) = rest
            .split_once('{')
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            text += before;
            let (name, index) = match name.split_once('.') {
                Some((name, index)) => (name, usize::from(index == "1")),
                None => (name, 0),
            };
            op.operands(|operand, value| {
                if operand == name {
                    text += &self.operand(value, index, pc);
                }
            });
            rest = after;
        }
        text + rest
    }

    fn word(&self, slot: Slot) -> String {
        let word = self.words.get(usize::from(slot));
        word.cloned().unwrap_or_else(|| format!("w{slot}"))
    }

    /// Returns the text of an operand of the instruction at `pc`. For an operand that is a pair, `index` (0 or 1)
    /// selects one of the two.
    fn operand(&self, operand: Operand, index: usize, pc: Pc) -> String {
        let program = self.program;
        let layout = &program.layout;
        let header = |header: u16| layout.headers[usize::from(header)].name.clone();
        match operand {
            Operand::Result(slot)
            | Operand::Def(slot)
            | Operand::MayDef(slot)
            | Operand::DefWords(slot)
            | Operand::Word(slot)
            | Operand::Words(slot) => self.word(slot),
            Operand::OptionalDef(slot) => slot.map_or_else(|| "_".to_owned(), |s| self.word(s)),
            Operand::Count(n) => n.to_string(),
            Operand::Width(n) | Operand::Bit(n) => n.to_string(),
            Operand::BitPair(pair) => pair[index].to_string(),
            Operand::BitValue(set) => u8::from(set).to_string(),
            Operand::Test(test) => symbol(test).to_owned(),
            Operand::Equality(equal) => equality(equal).to_owned(),
            Operand::Equalities(pair) => equality(pair[index]).to_owned(),
            Operand::Target(to) => to.to_string(),
            Operand::Offset(n) => (pc + 1 + Pc::from(n)).to_string(),
            Operand::Offsets(pair) => (pc + 1 + Pc::from(pair[index])).to_string(),
            Operand::Header(h) => header(h),
            Operand::Union(u) => layout.unions[usize::from(u)].name.clone(),
            Operand::Stack(stack) => self.stack(stack),
            Operand::UnionStack(stack) => format!("unions{stack}"),
            Operand::AnyStack(stack) => match usize::from(stack).checked_sub(layout.stacks.len()) {
                Some(stack) => format!("unions{stack}"),
                None => self.stack(stack),
            },
            Operand::Element(element) => self.element(element),
            Operand::DynHeader(op) => {
                let op = &program.dyn_headers[usize::from(op)];
                let element = |element: &DynRef| {
                    let all: Vec<String> = element.headers.iter().map(|h| header(*h)).collect();
                    match element.index {
                        Some(index) => format!("[{}][{}]", all.join(", "), self.word(index)),
                        None => all.join(", "),
                    }
                };
                let dest = element(&op.dest);
                match op.op {
                    DynHeaderOp::Add => format!("{dest} := valid"),
                    DynHeaderOp::Remove => format!("{dest} := invalid"),
                    DynHeaderOp::Assign => {
                        let source = op.source.as_ref().map(element);
                        format!("{dest} := {}", source.unwrap_or_default())
                    }
                }
            }
            Operand::Register(array) => program.registers[usize::from(array)].name.clone(),
            Operand::Counter(array) => program.counters[usize::from(array)].name.clone(),
            Operand::Meter(array) => program.meters[usize::from(array)].name.clone(),
            Operand::Calculation(number) => format!("hash{number}"),
            Operand::Table(table) => program.tables[usize::from(table)].name.clone(),
            Operand::Action(action) => program.actions[usize::from(action)].name.clone(),
            Operand::Big(index) => self.big(index),
            Operand::LogMessage(index) => format!("{:?}", program.logs[usize::from(index)].format),
            Operand::Assertion(index) => format!("{:?}", program.asserts[usize::from(index)]),
            Operand::Site(site) => program.access_sites[usize::from(site)].clone(),
            Operand::Note(index) => index.to_string(),
            Operand::CoverageCounter(counter) => counter.to_string(),
        }
    }

    /// Returns the name of a header stack, which is that of its first element without `[0]`.
    fn stack(&self, stack: u16) -> String {
        let layout = &self.program.layout;
        let first = layout.stacks[usize::from(stack)].headers.first();
        let first = first.map(|header| &layout.headers[usize::from(*header)].name);
        match first.and_then(|name| name.strip_suffix("[0]")) {
            Some(name) => name.to_owned(),
            None => format!("stack{stack}"),
        }
    }

    /// Returns the name of a field of a stack's elements, which is that of the field in element 0.
    fn element(&self, element: u16) -> String {
        self.word(self.program.elements[usize::from(element)].start)
    }

    fn big(&self, index: u32) -> String {
        let big = &self.program.bigs[index as usize];
        let value = self.node(&big.node);
        match &big.dest {
            BigDest::Word(slot) => format!("{} := {value}", self.word(*slot)),
            BigDest::Field { slot, bits, signed } => {
                let sign = if *signed { "int" } else { "bit" };
                format!("{} := {sign}<{bits}> {value}", self.word(*slot))
            }
            BigDest::Element { element, index } => {
                format!(
                    "{}[{}] := {value}",
                    self.element(*element),
                    self.node(index)
                )
            }
            BigDest::Register { array, index } => {
                let name = &self.program.registers[usize::from(*array)].name;
                format!("{name}[{}] := {value}", self.node(index))
            }
        }
    }

    fn node(&self, node: &Node) -> String {
        let layout = &self.program.layout;
        let header = |header: u16| &layout.headers[usize::from(header)].name;
        let union = |union: u16| &layout.unions[usize::from(union)].name;
        match &node.kind {
            Kind::Const(value) => value.to_string(),
            Kind::Field { slot, bits, .. } => match words_of(*bits) {
                1 => self.word(*slot),
                _ => self.word(*slot).trim_end_matches("@0").to_owned(),
            },
            Kind::Element { element, index } => {
                format!("{}[{}]", self.element(*element), self.node(index))
            }
            Kind::Last { element, next } => {
                format!("{}[{} - 1]", self.element(*element), self.word(*next))
            }
            Kind::Register { array, index, .. } => {
                let name = &self.program.registers[usize::from(*array)].name;
                format!("{name}[{}]", self.node(index))
            }
            Kind::Unary(op, a) => {
                let a = self.node(a);
                match op {
                    Unary::Not => format!("~{a}"),
                    Unary::LogicNot => format!("!{a}"),
                    Unary::NonZero => format!("({a} != 0)"),
                    Unary::Decrement => format!("({a} - 1)"),
                }
            }
            Kind::Binary(op, a, b) => {
                let op = match op {
                    Binary::Add => "+",
                    Binary::Sub => "-",
                    Binary::Mul => "*",
                    Binary::Div => "/",
                    Binary::Mod => "%",
                    Binary::Shl => "<<",
                    Binary::Shr => ">>",
                    Binary::BitAnd => "&",
                    Binary::BitOr => "|",
                    Binary::BitXor => "^",
                    Binary::Eq => "==",
                    Binary::Ne => "!=",
                    Binary::Lt => "<",
                    Binary::Le => "<=",
                    Binary::And => "&&",
                    Binary::Or => "||",
                };
                format!("({} {op} {})", self.node(a), self.node(b))
            }
            Kind::Ternary(condition, a, b) => {
                let (a, b) = (self.node(a), self.node(b));
                format!("({} ? {a} : {b})", self.node(condition))
            }
            Kind::Cast(cast, bits, a) => {
                let cast = match cast {
                    Cast::TwoComp => "int",
                    Cast::SatUnsigned => "saturated bit",
                    Cast::SatSigned => "saturated int",
                };
                format!("({cast}<{bits}> {})", self.node(a))
            }
            Kind::HeaderEq(a, b) => format!("({} == {})", header(*a), header(*b)),
            Kind::UnionEq(a, b) => format!("({} == {})", union(*a), union(*b)),
            Kind::UnionValid(u) => format!("{}.valid", union(*u)),
        }
    }
}

/// Formats a constant: in decimal up to 9999, in hexadecimal with `0x` above.
fn constant(value: u64) -> String {
    match value {
        0..=9999 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn symbol(test: Test) -> &'static str {
    match test {
        Test::Eq => "==",
        Test::Ne => "!=",
        Test::LtU => "<u",
        Test::LeU => "<=u",
        Test::LtS => "<s",
        Test::LeS => "<=s",
    }
}

fn equality(equal: bool) -> &'static str {
    match equal {
        true => "==",
        false => "!=",
    }
}

#[cfg(test)]
mod tests;
