//! Generates Rust from a parsed interface file; the traits it uses are in `src/wire.rs` and `src/client.rs`.

use std::{
    collections::BTreeMap,
    fmt::{Error, Write},
};

use crate::idl::{Document, Enum, Field, Function, Struct, Type};

/// Generates the module of one service with the name `service`.
pub fn generate(document: &Document, service: &str) -> Result<String, Error> {
    let mut out = String::new();
    let o = &mut out;
    let types = Types(document.typedefs.iter().map(|(n, t)| (&n[..], t)).collect());
    writeln!(
        o,
        "/// The service's name, which clients put before a method's."
    )?;
    writeln!(o, "pub const NAME: &str = {service:?};")?;
    for e in &document.enums {
        enumeration(o, e)?;
    }
    for s in &document.structs {
        structure(o, &types, &s.docs, &s.name, &s.fields)?;
        if s.is_exception {
            exception(o, s)?;
        }
    }
    for f in &document.functions {
        let docs = [format!("Arguments of `{}`.", f.name)];
        structure(o, &types, &docs, &camel(&f.name), &f.args)?;
    }
    calls(o, &document.functions)?;
    replies(o, &types, &document.functions)?;
    handler(o, &types, &document.functions)?;
    client(o, &types, &document.functions)?;
    Ok(out)
}

/// Type names in Rust, with typedefs resolved.
struct Types<'a>(BTreeMap<&'a str, &'a Type>);

impl Types<'_> {
    fn rust(&self, ty: &Type) -> String {
        match ty {
            Type::List(element) => format!("Vec<{}>", self.rust(element)),
            Type::Map(key, value) => {
                format!("BTreeMap<{}, {}>", self.rust(key), self.rust(value))
            }
            Type::Named(name) => match (name.as_str(), self.0.get(name.as_str())) {
                (_, Some(ty)) => self.rust(ty),
                ("string", _) => "String".into(),
                ("binary", _) => "Vec<u8>".into(),
                ("double", _) => "f64".into(),
                (name, _) => name.into(),
            },
        }
    }

    fn returned(&self, function: &Function) -> String {
        let ty = function.returns.as_ref();
        ty.map_or_else(|| "()".into(), |ty| self.rust(ty))
    }

    fn field(&self, field: &Field) -> String {
        let ty = self.rust(&field.ty);
        match field.optional {
            true => format!("Option<{ty}>"),
            false => ty,
        }
    }

    /// Returns the type of a parameter; `&str` for strings.
    fn param(&self, field: &Field) -> String {
        match self.field(field).as_str() {
            "String" => "impl Into<String>".into(),
            ty => ty.into(),
        }
    }

    /// Returns the conversion of a parameter to its field.
    fn conversion(&self, field: &Field) -> &'static str {
        match self.field(field).as_str() {
            "String" => ".into()",
            _ => "",
        }
    }
}

/// Converts `BMC_NODE` or `bmc_node` to `BmcNode`.
fn camel(name: &str) -> String {
    let mut out = String::new();
    for part in name.split('_') {
        let mut chars = part.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.extend(chars.map(|c| c.to_ascii_lowercase()));
    }
    out
}

fn ident(name: &str) -> String {
    match name {
        "type" => format!("r#{name}"),
        _ => name.into(),
    }
}

fn docs(o: &mut String, docs: &[String], indent: &str) -> Result<(), Error> {
    docs.iter()
        .try_for_each(|doc| writeln!(o, "{indent}/// {doc}"))
}

fn enumeration(o: &mut String, e: &Enum) -> Result<(), Error> {
    let name = &e.name;
    docs(o, &e.docs, "")?;
    writeln!(o, "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]")?;
    writeln!(o, "#[repr(i32)]\npub enum {name} {{")?;
    for (i, (value, number)) in e.values.iter().enumerate() {
        if i == 0 {
            writeln!(o, "    #[default]")?;
        }
        writeln!(o, "    {} = {number},", camel(value))?;
    }
    writeln!(o, "}}\nimpl {name} {{")?;
    writeln!(o, "    /// The name in the interface file.")?;
    writeln!(
        o,
        "    pub fn name(self) -> &'static str {{\n        match self {{"
    )?;
    for (value, _) in &e.values {
        writeln!(o, "            {name}::{} => {value:?},", camel(value))?;
    }
    writeln!(o, "        }}\n    }}\n}}\nimpl Wire for {name} {{")?;
    writeln!(o, "    const TYPE: TType = TType::I32;")?;
    writeln!(
        o,
        "    fn read(p: &mut dyn TInputProtocol) -> Result<Self> {{"
    )?;
    writeln!(o, "        Ok(match p.read_i32()? {{")?;
    for (value, number) in &e.values {
        writeln!(o, "            {number} => {name}::{},", camel(value))?;
    }
    writeln!(
        o,
        "            other => return Err(wire::no_such({name:?}, other)),"
    )?;
    writeln!(o, "        }})\n    }}")?;
    writeln!(
        o,
        "    fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {{"
    )?;
    writeln!(o, "        p.write_i32(*self as i32)\n    }}\n}}")
}

