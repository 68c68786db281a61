//! Constructor calls.

use super::args::CallTarget;
use super::checked::*;
use super::checker::Checker;
use super::types::{Substitution, Type};
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;

impl Checker<'_> {
    /// Checks a constructor call and infers missing type arguments of `ty`. Returns the complete type.
    pub fn construct(&mut self, id: ExprId, span: Span, ty: &Type, args: &[Arg]) -> Type {
        let (callee, params, name) = match ty {
            Type::Extern(n) => {
                let DefKind::Extern(ext) = self.def(n.id).clone() else {
                    return self.invalid();
                };
                let candidates: Vec<_> =
                    ext.constructors.iter().map(|c| (c.id, c.clone())).collect();
                let name = Ident {
                    name: n.name.clone(),
                    span,
                };
                if candidates.is_empty() {
                    self.check_args_alone(args);
                    self.error(
                        Code::NOT_CALLABLE,
                        span,
                        format!("extern `{}` has no constructor", n.name),
                    );
                    return self.invalid();
                }
                let Some((constructor, function)) = self.choose(&candidates, args, &name) else {
                    self.check_args_alone(args);
                    return self.invalid();
                };
                self.check_deprecated(n.id, span);
                (
                    Callee::ExternConstructor {
                        ext: n.id,
                        constructor,
                    },
                    function.params.clone(),
                    n.name.clone(),
                )
            }
            Type::Parser(n) | Type::Control(n) => {
                let (callee, params) = match self.def(n.id).clone() {
                    DefKind::Parser(d) => (
                        Callee::ParserConstructor(n.id),
                        d.body.as_ref().map(|b| b.ctor_params.clone()),
                    ),
                    DefKind::Control(d) => (
                        Callee::ControlConstructor(n.id),
                        d.body.as_ref().map(|b| b.ctor_params.clone()),
                    ),
                    _ => return self.invalid(),
                };
                if self.parent == Some(n.id) {
                    self.check_args_alone(args);
                    self.error(
                        Code::RECURSION,
                        span,
                        format!("`{}` contains itself", n.name),
                    );
                    return self.invalid();
                }
                let Some(params) = params else {
                    self.check_args_alone(args);
                    let message = format!(
                        "`{}` is a type without a body and cannot be instantiated",
                        n.name
                    );
                    self.error(Code::NOT_CALLABLE, span, message);
                    return self.invalid();
                };
                (callee, params, n.name.clone())
            }
            Type::Package(n) => match self.def(n.id).clone() {
                DefKind::Package(d) => (
                    Callee::PackageConstructor(n.id),
                    d.params.clone(),
                    n.name.clone(),
                ),
                _ => return self.invalid(),
            },
            Type::Invalid(_) | Type::Unknown => {
                self.check_args_alone(args);
                return self.invalid();
            }
            ty => {
                self.check_args_alone(args);
                self.report(
                    Diagnostic::error(
                        Code::NOT_CALLABLE,
                        span,
                        format!("type `{ty}` cannot be instantiated"),
                    )
                    .note("externs, parsers, controls and packages can be instantiated"),
                );
                return self.invalid();
            }
        };
        let nominal = ty
            .nominal()
            .cloned()
            .expect("instances have declared types");
        let type_params = self.type_params_of(nominal.id);
        let outer = Substitution::new(
            type_params.iter().map(|p| p.id),
            nominal.args.iter().cloned(),
        );
        let target = CallTarget {
            name,
            span,
            callee,
            params: &params,
            type_params: &[],
            outer,
        };
        let Some(mut info) = self.bind(args, target, true) else {
            return self.invalid();
        };
        for arg in &info.args {
            if let ArgSource::Arg(i) = arg.source {
                let value = &args[i].value;
                if !self.is_compile_time(value) && !self.type_of(value).is_invalid() {
                    self.report_not_constant(value, "a constructor argument");
                }
            }
        }
        self.bind_omitted_to_void(&info, &nominal.args);
        if matches!(ty, Type::Extern(_)) {
            self.bind_unused_to_void(&nominal.args);
        }
        let resolved = self.resolve(ty);
        if self.is_open(&resolved) {
            let open = type_params
                .iter()
                .zip(nominal.args.iter())
                .filter(|(_, t)| self.is_open(t));
            let names: Vec<String> = open.map(|(p, _)| format!("`{}`", p.name)).collect();
            self.report(
                Diagnostic::error(
                    Code::TYPE_ARGUMENTS,
                    span,
                    format!("cannot infer {} of `{}`", names.join(", "), nominal.name),
                )
                .help(format!("give type arguments: `{}<...>`", nominal.name)),
            );
            return self.invalid();
        }
        info.type_args = resolved
            .nominal()
            .map(|n| n.args.to_vec())
            .unwrap_or_default();
        info.ret = resolved.clone();
        let types: Vec<Type> = info.args.iter().map(|arg| arg.ty.clone()).collect();
        types.iter().for_each(|ty| self.check_specialized(ty, span));
        self.out.calls.insert(id, info);
        resolved
    }

    /// Reports an unnamed instance of an extern with abstract methods: only a named instance can have a body that
    /// implements them.
    pub fn reject_abstract(&mut self, ty: &Type, span: Span) {
        let Type::Extern(n) = ty else { return };
        let DefKind::Extern(ext) = self.def(n.id).clone() else {
            return;
        };
        let needed = |m: &&std::rc::Rc<FunctionDecl>| {
            m.is_abstract && m.annotations.annotation("optional").is_none()
        };
        if let Some(method) = ext.methods.iter().find(needed) {
            self.report(
                Diagnostic::error(
                    Code::DECLARATION_RULE,
                    span,
                    format!(
                        "abstract method `{}` of `{}` is not implemented",
                        method.name, ext.name
                    ),
                )
                .other(method.name.span, "declared here")
                .help("declare an instance with a body that has the method, and name it here"),
            );
        }
    }

    fn type_params_of(&self, id: DeclId) -> Vec<TypeParam> {
        match self.def(id) {
            DefKind::Extern(d) => d.type_params.clone(),
            DefKind::Parser(d) => d.type_params.clone(),
            DefKind::Control(d) => d.type_params.clone(),
            DefKind::Package(d) => d.type_params.clone(),
            _ => Vec::new(),
        }
    }
}
