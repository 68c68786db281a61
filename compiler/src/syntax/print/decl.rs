//! Declarations.

use super::Printer;
use crate::syntax::ast::*;
use std::rc::Rc;

impl Printer {
    pub(super) fn decl(&mut self, decl: &Decl) {
        match decl {
            Decl::Const(d) => self.const_decl(d),
            Decl::Var(d) => self.var_decl(d),
            Decl::Instantiation(d) => self.instantiation(d),
            Decl::Extern(d) => self.extern_decl(d),
            Decl::ExternFunction(d) => self.function(d, "extern "),
            Decl::Function(d) => self.function(d, ""),
            Decl::Action(d) => {
                self.annotations(&d.annotations, true);
                self.line_start();
                self.word(&format!("action {}", d.name));
                self.params(&d.params);
                self.word(" ");
                self.block(&d.body);
                self.word("\n");
            }
            Decl::Parser(d) => self.parser(d),
            Decl::Control(d) => self.control(d),
            Decl::Package(d) => {
                self.annotations(&d.annotations, true);
                self.line_start();
                self.word(&format!("package {}", d.name));
                self.type_params(&d.type_params);
                self.params(&d.params);
                self.word(";\n");
            }
            Decl::Table(d) => self.table(d),
            Decl::ValueSet(d) => {
                self.annotations(&d.annotations, true);
                self.line_start();
                self.word("value_set<");
                self.type_ref(&d.ty);
                self.word(">(");
                self.expr(&d.size);
                self.word(&format!(") {};\n", d.name));
            }
            Decl::Struct(d) => self.struct_like("struct", d, "\n"),
            Decl::Header(d) => self.struct_like("header", d, "\n"),
            Decl::HeaderUnion(d) => self.struct_like("header_union", d, "\n"),
            Decl::Enum(d) => self.enumeration(d, "\n"),
            Decl::Error(d) => self.members("error", d),
            Decl::MatchKind(d) => self.members("match_kind", d),
            Decl::Typedef(d) => self.typedef("typedef", d),
            Decl::NewType(d) => self.typedef("type", d),
        }
        if self.indent == 0 {
            self.word("\n");
        }
    }

    pub(super) fn const_decl(&mut self, d: &ConstDecl) {
        self.annotations(&d.annotations, true);
        self.line_start();
        self.word("const ");
        self.type_ref(&d.ty);
        self.word(&format!(" {} = ", d.name));
        self.expr(&d.value);
        self.word(";\n");
    }

    pub(super) fn var_decl(&mut self, d: &VarDecl) {
        self.line_start();
        self.var_without_semicolon(d);
        self.word(";\n");
    }

    pub(super) fn var_without_semicolon(&mut self, d: &VarDecl) {
        self.annotations(&d.annotations, false);
        self.type_ref(&d.ty);
        self.word(&format!(" {}", d.name));
        if let Some(init) = &d.init {
            self.word(" = ");
            self.expr(init);
        }
    }

    pub(super) fn instantiation(&mut self, d: &Instantiation) {
        self.annotations(&d.annotations, true);
        self.line_start();
        self.type_ref(&d.ty);
        self.args(&d.args);
        self.word(&format!(" {}", d.name));
        if let Some(body) = &d.body {
            self.word(" = ");
            self.braces(|p| body.iter().for_each(|member| p.decl(member)));
        }
        self.word(";\n");
    }

    fn function(&mut self, d: &FunctionDecl, prefix: &str) {
        self.annotations(&d.annotations, true);
        self.line_start();
        self.word(prefix);
        if d.is_abstract {
            self.word("abstract ");
        }
        if let Some(ret) = &d.ret {
            self.type_ref(ret);
            self.word(" ");
        }
        self.word(&d.name.name);
        self.type_params(&d.type_params);
        self.params(&d.params);
        match &d.body {
            Some(body) => {
                self.word(" ");
                self.block(body);
                self.word("\n");
            }
            None => self.word(";\n"),
        }
    }

    fn extern_decl(&mut self, d: &ExternDecl) {
        self.annotations(&d.annotations, true);
        self.line_start();
        self.word(&format!("extern {}", d.name));
        self.type_params(&d.type_params);
        self.word(" ");
        self.braces(|p| {
            for method in d.constructors.iter().chain(&d.methods) {
                p.function(method, "");
            }
        });
        self.word("\n");
    }

    fn type_params(&mut self, params: &[TypeParam]) {
        if !params.is_empty() {
            self.word("<");
            self.list(params, |p, param| p.word(&param.name.name));
            self.word(">");
        }
    }

    fn params(&mut self, params: &[Rc<Param>]) {
        self.word("(");
        self.list(params, |p, param| {
            p.annotations(&param.annotations, false);
            if param.direction != Direction::None {
                p.word(param.direction.as_str());
                p.word(" ");
            }
            p.type_ref(&param.ty);
            p.word(&format!(" {}", param.name));
            if let Some(default) = &param.default {
                p.word(" = ");
                p.expr(default);
            }
        });
        self.word(")");
    }

    /// Prints a parser or control up to its body: keyword, name, type parameters and parameters.
    fn block_head(
        &mut self,
        what: &str,
        name: &Ident,
        type_params: &[TypeParam],
        params: &[Rc<Param>],
    ) {
        self.line_start();
        self.word(&format!("{what} {name}"));
        self.type_params(type_params);
        self.params(params);
    }

    fn ctor_params(&mut self, params: &[Rc<Param>]) {
        if !params.is_empty() {
            self.params(params);
        }
        self.word(" ");
    }