fn structure(
    o: &mut String,
    types: &Types<'_>,
    documentation: &[String],
    name: &str,
    fields: &[Field],
) -> Result<(), Error> {
    docs(o, documentation, "")?;
    writeln!(o, "#[derive(Clone, Debug, Default, PartialEq)]")?;
    writeln!(o, "pub struct {name} {{")?;
    for f in fields {
        writeln!(o, "    pub {}: {},", ident(&f.name), types.field(f))?;
    }
    writeln!(o, "}}\nimpl Wire for {name} {{")?;
    writeln!(o, "    const TYPE: TType = TType::Struct;")?;
    writeln!(
        o,
        "    fn read(p: &mut dyn TInputProtocol) -> Result<Self> {{"
    )?;
    let mutable = if fields.is_empty() { "" } else { "mut " };
    writeln!(o, "        let {mutable}value = {name}::default();")?;
    writeln!(o, "        wire::read_fields(p, |p, id, ty| {{")?;
    writeln!(o, "            match (id, ty) {{")?;
    for f in fields {
        let (id, ty, ident) = (f.id, types.rust(&f.ty), ident(&f.name));
        let read = match f.optional {
            true => "Some(Wire::read(p)?)",
            false => "Wire::read(p)?",
        };
        writeln!(
            o,
            "                ({id}, ty) if ty == <{ty} as Wire>::TYPE => value.{ident} = {read},"
        )?;
    }
    writeln!(o, "                (_, ty) => p.skip(ty)?,")?;
    writeln!(o, "            }}\n            Ok(())\n        }})?;")?;
    writeln!(o, "        Ok(value)\n    }}")?;
    writeln!(
        o,
        "    fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {{"
    )?;
    writeln!(
        o,
        "        p.write_struct_begin(&TStructIdentifier::new({name:?}))?;"
    )?;
    for f in fields {
        let (id, name, ident) = (f.id, &f.name, ident(&f.name));
        match f.optional {
            true => writeln!(
                o,
                "        if let Some(value) = &self.{ident} {{ wire::write_field(p, {name:?}, {id}, value)?; }}"
            )?,
            false => writeln!(o, "        wire::write_field(p, {name:?}, {id}, &self.{ident})?;")?,
        }
    }
    writeln!(
        o,
        "        p.write_field_stop()?;\n        p.write_struct_end()\n    }}\n}}"
    )
}

fn exception(o: &mut String, s: &Struct) -> Result<(), Error> {
    let name = &s.name;
    writeln!(o, "impl std::fmt::Display for {name} {{")?;
    writeln!(
        o,
        "    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {{"
    )?;
    writeln!(o, "        f.write_str(self.code.name())\n    }}\n}}")?;
    writeln!(o, "impl std::error::Error for {name} {{}}")?;
    // Every exception holds only a code.
    let code = match &s.fields[..] {
        [Field {
            name,
            ty: Type::Named(ty),
            ..
        }] if name == "code" => ty,
        _ => return Err(Error),
    };
    writeln!(o, "impl From<{code}> for {name} {{")?;
    writeln!(
        o,
        "    fn from(code: {code}) -> Self {{\n        {name} {{ code }}\n    }}\n}}"
    )
}

fn calls(o: &mut String, functions: &[Function]) -> Result<(), Error> {
    writeln!(o, "/// A request.")?;
    writeln!(o, "#[derive(Clone, Debug, PartialEq)]\npub enum Call {{")?;
    for f in functions {
        let name = camel(&f.name);
        writeln!(o, "    {name}({name}),")?;
    }
    writeln!(o, "}}\nimpl Call {{")?;
    writeln!(o, "    /// Names of all methods.")?;
    writeln!(o, "    pub const METHODS: &'static [&'static str] = &[")?;
    for f in functions {
        writeln!(o, "        {:?},", f.name)?;
    }
    writeln!(o, "    ];")?;
    writeln!(
        o,
        "    /// Reads the arguments of a method; `None` when there is no such method."
    )?;
    writeln!(
        o,
        "    ///\n    /// # Errors\n    /// When the arguments are malformed, or the transport fails."
    )?;
    writeln!(
        o,
        "    pub fn read(method: &str, p: &mut dyn TInputProtocol) -> Result<Option<Call>> {{"
    )?;
    writeln!(o, "        Ok(Some(match method {{")?;
    for f in functions {
        writeln!(
            o,
            "            {:?} => Call::{}(Wire::read(p)?),",
            f.name,
            camel(&f.name)
        )?;
    }
    writeln!(o, "            _ => return Ok(None),\n        }}))\n    }}")?;
    writeln!(o, "    /// Executes the request.")?;
    writeln!(o, "    pub fn run(self, handler: &mut (impl Handler + ?Sized)) -> Reply {{\n        match self {{")?;
    for f in functions {
        let (name, variant) = (&f.name, camel(&f.name));
        let fields: Vec<_> = f.args.iter().map(|a| ident(&a.name)).collect();
        let fields = fields.join(", ");
        writeln!(
            o,
            "            Call::{variant}({variant} {{ {fields} }}) => Reply::{variant}(handler.{name}({fields})),"
        )?;
    }
    writeln!(o, "        }}\n    }}\n}}")
}

