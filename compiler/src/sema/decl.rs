//! Declarations outside parsers and controls.

use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::types::{Nominal, Type};
use super::value::Value;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The kind of declaration that a parameter list belongs to, which determines the rules for its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParamOwner {
    Action,
    Function,
    Extern,
    Block,
    Constructor,
}

impl Checker<'_> {
    pub fn declaration(&mut self, decl: &Decl) {
        match decl {
            Decl::Const(d) => self.const_decl(d),
            Decl::Var(d) => self.var_decl(d),
            Decl::Instantiation(d) => self.instantiation(d),
            Decl::Extern(d) => self.extern_decl(d),
            Decl::ExternFunction(d) => self.function_decl(d, true),
            Decl::Function(d) => self.function_decl(d, false),
            Decl::Action(d) => self.action_decl(d),
            Decl::Parser(d) => self.parser_decl(d),
            Decl::Control(d) => self.control_decl(d),
            Decl::Package(d) => self.package_decl(d),
            Decl::Table(d) => self.table_decl(d),
            Decl::ValueSet(d) => self.value_set_decl(d),
            Decl::Struct(d) => self.struct_decl(d, DefKind::Struct(d.clone())),
            Decl::Header(d) => self.struct_decl(d, DefKind::Header(d.clone())),
            Decl::HeaderUnion(d) => self.struct_decl(d, DefKind::HeaderUnion(d.clone())),
            Decl::Enum(d) => self.enum_decl(d),
            Decl::Error(d) => self.error_decl(d),
            Decl::MatchKind(d) => self.match_kind_decl(d),
            Decl::Typedef(d) => self.typedef_decl(d),
            Decl::NewType(d) => self.new_type_decl(d),
        }
    }

    pub fn const_decl(&mut self, d: &Rc<ConstDecl>) {
        let mut ty = self.type_ref(&d.ty);
        self.structured_annotations(&d.annotations);
        if ty.is_instance() {
            let message = format!("a constant cannot have type `{ty}`");
            self.report(
                Diagnostic::error(Code::BAD_TYPE, d.ty.span, message).help(format!(
                    "to declare an instance, write `{ty}(...) {};`",
                    d.name
                )),
            );
            ty = self.invalid();
        }
        let ok = self.expr_assigned(&d.value, &ty, "the constant");
        self.define(d.id, DefKind::Const(d.clone()), d.name.span);
        match self.value_of(&d.value) {
            Some(value) if ok => {
                self.out.consts.insert(d.id, value);
            }
            None if ok && !self.is_compile_time(&d.value) => {
                self.report_not_constant(&d.value, "the value of a constant")
            }
            _ => {}
        }
        self.out.decl_types.insert(d.id, ty);
        self.declare_silenced(d.id, &d.name, &d.annotations);
    }

    pub fn var_decl(&mut self, d: &Rc<VarDecl>) {
        let ty = self.type_ref(&d.ty);
        self.structured_annotations(&d.annotations);
        if ty.is_instance() || ty == Type::String || ty == Type::Int {
            let mut diagnostic = Diagnostic::error(
                Code::BAD_TYPE,
                d.ty.span,
                format!("a variable cannot have type `{ty}`"),
            );
            if ty.is_instance() {
                diagnostic = diagnostic.help(format!(
                    "to declare an instance, write `{ty}(...) {};`",
                    d.name
                ));
            } else {
                diagnostic =
                    diagnostic.note(format!("`{ty}` exists at compile time only: use `const`"));
            }
            self.report(diagnostic);
        }
        if let Some(init) = &d.init {
            self.expr_assigned(init, &ty, "the initial value");
        }
        self.define(d.id, DefKind::Var(d.clone()), d.name.span);
        self.out.decl_types.insert(d.id, ty);
        self.declare_silenced(d.id, &d.name, &d.annotations);
    }

    pub fn instantiation(&mut self, d: &Rc<Instantiation>) {
        self.structured_annotations(&d.annotations);
        let ty = self.instance_type(&d.ty);
        let ty = self.construct(d.call, d.ty.span, &ty, &d.args);
        self.out.type_refs[d.ty.id.0 as usize] = ty.clone();
        self.define(d.id, DefKind::Instance(d.clone()), d.name.span);
        self.out.decl_types.insert(d.id, ty.clone());
        self.abstract_methods(d, &ty);
        self.declare(d.id, &d.name);
        let top = self.parent.is_none();
        let around = self.parent.and_then(|id| self.out.opt_def(id));
        if matches!(ty, Type::Parser(_))
            && around.is_some_and(|def| matches!(def.kind, DefKind::Control(_)))
        {
            self.error(
                Code::DECLARATION_RULE,
                d.span,
                "a control cannot instantiate a parser",
            );
        }
        if top && matches!(ty, Type::Parser(_) | Type::Control(_)) {
            self.report(
                Diagnostic::error(
                    Code::DECLARATION_RULE,
                    d.span,
                    "parsers and controls cannot be instantiated at the top level",
                )
                .help("declare the instance where it is used, in another parser or control"),
            );
        }
        if top && &*d.name.name == "main" && matches!(ty, Type::Package(_)) {
            self.out.main = Some(d.clone());
        }
        if !top && matches!(ty, Type::Package(_)) {
            self.error(
                Code::DECLARATION_RULE,
                d.span,
                "packages can only be instantiated at the top level",
            );
        }
    }

    /// Checks the body of an instantiation, which implements the abstract methods of the extern.
    fn abstract_methods(&mut self, d: &Rc<Instantiation>, ty: &Type) {
        let ext = match ty {
            Type::Extern(n) => match self.def(n.id) {
                DefKind::Extern(ext) => Some((ext.clone(), n.clone())),
                _ => None,
            },
            Type::Invalid(_) | Type::Unknown => return,
            _ => None,
        };
        let Some((ext, nominal)) = ext else {
            if d.body.is_some() {
                self.error(
                    Code::DECLARATION_RULE,
                    d.span,
                    format!("an instance of `{ty}` cannot have a body: `{ty}` is not an extern"),
                );
            }
            return;
        };
        let mut missing: Vec<Rc<FunctionDecl>> = ext
            .methods
            .iter()
            .filter(|m| m.is_abstract)
            .cloned()
            .collect();
        let args = self.out.substitution(&nominal, &ext.type_params);
        let this = self.this.replace(ty.clone());
        self.in_declaration(d.id, &d.annotations, |c| {
            for member in d.body.iter().flatten() {
                c.declaration(member);
                let Decl::Function(f) = member else { continue };
                let is_like = |m: &Rc<FunctionDecl>| {
                    let left_out = m.params.get(f.params.len()..);
                    let is_optional =
                        |p: &Rc<Param>| p.annotations.annotation("optional").is_some();
                    m.name.name == f.name.name
                        && left_out.is_some_and(|params| params.iter().all(is_optional))
                };
                match missing.iter().position(is_like) {
                    Some(index) => {
                        let method = missing.remove(index);
                        c.check_implementation(f, &method, &args);
                    }
                    None => {
                        let message = format!(
                            "`{}` has no abstract method `{}` with these parameters",
                            ext.name, f.name
                        );
                        let at = c.name_span(ext.id);
                        c.report(
                            Diagnostic::error(Code::DECLARATION_RULE, f.name.span, message)
                                .other(at, "declared here"),
                        );
                    }
                }
            }
        });
        self.this = this;
        let damaged = self.contains_skipped_text(d.span);
        for method in missing
            .iter()
            .filter(|m| m.annotations.annotation("optional").is_none() && !damaged)
        {
            self.report(
                Diagnostic::error(
                    Code::DECLARATION_RULE,
                    d.name.span,
                    format!(
                        "abstract method `{}` of `{}` is not implemented",
                        method.name, ext.name
                    ),
                )
                .other(method.name.span, "declared here")
                .help(format!(
                    "write `{}(...) {} = {{ ... }};` with the method in the braces",
                    ext.name, d.name
                )),
            );
        }
    }

    fn check_implementation(
        &mut self,
        f: &FunctionDecl,
        method: &FunctionDecl,
        args: &super::types::Substitution,
    ) {
        let own = super::types::Substitution::new(
            method.type_params.iter().map(|p| p.id),
            f.type_params
                .iter()
                .map(|p| Type::Var(Nominal::plain(p.id, p.name.name.clone()))),
        );
        let mut all = args.clone();
        all.extend(&own);
        for (p, m) in f.params.iter().zip(&method.params) {
            let (have, want) = (
                self.out.type_ref(&p.ty).clone(),
                self.out.type_ref(&m.ty).substitute(&all),
            );
            if p.direction != m.direction || !self.unify(&want, &have) {
                let mut text = m.direction.as_str().to_owned();
                if !text.is_empty() {
                    text.push(' ');
                }
                self.report(
                    Diagnostic::error(
                        Code::DECLARATION_RULE,
                        p.span,
                        "this parameter differs from that of the abstract method",
                    )
                    .label(format!("must be `{text}{want}`"))
                    .other(m.span, "declared here"),
                );
            }
        }
        let result = |f: &FunctionDecl| f.ret.as_ref().map(|t| self.out.type_ref(t).clone());
        let (have, want) = (result(f), result(method).map(|t| t.substitute(&all)));
        if let (Some(have), Some(want)) = (have, want) {
            if !self.unify(&want, &have) {
                self.error(
                    Code::DECLARATION_RULE,
                    f.name.span,
                    format!("the result must be `{want}`, not `{have}`"),
                );
            }
        }
    }

    pub fn type_params(&mut self, list: &[TypeParam]) {
        for (i, param) in list.iter().enumerate() {
            self.define(
                param.id,
                DefKind::TypeParam(param.name.name.clone(), i),
                param.name.span,
            );
            let ty = Type::Var(Nominal::plain(param.id, param.name.name.clone()));
            self.out.decl_types.insert(param.id, ty);
            self.declare(param.id, &param.name);
        }
    }

    pub fn params(&mut self, list: &[Rc<Param>], of: ParamOwner) {
        let mut directionless: Option<Span> = None;
        for param in list {
            let ty = match of {
                ParamOwner::Action | ParamOwner::Function => self.type_ref(&param.ty),
                ParamOwner::Extern | ParamOwner::Block | ParamOwner::Constructor => {
                    self.param_type(&param.ty)
                }
            };
            self.structured_annotations(&param.annotations);
            if let Some(default) = &param.default {
                if self.expr_as(default, &ty, "the default value") && !self.is_compile_time(default)
                {
                    self.report_not_constant(default, "a default value");
                }
                if param.direction.writes() {
                    self.error(
                        Code::DECLARATION_RULE,
                        default.span,
                        "`out` and `inout` parameters cannot have default values",
                    );
                }
                if let Some(optional) = param.annotations.annotation("optional") {
                    self.report(
                        Diagnostic::error(
                            Code::DECLARATION_RULE,
                            default.span,
                            "an optional parameter cannot have a default value",
                        )
                        .other(optional.span, "it may be omitted, and then has no value"),
                    );
                }
            }
            self.param_rules(param, &ty, of);
            if of == ParamOwner::Action {
                match directionless {
                    Some(before) if param.direction != Direction::None => self.report(
                        Diagnostic::error(
                            Code::DECLARATION_RULE,
                            param.span,
                            "parameters with a direction come first",
                        )
                        .other(before, "this parameter has none: the control plane sets it"),
                    ),
                    None if param.direction == Direction::None => directionless = Some(param.span),
                    _ => {}
                }
            }
            let kind = match of {
                ParamOwner::Constructor => DefKind::CtorParam(param.clone()),
                _ => DefKind::Param(param.clone()),
            };
            self.define(param.id, kind, param.name.span);
            self.out.decl_types.insert(param.id, ty);
            self.declare(param.id, &param.name);
        }
    }

    fn param_rules(&mut self, param: &Param, ty: &Type, of: ParamOwner) {
        if param.direction != Direction::None {
            let word = param.direction.as_str();
            if of == ParamOwner::Constructor {
                self.error(
                    Code::DECLARATION_RULE,
                    param.span,
                    "constructor parameters have no direction",
                );
            } else if ty.is_instance() {
                let message = format!("a parameter of type `{ty}` cannot be `{word}`");
                self.report(
                    Diagnostic::error(Code::DECLARATION_RULE, param.span, message)
                        .help("remove the direction: instances are not copied"),
                );
            } else if matches!(ty, Type::String | Type::Int) {
                let message = format!(
                    "a parameter of type `{ty}` has no direction: it exists at compile time only"
                );
                self.error(Code::DECLARATION_RULE, param.span, message);
            }
        }
        if of == ParamOwner::Action
            && param.direction == Direction::None
            && matches!(ty, Type::String | Type::Int)
        {
            self.error(
                Code::DECLARATION_RULE,
                param.ty.span,
                format!("the control plane cannot set a parameter of type `{ty}`, which exists at compile time only"),
            );
        }
        let instance = matches!(ty, Type::Parser(_) | Type::Control(_) | Type::Package(_));
        if instance && matches!(of, ParamOwner::Action | ParamOwner::Function) {
            self.error(
                Code::DECLARATION_RULE,
                param.ty.span,
                format!("`{ty}` cannot be passed at run time"),
            );
        }
        if matches!(ty, Type::Extern(_)) && of == ParamOwner::Action {
            self.error(
                Code::DECLARATION_RULE,
                param.ty.span,
                format!("actions cannot have parameters of type `{ty}`"),
            );
        }
    }

    fn extern_decl(&mut self, d: &Rc<ExternDecl>) {
        self.define(d.id, DefKind::Extern(d.clone()), d.name.span);
        self.declare(d.id, &d.name);
        self.structured_annotations(&d.annotations);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.type_params(&d.type_params);
            for (i, f) in d.constructors.iter().chain(&d.methods).enumerate() {
                let constructor = f.ret.is_none();
                let kind = if constructor {
                    DefKind::Constructor(f.clone())
                } else {
                    DefKind::Method(f.clone())
                };
                c.define(f.id, kind, f.name.span);
                if let Some(ret) = f.ret.as_ref().filter(|_| f.name.name == d.name.name) {
                    c.report(
                        Diagnostic::error(
                            Code::DECLARATION_RULE,
                            f.name.span,
                            "a method cannot have the name of its extern",
                        )
                        .other(ret.span, "a constructor has no result type"),
                    );
                }
                let all = d.constructors.iter().chain(&d.methods).take(i);
                let clash = all
                    .filter(|g| g.name.name == f.name.name && g.ret.is_none() == constructor)
                    .find(|g| super::checker::same_parameters(&g.params, &f.params));
                if let Some(g) = clash {
                    c.report(
                        Diagnostic::error(
                            Code::DUPLICATE,
                            f.name.span,
                            format!("`{}` is declared twice with the same parameters", f.name),
                        )
                        .other(g.name.span, "first declaration"),
                    );
                }
                c.in_declaration(f.id, &f.annotations, |c| {
                    c.type_params(&f.type_params);
                    if let Some(ret) = &f.ret {
                        c.result_type(ret);
                    }
                    c.params(
                        &f.params,
                        if constructor {
                            ParamOwner::Constructor
                        } else {
                            ParamOwner::Extern
                        },
                    );
                    c.reject_own_type(d, &f.params);
                });
            }
        });
    }

    /// Reports parameters of an extern's methods and constructors whose type is that extern.
    fn reject_own_type(&mut self, d: &ExternDecl, params: &[Rc<Param>]) {
        for param in params {
            let ty = self.out.type_ref(&param.ty);
            if matches!(ty, Type::Extern(n) if n.id == d.id) {
                let message = format!("`{}` cannot be a parameter of its own methods", d.name);
                self.error(Code::DECLARATION_RULE, param.ty.span, message);
            }
        }
    }

    fn function_decl(&mut self, d: &Rc<FunctionDecl>, is_extern: bool) {
        let kind = if is_extern {
            DefKind::ExternFunction(d.clone())
        } else {
            DefKind::Function(d.clone())
        };
        self.define(d.id, kind, d.name.span);
        self.declare(d.id, &d.name);
        self.structured_annotations(&d.annotations);
        let outer = std::mem::replace(&mut self.body_kind, BodyKind::Function);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.type_params(&d.type_params);
            let ret = d.ret.as_ref().map_or(Type::Void, |ret| c.result_type(ret));
            // Only extern functions may return instances or compile-time values.
            if (ret.is_instance() || matches!(ret, Type::Int | Type::String)) && !is_extern {
                c.error(
                    Code::BAD_TYPE,
                    d.name.span,
                    format!("a function cannot return a `{ret}`"),
                );
            }
            c.params(
                &d.params,
                if is_extern {
                    ParamOwner::Extern
                } else {
                    ParamOwner::Function
                },
            );
            let Some(body) = &d.body else { return };
            let outer = c.ret.replace(ret.clone());
            let loops = std::mem::take(&mut c.loops);
            c.block(body);
            c.ret = outer;
            c.loops = loops;
            if !matches!(ret, Type::Void | Type::Invalid(_) | Type::Unknown)
                && !always_returns(&body.stmts)
            {
                c.report(
                    Diagnostic::error(
                        Code::STATEMENT,
                        d.name.span,
                        format!(
                            "function `{}` does not return a value on every path",
                            d.name
                        ),
                    )
                    .label(format!("must return `{ret}`")),
                );
            }
        });
        self.body_kind = outer;
    }

    pub fn action_decl(&mut self, d: &Rc<ActionDecl>) {
        self.define(d.id, DefKind::Action(d.clone()), d.name.span);
        self.declare(d.id, &d.name);
        self.structured_annotations(&d.annotations);
        let outer = std::mem::replace(&mut self.body_kind, BodyKind::Action);
        let ret = self.ret.replace(Type::Void);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.params(&d.params, ParamOwner::Action);
            let loops = std::mem::take(&mut c.loops);
            c.block(&d.body);
            c.loops = loops;
        });
        self.body_kind = outer;
        self.ret = ret;
    }

    fn package_decl(&mut self, d: &Rc<PackageDecl>) {
        self.define(d.id, DefKind::Package(d.clone()), d.name.span);
        self.declare(d.id, &d.name);
        self.structured_annotations(&d.annotations);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.type_params(&d.type_params);
            c.params(&d.params, ParamOwner::Constructor);
        });
    }

    fn struct_decl(&mut self, d: &Rc<StructDecl>, kind: DefKind) {
        self.structured_annotations(&d.annotations);
        self.define(d.id, kind.clone(), d.name.span);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.type_params(&d.type_params);
            let mut seen: FxHashMap<Name, Span> = FxHashMap::default();
            let mut varbits: Option<Span> = None;
            for (i, field) in d.fields.iter().enumerate() {
                if let Some(first) = seen.insert(field.name.name.clone(), field.name.span) {
                    c.report(
                        Diagnostic::error(
                            Code::DUPLICATE,
                            field.name.span,
                            format!("field `{}` is declared twice", field.name),
                        )
                        .other(first, "first declaration"),
                    );
                }
                let ty = c.type_ref(&field.ty);
                c.structured_annotations(&field.annotations);
                c.field_rules(field, &ty, &kind);
                if matches!(kind, DefKind::Header(_)) && matches!(ty, Type::Varbit(_)) {
                    if let Some(first) = varbits.replace(field.span) {
                        c.report(
                            Diagnostic::error(
                                Code::BAD_TYPE,
                                field.span,
                                "a header has at most one field of variable size",
                            )
                            .other(first, "first `varbit` field"),
                        );
                    }
                }
                c.define(field.id, DefKind::Field(field.clone(), i), field.name.span);
                c.out.decl_types.insert(field.id, ty);
            }
        });
        self.declare(d.id, &d.name);
    }

    fn field_rules(&mut self, field: &Field, ty: &Type, container: &DefKind) {
        match container {
            DefKind::Header(_) => {
                if !self.fits_header(ty) {
                    self.report(
                        Diagnostic::error(Code::BAD_TYPE, field.ty.span, format!("a header cannot contain a `{ty}`"))
                            .note("headers consist of `bit`, `int`, `bool`, `varbit`, serializable enums, and structs of these"),
                    );
                }
            }
            DefKind::HeaderUnion(_) => {
                if !matches!(
                    ty,
                    Type::Header(_) | Type::Invalid(_) | Type::Unknown | Type::Var(_)
                ) {
                    self.error(
                        Code::BAD_TYPE,
                        field.ty.span,
                        format!("a header union consists of headers, not of `{ty}`"),
                    );
                }
            }
            _ => self.check_field_type(ty, field.ty.span, "a struct"),
        }
    }

    pub fn fits_header(&mut self, ty: &Type) -> bool {
        match ty {
            Type::Bit(_)
            | Type::Signed(_)
            | Type::Bool
            | Type::Varbit(_)
            | Type::SerializableEnum(_) => true,
            Type::Invalid(_) | Type::Unknown | Type::Var(_) => true,
            Type::NewType(_) => {
                let under = self.out.representation(ty);
                self.fits_header(&under)
            }
            Type::Struct(_) => {
                if let Some(known) = self.header_parts.get(ty) {
                    return *known;
                }
                let table = self.field_table(ty);
                let fits = table.list.iter().all(|(_, ty)| self.fits_header(ty));
                self.header_parts.insert(ty.clone(), fits);
                fits
            }
            _ => false,
        }
    }

    fn enum_decl(&mut self, d: &Rc<EnumDecl>) {
        self.structured_annotations(&d.annotations);
        let underlying = d.underlying.as_ref().map(|written| {
            let ty = self.type_ref(written);
            if ty.any(&mut |part| part.is_invalid()) {
                return self.invalid();
            }
            if !matches!(self.out.representation(&ty), Type::Bit(_) | Type::Signed(_)) {
                self.error(
                    Code::BAD_TYPE,
                    written.span,
                    format!("an enum's type must be `bit<W>` or `int<W>`, not `{ty}`"),
                );
                return self.invalid();
            }
            ty
        });
        self.define(d.id, DefKind::Enum(d.clone()), d.name.span);
        let nominal = Nominal::plain(d.id, d.name.name.clone());
        let own = if underlying.is_some() {
            Type::SerializableEnum(nominal)
        } else {
            Type::Enum(nominal)
        };
        let mut seen: FxHashMap<Name, Span> = FxHashMap::default();
        if d.members.is_empty() {
            self.error(
                Code::DECLARATION_RULE,
                d.name.span,
                format!("enum `{}` has no members", d.name),
            );
        }
        for (i, member) in d.members.iter().enumerate() {
            let parent = self.parent.replace(d.id);
            self.define(
                member.id,
                DefKind::EnumMember(member.clone(), i),
                member.name.span,
            );
            self.parent = parent;
            self.out.decl_types.insert(member.id, own.clone());
            if let Some(first) = seen.insert(member.name.name.clone(), member.name.span) {
                self.report(
                    Diagnostic::error(
                        Code::DUPLICATE,
                        member.name.span,
                        format!("member `{}` is declared twice", member.name),
                    )
                    .other(first, "first declaration"),
                );
            }
            match (&underlying, &member.value) {
                (None, None) => {}
                (Some(ty), Some(value)) => {
                    if self.expr_as(value, ty, "the member's value") {
                        match self.value_of(value) {
                            Some(v @ Value::Int(_)) => {
                                self.out.consts.insert(member.id, v);
                            }
                            _ => self.report_not_constant(value, "the member's value"),
                        }
                    }
                }
                (None, Some(value)) => self.report(
                    Diagnostic::error(
                        Code::DECLARATION_RULE,
                        value.span,
                        "this enum has no underlying type, so its members cannot have values",
                    )
                    .help(format!("write `enum bit<8> {} {{ ... }}`", d.name)),
                ),
                (Some(_), None) => self.report(
                    Diagnostic::error(
                        Code::DECLARATION_RULE,
                        member.name.span,
                        format!("member `{}` needs a value", member.name),
                    )
                    .help(format!("write `{} = {i}`", member.name)),
                ),
            }
        }
        self.declare(d.id, &d.name);
    }

    fn error_decl(&mut self, d: &Rc<MembersDecl>) {
        for member in &d.members {
            self.define(
                member.id,
                DefKind::ErrorMember(member.clone(), self.out.errors.len()),
                member.name.span,
            );
            self.out.decl_types.insert(member.id, Type::Error);
            self.reject_member_value(member);
            if let Some(first) = self.error_names.insert(member.name.name.clone(), member.id) {
                self.duplicate_member(member, first, "error");
                continue;
            }
            self.out.errors.push(member.id);
        }
    }

    fn match_kind_decl(&mut self, d: &Rc<MembersDecl>) {
        for member in &d.members {
            self.define(
                member.id,
                DefKind::MatchKindMember(member.clone()),
                member.name.span,
            );
            self.out.decl_types.insert(member.id, Type::MatchKind);
            self.reject_member_value(member);
            if let Some(first) = self
                .match_kind_names
                .insert(member.name.name.clone(), member.id)
            {
                self.duplicate_member(member, first, "match kind");
                continue;
            }
            self.out.match_kinds.push(member.id);
        }
    }

    fn reject_member_value(&mut self, member: &Member) {
        if let Some(value) = &member.value {
            self.error(
                Code::SYNTAX,
                value.span,
                format!("`{}` cannot have a value", member.name),
            );
        }
    }

    fn duplicate_member(&mut self, member: &Member, first: DeclId, what: &str) {
        let at = self.name_span(first);
        self.report(
            Diagnostic::error(
                Code::DUPLICATE,
                member.name.span,
                format!("{what} `{}` is declared twice", member.name),
            )
            .other(at, "first declaration"),
        );
    }

    fn typedef_decl(&mut self, d: &Rc<TypedefDecl>) {
        self.structured_annotations(&d.annotations);
        let ty = match &d.target {
            TypedefTarget::Type(written) => self.type_ref(written),
            TypedefTarget::Decl(decl) => {
                self.declaration(decl);
                match decl.id() {
                    Some((id, name)) => self.open_type(id, name.span),
                    None => self.invalid(),
                }
            }
        };
        self.define(d.id, DefKind::Typedef(d.clone()), d.name.span);
        self.out.decl_types.insert(d.id, ty);
        self.declare(d.id, &d.name);
    }

    fn new_type_decl(&mut self, d: &Rc<TypedefDecl>) {
        self.structured_annotations(&d.annotations);
        if let TypedefTarget::Type(written) = &d.target {
            let ty = self.type_ref(written);
            let under = self.out.representation(&ty);
            let known = !ty.any(&mut |part| part.is_invalid());
            if known
                && !matches!(
                    under,
                    Type::Bit(_)
                        | Type::Signed(_)
                        | Type::Bool
                        | Type::Invalid(_)
                        | Type::Unknown
                        | Type::Var(_)
                )
                && !matches!(ty, Type::SerializableEnum(_))
            {
                self.error(
                    Code::BAD_TYPE,
                    written.span,
                    format!("`type` cannot derive a new type from `{ty}`"),
                );
            }
        }
        self.define(d.id, DefKind::NewType(d.clone()), d.name.span);
        self.declare(d.id, &d.name);
    }
}

/// Whether every path through the statements ends with `return` or `exit`, so that control never reaches their end.
pub(super) fn always_returns(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Exit | StmtKind::Invalid(_) => true,
        StmtKind::Block(block) => always_returns(&block.stmts),
        StmtKind::If {
            then,
            otherwise: Some(otherwise),
            ..
        } => {
            always_returns(std::slice::from_ref(then))
                && always_returns(std::slice::from_ref(otherwise))
        }
        StmtKind::Switch { cases, .. } => {
            let default = cases
                .iter()
                .any(|c| matches!(c.label.kind, ExprKind::DontCare(_)));
            let last_falls = cases.last().is_some_and(|c| c.body.is_none());
            default
                && !last_falls
                && cases
                    .iter()
                    .filter_map(|c| c.body.as_ref())
                    .all(|b| always_returns(&b.stmts))
        }
        _ => false,
    })
}
