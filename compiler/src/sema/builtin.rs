//! Built-in methods, sizes of types, and the rules of `packet_in` and `packet_out`.

use super::checked::*;
use super::checker::{Checker, Layout};
use super::types::Type;
use super::value::Value;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use num_bigint::BigInt;

impl Checker<'_> {
    pub fn builtin_method(
        &mut self,
        expr: &Expr,
        call: &Call,
        base: &Expr,
        ty: &Type,
        method: &Ident,
    ) -> Type {
        let found = match (&*method.name, ty) {
            ("isValid", Type::Header(_) | Type::HeaderUnion(_)) => BuiltinMethod::IsValid,
            ("setValid", Type::Header(_)) => BuiltinMethod::SetValid,
            ("setInvalid", Type::Header(_)) => BuiltinMethod::SetInvalid,
            ("push_front", Type::Stack(..)) => BuiltinMethod::PushFront,
            ("pop_front", Type::Stack(..)) => BuiltinMethod::PopFront,
            ("minSizeInBits", _) => BuiltinMethod::MinSizeInBits,
            ("minSizeInBytes", _) => BuiltinMethod::MinSizeInBytes,
            ("maxSizeInBits", _) => BuiltinMethod::MaxSizeInBits,
            ("maxSizeInBytes", _) => BuiltinMethod::MaxSizeInBytes,
            _ => {
                self.check_args_alone(&call.args);
                if let Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_) = ty {
                    let table = self.field_table(ty);
                    if table.index.contains_key(&method.name) {
                        let message = format!("`{method}` is a field and cannot be called");
                        self.error(Code::NOT_CALLABLE, method.span, message);
                        return self.invalid();
                    }
                }
                let names: Vec<String> = self
                    .method_names(ty)
                    .into_iter()
                    .map(str::to_owned)
                    .collect();
                return self.unknown_member(method, ty, names.iter().map(String::as_str));
            }
        };
        self.check_writable_object(found, base);
        let wants = matches!(found, BuiltinMethod::PushFront | BuiltinMethod::PopFront);
        if call.args.len() != usize::from(wants) {
            self.check_args_alone(&call.args);
            let message = format!(
                "`{method}` takes {} argument{}",
                u8::from(wants),
                if wants { "" } else { "s" }
            );
            self.error(Code::ARGUMENTS, expr.span, message);
            return self.invalid();
        }
        let mut args = Vec::new();
        if wants {
            self.constant_int(&call.args[0].value, "the number of elements");
            args.push(ArgInfo {
                param: None,
                direction: Direction::In,
                ty: Type::Int,
                source: ArgSource::Arg(0),
            });
        }
        let (ret, value) = self.builtin_result(found, ty, base.span);
        self.info_mut(expr).value = value;
        self.out.calls.insert(
            expr.id,
            CallInfo {
                callee: Callee::Builtin(found),
                type_args: Vec::new(),
                args,
                ret: ret.clone(),
            },
        );
        ret
    }

    fn check_writable_object(&mut self, method: BuiltinMethod, base: &Expr) {
        let writes = matches!(
            method,
            BuiltinMethod::SetValid
                | BuiltinMethod::SetInvalid
                | BuiltinMethod::PushFront
                | BuiltinMethod::PopFront
        );
        if writes && !self.out.info(base.id).is_lvalue {
            self.report_not_assignable(base, "changed");
        }
    }

    fn builtin_result(
        &mut self,
        method: BuiltinMethod,
        ty: &Type,
        span: Span,
    ) -> (Type, Option<Value>) {
        let bits = match method {
            BuiltinMethod::IsValid => return (Type::Bool, None),
            BuiltinMethod::SetValid
            | BuiltinMethod::SetInvalid
            | BuiltinMethod::PushFront
            | BuiltinMethod::PopFront => return (Type::Void, None),
            _ => self.size_in_bits(ty),
        };
        let Some((min, max)) = bits else {
            if !ty.is_invalid() {
                self.error(Code::BAD_TYPE, span, format!("`{ty}` has no size"));
            }
            return (Type::Int, None);
        };
        let size = match method {
            BuiltinMethod::MinSizeInBits => min,
            BuiltinMethod::MinSizeInBytes => min.div_ceil(8),
            BuiltinMethod::MaxSizeInBits => max,
            _ => max.div_ceil(8),
        };
        (Type::Int, Some(Value::Int(BigInt::from(size))))
    }

    /// Minimum and maximum size of the values of a type, in bits; `None` for types without a size, such as `int`.
    pub fn size_in_bits(&mut self, ty: &Type) -> Option<(u64, u64)> {
        self.layout(ty).map(|layout| (layout.min, layout.max))
    }

    /// Number of `varbit` fields in a type, those of nested structs included.
    pub fn varbit_fields(&mut self, ty: &Type) -> u64 {
        self.layout(ty).map_or(0, |layout| layout.varbits)
    }

    /// Sizes of a type, cached per type; `None` for a type without a size.
    fn layout(&mut self, ty: &Type) -> Option<Layout> {
        if let Some(known) = self.layouts.get(ty) {
            return *known;
        }
        let layout = self.compute_layout(ty);
        self.layouts.insert(ty.clone(), layout);
        layout
    }

    fn compute_layout(&mut self, ty: &Type) -> Option<Layout> {
        let fixed = |bits: u32| Layout {
            min: u64::from(bits),
            max: u64::from(bits),
            varbits: 0,
        };
        Some(match ty {
            Type::Bool => fixed(1),
            Type::Bit(w) | Type::Signed(w) => fixed(*w),
            Type::Varbit(w) => Layout {
                min: 0,
                max: u64::from(*w),
                varbits: 1,
            },
            Type::SerializableEnum(_) | Type::NewType(_) => {
                let under = self.out.underlying(ty)?;
                self.layout(&under)?
            }
            Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_) => {
                let table = self.field_table(ty);
                let parts: Option<Vec<Layout>> =
                    table.list.iter().map(|(_, ty)| self.layout(ty)).collect();
                let parts = parts?;
                if matches!(ty, Type::HeaderUnion(_)) {
                    Layout {
                        min: parts.iter().map(|p| p.min).min().unwrap_or(0),
                        max: parts.iter().map(|p| p.max).max().unwrap_or(0),
                        varbits: 0,
                    }
                } else {
                    sum(&parts)
                }
            }
            Type::Tuple(types) => {
                let parts: Option<Vec<Layout>> = types.iter().map(|ty| self.layout(ty)).collect();
                sum(&parts?)
            }
            Type::Stack(element, n) => {
                let one = self.layout(element)?;
                Layout {
                    min: one.min.saturating_mul(u64::from(*n)),
                    max: one.max.saturating_mul(u64::from(*n)),
                    varbits: one.varbits.saturating_mul(u64::from(*n)),
                }
            }
            _ => return None,
        })
    }

    /// Checks the rules of `extract`, `lookahead` and `emit` that their declarations in `core.p4` do not express (spec § 13.8, 16).
    pub fn check_core_method(&mut self, expr: &Expr, ext: &str, method: &str, call: &Call) {
        let Some(info) = self.out.call(expr.id).cloned() else {
            return;
        };
        let Some(ty) = info.type_args.first().cloned() else {
            return;
        };
        let span = call.args.first().map_or(expr.span, |a| a.value.span);
        match (ext, method) {
            ("packet_in", "extract") => {
                if !matches!(
                    ty,
                    Type::Header(_)
                        | Type::HeaderUnion(_)
                        | Type::Invalid(_)
                        | Type::Unknown
                        | Type::Var(_)
                ) {
                    self.error(
                        Code::ARGUMENTS,
                        span,
                        format!("only headers can be extracted, not `{ty}`"),
                    );
                    return;
                }
                let variable = self.varbit_fields(&ty);
                if info.args.len() == 1 && variable > 0 {
                    self.report(
                        Diagnostic::error(
                            Code::ARGUMENTS,
                            span,
                            format!("`{ty}` has a field of variable size"),
                        )
                        .help("give the size of its `varbit` field, in bits, as second argument"),
                    );
                } else if info.args.len() == 2 && variable != 1 && matches!(ty, Type::Header(_)) {
                    self.report(
                        Diagnostic::error(
                            Code::ARGUMENTS,
                            span,
                            format!("`{ty}` has no field of variable size"),
                        )
                        .help("leave out the second argument"),
                    );
                }
            }
            ("packet_in", "lookahead") => {
                let bad = !matches!(ty, Type::Var(_))
                    && (self.varbit_fields(&ty) > 0 || self.size_in_bits(&ty).is_none());
                if bad && !ty.is_invalid() {
                    self.error(
                        Code::TYPE_ARGUMENTS,
                        expr.span,
                        format!("`lookahead` cannot read a `{ty}`: it has no fixed size"),
                    );
                }
            }
            ("packet_out", "emit") => {
                let bad = !matches!(
                    ty,
                    Type::Header(_)
                        | Type::HeaderUnion(_)
                        | Type::Stack(..)
                        | Type::Struct(_)
                        | Type::Invalid(_)
                        | Type::Unknown
                        | Type::Var(_)
                ) && !matches!(ty, Type::Tuple(_) | Type::Record(_));
                if bad {
                    self.error(
                        Code::ARGUMENTS,
                        span,
                        format!("only headers can be emitted, not `{ty}`"),
                    );
                }
            }
            _ => {}
        }
    }
}

fn sum(parts: &[Layout]) -> Layout {
    parts.iter().fold(Layout::default(), |a, b| Layout {
        min: a.min.saturating_add(b.min),
        max: a.max.saturating_add(b.max),
        varbits: a.varbits.saturating_add(b.varbits),
    })
}