fn replies(o: &mut String, types: &Types<'_>, functions: &[Function]) -> Result<(), Error> {
    writeln!(o, "/// The reply to a request.")?;
    writeln!(o, "#[derive(Clone, Debug, PartialEq)]\npub enum Reply {{")?;
    for f in functions {
        writeln!(o, "    {}({}),", camel(&f.name), result(types, f))?;
    }
    writeln!(o, "}}\nimpl Reply {{")?;
    writeln!(o, "    /// Writes the reply as the result of its method.")?;
    writeln!(
        o,
        "    ///\n    /// # Errors\n    /// When the transport fails."
    )?;
    writeln!(
        o,
        "    pub fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {{"
    )?;
    writeln!(o, "        match self {{")?;
    for f in functions {
        let variant = camel(&f.name);
        let write = match f.throws.is_empty() {
            true => "wire::write_result(p, Some(value), None::<&()>)",
            false => "wire::write_result(p, value.as_ref().ok(), value.as_ref().err())",
        };
        writeln!(o, "            Reply::{variant}(value) => {write},")?;
    }
    writeln!(o, "        }}\n    }}\n}}")
}

/// Returns the result type of a handler's method.
fn result(types: &Types<'_>, f: &Function) -> String {
    let ok = types.returned(f);
    match f.throws.first() {
        Some(error) => format!("std::result::Result<{ok}, {}>", types.rust(&error.ty)),
        None => ok,
    }
}

/// Generates one trait for all methods, or one per part of the service and one that combines them.
fn handler(o: &mut String, types: &Types<'_>, functions: &[Function]) -> Result<(), Error> {
    let mut names: Vec<&str> = Vec::new();
    for part in functions.chunk_by(|a, b| a.part == b.part) {
        let name = part[0].part.as_deref().unwrap_or("Handler");
        writeln!(o, "/// A handler of requests.")?;
        writeln!(o, "pub trait {name} {{")?;
        for f in part {
            docs(o, &f.docs, "    ")?;
            write!(o, "    fn {}(&mut self", f.name)?;
            for a in &f.args {
                write!(o, ", {}: {}", ident(&a.name), types.field(a))?;
            }
            writeln!(o, ") -> {};", result(types, f))?;
        }
        writeln!(o, "}}")?;
        names.push(name);
    }
    if names == ["Handler"] {
        return Ok(());
    }
    let all = names.join(" + ");
    writeln!(o, "/// A handler of the requests of all parts.")?;
    writeln!(o, "pub trait Handler: {all} {{}}")?;
    writeln!(o, "impl<T: {all}> Handler for T {{}}")
}

fn client(o: &mut String, types: &Types<'_>, functions: &[Function]) -> Result<(), Error> {
    writeln!(o, "/// Calls a server's methods, one at a time.")?;
    writeln!(o, "pub struct Client<'a>(pub(crate) &'a mut Connection);")?;
    writeln!(o, "impl Client<'_> {{")?;
    for f in functions {
        docs(o, &f.docs, "    ")?;
        let error = match f.throws.first() {
            Some(error) => types.rust(&error.ty),
            None => "Infallible".into(),
        };
        if !f.docs.is_empty() {
            writeln!(o, "    ///")?;
        }
        writeln!(
            o,
            "    /// # Errors\n    /// When the server rejects the request, or the connection fails."
        )?;
        write!(o, "    pub fn {}(&mut self", f.name)?;
        for a in &f.args {
            write!(o, ", {}: {}", ident(&a.name), types.param(a))?;
        }
        writeln!(
            o,
            ") -> std::result::Result<{}, Failure<{error}>> {{",
            types.returned(f)
        )?;
        writeln!(o, "        let args = {} {{", camel(&f.name))?;
        for a in &f.args {
            let ident = ident(&a.name);
            match types.conversion(a) {
                "" => writeln!(o, "            {ident},")?,
                by => writeln!(o, "            {ident}: {ident}{by},")?,
            }
        }
        writeln!(
            o,
            "        }};\n        self.0.call(NAME, {:?}, &args)\n    }}",
            f.name
        )?;
    }
    writeln!(o, "}}")
}
