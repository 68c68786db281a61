//! Loading of parsers and deparsers.

use super::{find, number, LoadError, Loader, Scope};
use crate::coverage::SiteKind;
use crate::exec::node::Kind;
use crate::exec::ops::{Op, Slot};
use crate::program::{
    Case, CaseOn, Deparser, KeyPart, ParseState, Parser, ParserErrors, ParserStep,
};
use alfirk_bmv2_json::{decode_hex, Expr, ExtractTarget, ParserOp, TransitionOn};

/// Number that BMv2 uses for errors of `core.p4` that the program does not declare.
const UNKNOWN_ERROR: u64 = 0x7fff_ffff;

/// Limit of a header's length in bytes; longer than any frame.
const MAX_HEADER_BYTES: usize = 1 << 24;

impl Loader<'_> {
    pub(super) fn compile_parser(&mut self, name: &str) -> Result<Parser, LoadError> {
        let json = self.json;
        let Some(parser) = json.parsers.iter().find(|p| p.name == name) else {
            return Err(missing("parser", name));
        };
        let names = number(
            "parse state",
            parser.parse_states.iter().map(|s| s.name.as_str()),
        )?;
        let next = |name: &Option<String>, at: &str| {
            name.as_ref()
                .map(|name| find(&names, "parse state", name, at))
                .transpose()
        };
        let mut states = Vec::new();
        let start = next(&parser.init_state, name)?;
        let entries = self.parser_entries(parser.parse_states.len(), start);
        for (number, state) in (0..).zip(&parser.parse_states) {
            let at = format!("parse state {}", state.name);
            self.begin(|| at.clone());
            let scope = Scope::plain(&at);
            let mut steps = Vec::new();
            self.begin_line(entries.count(number));
            let name = || state.name.clone();
            self.cover_step(
                || SiteKind::Function { name: name() },
                state.source_info.as_ref(),
                &mut steps,
            );
            for statement in &state.parser_ops {
                let info = statement.source_info.as_ref();
                self.cover_step(|| SiteKind::Statement, info, &mut steps);
                self.step(&statement.op, &mut steps, scope)?;
                if !matches!(statement.op, ParserOp::Set(..)) {
                    // The statement may reject the packet.
                    self.end_line();
                }
            }
            let key: Vec<KeyPart> = state
                .transition_key
                .iter()
                .map(|e| self.key_part(e, scope))
                .collect::<Result<_, _>>()?;
            let key_bytes = key.iter().map(|k| k.bits().div_ceil(8) as usize).sum();
            let lookahead = key.iter().map(|k| match k {
                KeyPart::Lookahead { offset, bits } => {
                    (*offset as usize + *bits as usize).div_ceil(8)
                }
                _ => 0,
            });
            let lookahead_bytes = lookahead.max().unwrap_or(0);
            let (mut cases, mut default, mut default_counter) = (Vec::new(), None, None);
            for transition in &state.transitions {
                let target = next(&transition.next_state, &at)?;
                let is_only = matches!(transition.on, TransitionOn::Default) && cases.is_empty();
                // A loop needs a counter.
                let is_forward = target.is_none_or(|target| target > number);
                let line = self.line().filter(|_| is_only && is_forward);
                let (counter, count) = self.cover_transition(transition, !key.is_empty(), line);
                self.count_entry(&entries, target, &count);
                match &transition.on {
                    TransitionOn::Default => {
                        // Transitions after the default are unreachable.
                        default = target;
                        default_counter = counter;
                        break;
                    }
                    TransitionOn::Hexstr { value, mask } => {
                        let on = self.case(value, mask.as_deref(), key_bytes, scope)?;
                        cases.push(Case {
                            on,
                            next: target,
                            counter,
                        });
                    }
                    TransitionOn::ParseVset { name, mask } => {
                        let set = find(&self.vset_names, "parser value set", name, &at)?;
                        let mask = mask
                            .as_deref()
                            .map(|m| self.key_value(m, key_bytes, scope))
                            .transpose()?;
                        cases.push(Case {
                            on: CaseOn::Set { set, mask },
                            next: target,
                            counter,
                        });
                    }
                }
            }
            states.push(ParseState {
                name: state.name.clone(),
                steps,
                key,
                key_bytes,
                lookahead_bytes,
                cases,
                default,
                default_counter,
            });
        }
        let error = |name: &str| {
            json.errors
                .iter()
                .find(|(n, _)| n == name)
                .map_or(UNKNOWN_ERROR, |(_, value)| *value)
        };
        let errors = ParserErrors {
            no_error: json
                .errors
                .iter()
                .find(|(n, _)| n == "NoError")
                .map_or(0, |(_, value)| *value),
            packet_too_short: error("PacketTooShort"),
            stack_out_of_bounds: error("StackOutOfBounds"),
            header_too_short: error("HeaderTooShort"),
            parser_timeout: error("ParserTimeout"),
            parser_invalid_argument: error("ParserInvalidArgument"),
            counter_range: error("CounterRange"),
        };
        Ok(Parser {
            start,
            states,
            errors,
        })
    }

    fn step(
        &mut self,
        op: &ParserOp,
        steps: &mut Vec<ParserStep>,
        scope: Scope,
    ) -> Result<(), LoadError> {
        match op {
            ParserOp::Extract(target) => {
                let step = match self.extract(target, scope)? {
                    Target::Header(header) => match self.vl_length(header, scope)? {
                        None => ParserStep::Extract { header },
                        Some((code, bits)) => ParserStep::ExtractOwnVl { header, code, bits },
                    },
                    Target::Stack(stack) => ParserStep::ExtractStack { stack },
                    Target::UnionStack(stack, member) => {
                        ParserStep::ExtractUnionStack { stack, member }
                    }
                };
                steps.push(step);
            }
            ParserOp::ExtractVl(target, length) => {
                let target = self.extract(target, scope)?;
                let node = self.node(length, scope)?;
                let (code, bits) = self.compile_amount(&node)?;
                steps.push(match target {
                    Target::Header(header) => ParserStep::ExtractVl { header, code, bits },
                    Target::Stack(stack) => ParserStep::ExtractStackVl { stack, code, bits },
                    Target::UnionStack(stack, member) => ParserStep::ExtractUnionStackVl {
                        stack,
                        member,
                        code,
                        bits,
                    },
                });
            }
            ParserOp::Set(dest, value) => {
                if let Expr::Lookahead { offset, width } = value.unwrapped() {
                    return self.lookahead(dest, *offset, *width, steps, scope);
                }
                let code = self.pc();
                let is_varbit = |e: &Expr, this: &Self| match e.unwrapped() {
                    Expr::Field(f) => this
                        .field(f, scope.at)
                        .ok()
                        .filter(|(_, f)| f.varbit)
                        .map(|(h, _)| h),
                    _ => None,
                };
                if let (Some(d), Some(s)) = (is_varbit(dest, self), is_varbit(value, self)) {
                    self.emit(Op::AssignVl { d, s });
                } else {
                    let value = self.node(value, scope)?;
                    let dest = self.dest(dest, scope)?;
                    self.assign(dest, &value)?;
                }
                self.end_code(code, steps);
            }
            ParserOp::Verify(cond, error) => {
                let code = self.pc();
                let cond = self.node(cond, scope)?;
                let cond = self.low(&cond)?;
                let error = self.node(error, scope)?;
                let error = self.low(&error)?;
                self.emit(Op::Return);
                self.end_statement();
                steps.push(ParserStep::Verify { code, cond, error });
            }
            ParserOp::Shift(bytes) => steps.push(ParserStep::Shift { bytes: *bytes }),
            ParserOp::Advance(bits) => {
                let node = self.node(bits, scope)?;
                let (code, bits) = self.compile_amount(&node)?;
                steps.push(ParserStep::Advance { code, bits });
            }
            ParserOp::Primitive(primitive) => {
                let code = self.pc();
                self.compile_primitives(std::slice::from_ref(&**primitive), scope)?;
                self.end_code(code, steps);
            }
        }
        Ok(())
    }

    fn end_code(&mut self, code: crate::exec::ops::Pc, steps: &mut Vec<ParserStep>) {
        self.emit(Op::Return);
        self.end_statement();
        steps.push(ParserStep::Code { code });
    }

    fn lookahead(
        &mut self,
        dest: &Expr,
        offset: u32,
        bits: u32,
        steps: &mut Vec<ParserStep>,
        scope: Scope,
    ) -> Result<(), LoadError> {
        check_lookahead(offset, bits, scope)?;
        let node = self.node(dest, scope)?;
        let Kind::Field {
            slot,
            bits: field_bits,
            signed,
        } = node.kind
        else {
            return Err(scope.invalid("a lookahead can only be assigned to a field"));
        };
        if field_bits == 0 {
            return Ok(());
        }
        steps.push(ParserStep::Lookahead {
            offset,
            bits,
            slot,
            field_bits,
            signed,
        });
        Ok(())
    }

    fn extract(&self, target: &ExtractTarget, scope: Scope) -> Result<Target, LoadError> {
        let check = |headers: &[u16]| {
            headers.iter().try_for_each(|h| {
                let h = &self.layout.headers[usize::from(*h)];
                if h.whole_bytes {
                    return Ok(());
                }
                Err(scope.invalid(format!("header {} does not fill whole bytes", h.name)))
            })
        };
        match target {
            ExtractTarget::Regular(name) => {
                let header = self.header(name, scope.at)?;
                check(&[header])?;
                Ok(Target::Header(header))
            }
            ExtractTarget::Stack(name) => {
                let at = find(&self.stack_names, "header stack", name, scope.at)?;
                check(&self.layout.stacks[usize::from(at)].headers)?;
                Ok(Target::Stack(at))
            }
            ExtractTarget::UnionStack { stack, header } => {
                let at = find(
                    &self.union_stack_names,
                    "header union stack",
                    stack,
                    scope.at,
                )?;
                let member = self.union_member(at, header, scope)?;
                let headers = self.union_stack_headers(at, member);
                if headers.len() != self.layout.union_stacks[usize::from(at)].unions.len() {
                    return Err(scope.invalid(format!("{stack} has no member {header}")));
                }
                check(&headers)?;
                Ok(Target::UnionStack(at, member as u16))
            }
        }
    }

    /// Compiles the length of a variable-length field. In P4_14 it is an expression of earlier fields of the same
    /// header. Returns the first instruction, and the word of the result in bits. `None` for a header without such an
    /// expression.
    fn vl_length(&mut self, header: u16, scope: Scope) -> Result<Option<(u32, u16)>, LoadError> {
        let h = &self.layout.headers[usize::from(header)];
        let (type_id, fields) = (h.type_id, h.fields.clone());
        let Some(length) = &self.json.header_types[type_id].length_exp else {
            return Ok(None);
        };
        if h.varbit.is_none() {
            return Ok(None);
        }
        let node = self.node(
            length,
            Scope {
                at: scope.at,
                params: &[],
                fields: &fields,
            },
        )?;
        self.compile_amount(&node).map(Some)
    }

    fn key_part(&mut self, expr: &Expr, scope: Scope) -> Result<KeyPart, LoadError> {
        if let Expr::Lookahead { offset, width } = expr.unwrapped() {
            check_lookahead(*offset, *width, scope)?;
            return Ok(KeyPart::Lookahead {
                offset: *offset,
                bits: *width,
            });
        }
        let node = self.node(expr, scope)?;
        Ok(match (node.kind, expr.unwrapped()) {
            (Kind::Field { slot, bits, .. }, _) => KeyPart::Field { slot, bits },
            (Kind::Last { element, .. }, _) if self.elements[usize::from(element)].bits == 0 => {
                let slot = self.void;
                KeyPart::Field { slot, bits: 0 }
            }
            (Kind::Last { element, .. }, Expr::StackField { stack, .. }) => {
                let stack = find(&self.stack_names, "header stack", stack, scope.at)?;
                let start = self.layout.stacks[usize::from(stack)].start;
                let e = &self.elements[usize::from(element)];
                KeyPart::StackLast {
                    stack,
                    offset: e.start - start as u16,
                    bits: e.bits,
                }
            }
            (Kind::Last { element, .. }, Expr::UnionStackField { stack, .. }) => {
                let stack = find(
                    &self.union_stack_names,
                    "header union stack",
                    stack,
                    scope.at,
                )?;
                let start = self.layout.union_stacks[usize::from(stack)].start;
                let e = &self.elements[usize::from(element)];
                KeyPart::UnionStackLast {
                    stack,
                    offset: e.start - start as u16,
                    bits: e.bits,
                }
            }
            _ => return Err(scope.invalid(format!("{expr:?} cannot be part of a transition key"))),
        })
    }

    /// Returns the value or mask of a `select` case as right-aligned bytes.
    fn key_value(&self, text: &str, bytes: usize, scope: Scope) -> Result<Vec<u8>, LoadError> {
        let (negative, value) = decode_hex(text).map_err(|e| scope.invalid(e.to_string()))?;
        let zeros = value.iter().take_while(|b| **b == 0).count();
        let significant = &value[zeros..];
        if negative || significant.len() > bytes {
            return Err(scope.invalid(format!("{text} does not fit the key of {bytes} bytes")));
        }
        let mut padded = vec![0; bytes - significant.len()];
        padded.extend_from_slice(significant);
        Ok(padded)
    }

    fn case(
        &self,
        value: &str,
        mask: Option<&str>,
        bytes: usize,
        scope: Scope,
    ) -> Result<CaseOn, LoadError> {
        let mut value = self.key_value(value, bytes, scope)?;
        let mask = match mask {
            Some(mask) => self.key_value(mask, bytes, scope)?,
            None => vec![0xff; bytes],
        };
        value.iter_mut().zip(&mask).for_each(|(v, m)| *v &= m);
        if bytes > 8 {
            return Ok(CaseOn::Bytes { value, mask });
        }
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        Ok(CaseOn::Word {
            value: word(&value),
            mask: word(&mask),
        })
    }

    pub(super) fn compile_deparser(&mut self, name: &str) -> Result<Deparser, LoadError> {
        let json = self.json;
        let Some(deparser) = json.deparsers.iter().find(|d| d.name == name) else {
            return Err(missing("deparser", name));
        };
        let mut order = Vec::new();
        for header in &deparser.order {
            let header = self.header(header, name)?;
            let h = &self.layout.headers[usize::from(header)];
            if !h.whole_bytes {
                let why = format!("header {} does not fill whole bytes", h.name);
                return Err(LoadError::invalid(name, why));
            }
            // Metadata is always valid.
            let valid = match h.metadata {
                true => self.constant(1)?,
                false => h.valid,
            };
            order.push((valid, header));
        }
        let is_covered = self.options.coverage && deparser.source_info.is_some();
        let code = match deparser.primitives.is_empty() && !is_covered {
            true => None,
            false => {
                self.begin(|| format!("deparser {name}"));
                let code = self.pc();
                self.end_line();
                let name = || name.to_owned();
                self.cover(
                    || SiteKind::Function { name: name() },
                    deparser.source_info.as_ref(),
                );
                self.compile_primitives(&deparser.primitives, Scope::plain(&deparser.name))?;
                self.end_line();
                self.locate(None);
                self.emit(Op::Return);
                Some(code)
            }
        };
        let longest = |&(_, h): &(Slot, u16)| {
            let h = &self.layout.headers[usize::from(h)];
            h.bytes + h.varbit.map_or(0, |v| v.max_bits as usize / 8)
        };
        let max_bytes: usize = order.iter().map(longest).sum();
        if max_bytes > MAX_HEADER_BYTES {
            return Err(LoadError::TooLarge {
                what: "bytes of headers to emit",
                need: max_bytes as u64,
                limit: MAX_HEADER_BYTES as u64,
            });
        }
        Ok(Deparser {
            #[cfg(feature = "jit")]
            max_fixed_bytes: (order.iter())
                .map(|(_, h)| &self.layout.headers[usize::from(*h)])
                .filter(|header| header.varbit.is_none())
                .map(|header| header.bytes)
                .sum(),
            order,
            max_bytes,
            code,
        })
    }
}

enum Target {
    Header(u16),
    Stack(u16),
    UnionStack(u16, u16),
}

fn check_lookahead(offset: u32, bits: u32, scope: Scope) -> Result<(), LoadError> {
    if bits == 0 || bits > 65536 || offset > 1 << 24 {
        return Err(scope.invalid(format!(
            "a lookahead of {bits} bits at bit {offset} is out of range"
        )));
    }
    Ok(())
}

pub(super) fn missing(what: &'static str, name: &str) -> LoadError {
    LoadError::Undefined {
        at: "program (is it for simple_switch?)".to_owned(),
        what,
        name: name.to_owned(),
    }
}