    fn parser(&mut self, d: &ParserDecl) {
        self.annotations(&d.annotations, true);
        self.block_head("parser", &d.name, &d.type_params, &d.params);
        let Some(body) = &d.body else {
            return self.word(";\n");
        };
        self.ctor_params(&body.ctor_params);
        self.braces(|p| {
            body.locals.iter().for_each(|local| p.decl(local));
            body.states.iter().for_each(|state| p.state(state));
        });
        self.word("\n");
    }

    fn control(&mut self, d: &ControlDecl) {
        self.annotations(&d.annotations, true);
        self.block_head("control", &d.name, &d.type_params, &d.params);
        let Some(body) = &d.body else {
            return self.word(";\n");
        };
        self.ctor_params(&body.ctor_params);
        self.braces(|p| {
            body.locals.iter().for_each(|local| p.decl(local));
            p.line_start();
            p.word("apply ");
            p.block(&body.apply);
            p.word("\n");
        });
        self.word("\n");
    }

    fn struct_like(&mut self, what: &str, d: &StructDecl, end: &str) {
        self.annotations(&d.annotations, end == "\n");
        if end == "\n" {
            self.line_start();
        }
        self.word(&format!("{what} {}", d.name));
        self.type_params(&d.type_params);
        self.word(" ");
        self.braces(|p| {
            for field in &d.fields {
                p.annotations(&field.annotations, true);
                p.line_start();
                p.type_ref(&field.ty);
                p.word(&format!(" {};\n", field.name));
            }
        });
        self.word(end);
    }

    fn enumeration(&mut self, d: &EnumDecl, end: &str) {
        self.annotations(&d.annotations, end == "\n");
        if end == "\n" {
            self.line_start();
        }
        self.word("enum ");
        if let Some(ty) = &d.underlying {
            self.type_ref(ty);
            self.word(" ");
        }
        self.word(&format!("{} ", d.name));
        self.member_list(&d.members);
        self.word(end);
    }

    fn members(&mut self, what: &str, d: &MembersDecl) {
        self.annotations(&d.annotations, true);
        self.word(what);
        self.word(" ");
        self.member_list(&d.members);
        self.word("\n");
    }

    fn member_list(&mut self, members: &[Rc<Member>]) {
        self.braces(|p| {
            for (i, member) in members.iter().enumerate() {
                p.annotations(&member.annotations, true);
                p.line_start();
                p.word(&member.name.name);
                if let Some(value) = &member.value {
                    p.word(" = ");
                    p.expr(value);
                }
                p.word(if i + 1 < members.len() { ",\n" } else { "\n" });
            }
        });
    }

    fn typedef(&mut self, what: &str, d: &TypedefDecl) {
        self.annotations(&d.annotations, true);
        self.line_start();
        self.word(what);
        self.word(" ");
        match &d.target {
            TypedefTarget::Type(ty) => self.type_ref(ty),
            TypedefTarget::Decl(decl) => match &**decl {
                Decl::Struct(d) => self.struct_like("struct", d, ""),
                Decl::Header(d) => self.struct_like("header", d, ""),
                Decl::HeaderUnion(d) => self.struct_like("header_union", d, ""),
                Decl::Enum(d) => self.enumeration(d, ""),
                other => self.decl(other),
            },
        }
        self.word(&format!(" {};\n", d.name));
    }

    fn table(&mut self, d: &TableDecl) {
        self.annotations(&d.annotations, true);
        self.line(&format!("table {} {{", d.name));
        self.indent += 1;
        for property in &d.properties {
            self.annotations(&property.annotations, true);
            self.line_start();
            if property.is_const {
                self.word("const ");
            }
            self.word(&format!("{} = ", property.name));
            match &property.value {
                TablePropertyValue::Key(key) => {
                    self.braces(|p| key.iter().for_each(|e| p.key_element(e)))
                }
                TablePropertyValue::Actions(actions) => self.braces(|p| {
                    for action in actions {
                        p.annotations(&action.annotations, true);
                        p.line_start();
                        p.action_ref(action);
                        p.word(";\n");
                    }
                }),
                TablePropertyValue::Entries(entries) => {
                    self.braces(|p| entries.iter().for_each(|e| p.entry(e)))
                }
                TablePropertyValue::DefaultAction(action) => {
                    self.action_ref(action);
                    self.word(";");
                }
                TablePropertyValue::Expr(value) => {
                    self.expr(value);
                    self.word(";");
                }
            }
            self.word("\n");
        }
        self.indent -= 1;
        self.line("}");
    }

    fn key_element(&mut self, element: &KeyElement) {
        self.line_start();
        self.expr(&element.expr);
        self.word(&format!(": {} ", element.match_kind));
        self.annotations(&element.annotations, false);
        self.word(";\n");
    }

    fn action_ref(&mut self, action: &ActionRef) {
        self.path(&action.path);
        if let Some(args) = &action.args {
            self.args(args);
        }
    }

    fn entry(&mut self, entry: &Entry) {
        self.line_start();
        if entry.is_const {
            self.word("const ");
        }
        if let Some(priority) = &entry.priority {
            self.word("priority = ");
            let plain = matches!(priority.kind, ExprKind::Int(_));
            self.word(if plain { "" } else { "(" });
            self.expr(priority);
            self.word(if plain { " : " } else { ") : " });
        }
        self.expr(&entry.keyset);
        self.word(" : ");
        self.action_ref(&entry.action);
        self.word(" ");
        self.annotations(&entry.annotations, false);
        self.word(";\n");
    }
}
