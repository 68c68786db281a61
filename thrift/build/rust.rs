//! Generates Rust from a parsed Thrift interface file. The generated code uses traits in `src/wire.rs` and
//! `src/client.rs`.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};

use crate::idl::{Document, Enum, Field, Function, Struct, Type};

/// Generates the Rust module of the service named `service`.
///
/// # Errors
/// A description, for a file whose translation is not a Rust module, or an exception that has other fields than a code.
pub fn generate(document: &Document, service: &str) -> Result<String, String> {
    let types = Types(document.typedefs.iter().map(|(n, t)| (&n[..], t)).collect());
    let enums = document.enums.iter().map(enumeration);
    let structs = document
        .structs
        .iter()
        .map(|s| structure(&types, &s.docs, &s.name, &s.fields));
    let exceptions = document.structs.iter().filter(|s| s.is_exception);
    let exceptions = exceptions.map(exception).collect::<Result<Vec<_>, _>>()?;
    let arguments = document.functions.iter().map(|f| {
        let docs = [format!("Arguments of `{}`.", f.name)];
        structure(&types, &docs, &camel(&f.name), &f.args)
    });
    let calls = calls(&document.functions);
    let replies = replies(&types, &document.functions);
    let handler = handler(&types, &document.functions);
    let client = client(&types, &document.functions);
    let module = quote! {
        /// Name of the service. Clients send it before the name of the method.
        pub const NAME: &str = #service;
        #(#enums)*
        #(#structs)*
        #(#exceptions)*
        #(#arguments)*
        #calls
        #replies
        #handler
        #client
    };
    let file = syn::parse2(module).map_err(|error| error.to_string())?;
    Ok(prettyplease::unparse(&file))
}

/// Converts types of an interface file to Rust types. The map contains the typedefs.
struct Types<'a>(BTreeMap<&'a str, &'a Type>);

impl Types<'_> {
    fn rust(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::List(element) => {
                let element = self.rust(element);
                quote!(Vec<#element>)
            }
            Type::Map(key, value) => {
                let (key, value) = (self.rust(key), self.rust(value));
                quote!(BTreeMap<#key, #value>)
            }
            Type::Named(name) => match (name.as_str(), self.0.get(name.as_str())) {
                (_, Some(ty)) => self.rust(ty),
                ("string", _) => quote!(String),
                ("binary", _) => quote!(Vec<u8>),
                ("double", _) => quote!(f64),
                (name, _) => {
                    let name = ident(name);
                    quote!(#name)
                }
            },
        }
    }

    fn returned(&self, function: &Function) -> TokenStream {
        let ty = function.returns.as_ref();
        ty.map_or_else(|| quote!(()), |ty| self.rust(ty))
    }

    fn field(&self, field: &Field) -> TokenStream {
        let ty = self.rust(&field.ty);
        match field.optional {
            true => quote!(Option<#ty>),
            false => ty,
        }
    }

    /// Returns whether a field is a string that is always present. Callers may pass a `&str` for it.
    fn is_string(&self, field: &Field) -> bool {
        self.field(field).to_string() == "String"
    }
}

/// Converts a name to camel case: `BMC_NODE` or `bmc_node` to `BmcNode`.
fn camel(name: &str) -> String {
    let mut out = String::new();
    for part in name.split('_') {
        let mut chars = part.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.extend(chars.map(|c| c.to_ascii_lowercase()));
    }
    out
}

/// Converts a name of a method, field or type to a Rust identifier.
fn ident(name: &str) -> Ident {
    match name {
        "type" => Ident::new_raw(name, Span::call_site()),
        _ => format_ident!("{name}"),
    }
}

/// Converts a constant's or method's name to the Rust identifier of a variant, or of the struct of the method's
/// arguments.
fn variant(name: &str) -> Ident {
    ident(&camel(name))
}

fn docs(docs: &[String]) -> TokenStream {
    let docs = docs.iter().map(|doc| format!(" {doc}"));
    quote!(#(#[doc = #docs])*)
}

fn enumeration(e: &Enum) -> TokenStream {
    let (name, text, docs) = (ident(&e.name), &e.name, docs(&e.docs));
    let variants: Vec<_> = e.values.iter().map(|(value, _)| variant(value)).collect();
    let texts: Vec<_> = e.values.iter().map(|(value, _)| value).collect();
    let numbers: Vec<_> = e
        .values
        .iter()
        .map(|&(_, n)| Literal::i32_unsuffixed(n))
        .collect();
    let first = (!variants.is_empty()).then(|| quote!(#[default]));
    let first = first.into_iter().chain(std::iter::repeat(quote!()));
    let first = first.take(variants.len());
    quote! {
        #docs
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(i32)]
        pub enum #name {
            #(#first #variants = #numbers,)*
        }
        impl #name {
            /// Returns the constant's name in the Thrift interface file.
            pub fn name(self) -> &'static str {
                match self {
                    #(#name::#variants => #texts,)*
                }
            }
        }
        impl Wire for #name {
            const TYPE: TType = TType::I32;
            fn read(p: &mut dyn TInputProtocol) -> Result<Self> {
                Ok(match p.read_i32()? {
                    #(#numbers => #name::#variants,)*
                    other => return Err(wire::no_such(#text, other)),
                })
            }
            fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {
                p.write_i32(*self as i32)
            }
        }
    }
}

fn structure(
    types: &Types<'_>,
    documentation: &[String],
    name: &str,
    fields: &[Field],
) -> TokenStream {
    let (text, name, docs) = (name, ident(name), docs(documentation));
    let declared = fields.iter().map(|f| {
        let (ident, ty) = (ident(&f.name), types.field(f));
        quote!(pub #ident: #ty)
    });
    let mutable = (!fields.is_empty()).then(|| quote!(mut));
    let reads = fields.iter().map(|f| {
        let (id, ty, ident) = (
            Literal::i16_unsuffixed(f.id),
            types.rust(&f.ty),
            ident(&f.name),
        );
        let read = match f.optional {
            true => quote!(Some(Wire::read(p)?)),
            false => quote!(Wire::read(p)?),
        };
        quote!((#id, ty) if ty == <#ty as Wire>::TYPE => value.#ident = #read)
    });
    let writes = fields.iter().map(|f| {
        let (id, name, ident) = (Literal::i16_unsuffixed(f.id), &f.name, ident(&f.name));
        match f.optional {
            true => quote! {
                if let Some(value) = &self.#ident {
                    wire::write_field(p, #name, #id, value)?;
                }
            },
            false => quote!(wire::write_field(p, #name, #id, &self.#ident)?;),
        }
    });
    quote! {
        #docs
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct #name {
            #(#declared,)*
        }
        impl Wire for #name {
            const TYPE: TType = TType::Struct;
            fn read(p: &mut dyn TInputProtocol) -> Result<Self> {
                let #mutable value = #name::default();
                wire::read_fields(p, |p, id, ty| {
                    match (id, ty) {
                        #(#reads,)*
                        (_, ty) => p.skip(ty)?,
                    }
                    Ok(())
                })?;
                Ok(value)
            }
            fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {
                p.write_struct_begin(&TStructIdentifier::new(#text))?;
                #(#writes)*
                p.write_field_stop()?;
                p.write_struct_end()
            }
        }
    }
}

fn exception(s: &Struct) -> Result<TokenStream, String> {
    let name = ident(&s.name);
    let code = match &s.fields[..] {
        [Field {
            name,
            ty: Type::Named(ty),
            ..
        }] if name == "code" => ident(ty),
        _ => return Err(format!("exception {name}: expected one field, `code`")),
    };
    Ok(quote! {
        impl std::fmt::Display for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.code.name())
            }
        }
        impl std::error::Error for #name {}
        impl From<#code> for #name {
            fn from(code: #code) -> Self {
                #name { code }
            }
        }
    })
}

fn calls(functions: &[Function]) -> TokenStream {
    let names: Vec<_> = functions.iter().map(|f| &f.name).collect();
    let variants: Vec<_> = functions.iter().map(|f| variant(&f.name)).collect();
    let runs = functions.iter().map(|f| {
        let (method, variant) = (ident(&f.name), variant(&f.name));
        let fields: Vec<_> = f.args.iter().map(|a| ident(&a.name)).collect();
        quote! {
            Call::#variant(#variant { #(#fields),* }) => Reply::#variant(handler.#method(#(#fields),*))
        }
    });
    quote! {
        /// A call of one of the service's methods, with the arguments.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Call {
            #(#variants(#variants),)*
        }
        impl Call {
            /// Names of all methods of the service.
            pub const METHODS: &'static [&'static str] = &[#(#names),*];
            /// Decodes the arguments of a method; `None` for an unknown method.
            ///
            /// # Errors
            /// When the arguments are malformed, or the transport fails.
            pub fn read(method: &str, p: &mut dyn TInputProtocol) -> Result<Option<Call>> {
                Ok(Some(match method {
                    #(#names => Call::#variants(Wire::read(p)?),)*
                    _ => return Ok(None),
                }))
            }
            /// Executes the call: passes the arguments to the handler's method, and returns its result.
            pub fn run(self, handler: &mut (impl Handler + ?Sized)) -> Reply {
                match self {
                    #(#runs,)*
                }
            }
        }
    }
}

fn replies(types: &Types<'_>, functions: &[Function]) -> TokenStream {
    let variants: Vec<_> = functions.iter().map(|f| variant(&f.name)).collect();
    let results = functions.iter().map(|f| result(types, f));
    let writes = functions.iter().map(|f| match f.throws.is_empty() {
        true => quote!(wire::write_result(p, Some(value), None::<&()>)),
        false => quote!(wire::write_result(
            p,
            value.as_ref().ok(),
            value.as_ref().err()
        )),
    });
    quote! {
        /// The result of a call of one of the service's methods.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Reply {
            #(#variants(#results),)*
        }
        impl Reply {
            /// Encodes the result of the call.
            ///
            /// # Errors
            /// When the transport fails.
            pub fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {
                match self {
                    #(Reply::#variants(value) => #writes,)*
                }
            }
        }
    }
}

/// Returns the Rust type of the result of a method in the handler trait.
fn result(types: &Types<'_>, f: &Function) -> TokenStream {
    let ok = types.returned(f);
    match f.throws.first() {
        Some(error) => {
            let error = types.rust(&error.ty);
            quote!(std::result::Result<#ok, #error>)
        }
        None => ok,
    }
}

/// Generates the trait that a server implements: one for all methods, or one per part of the service and one that
/// combines them.
fn handler(types: &Types<'_>, functions: &[Function]) -> TokenStream {
    let parts: Vec<&[Function]> = functions.chunk_by(|a, b| a.part == b.part).collect();
    let names = parts
        .iter()
        .map(|part| part[0].part.as_deref().unwrap_or("Handler"));
    let names: Vec<_> = names.map(ident).collect();
    let traits = parts.iter().zip(&names).map(|(part, name)| {
        let methods = part.iter().map(|f| {
            let (docs, method, result) = (docs(&f.docs), ident(&f.name), result(types, f));
            let args = f.args.iter().map(|a| {
                let (name, ty) = (ident(&a.name), types.field(a));
                quote!(#name: #ty)
            });
            quote!(#docs fn #method(&mut self #(, #args)*) -> #result;)
        });
        quote! {
            /// Methods of the service, or of a part of it. A server implements the trait.
            pub trait #name {
                #(#methods)*
            }
        }
    });
    let is_one_trait = matches!(&names[..], [name] if name == "Handler");
    let combined = (!is_one_trait).then(|| {
        quote! {
            /// All methods of the service. A server implements the traits of which it consists.
            pub trait Handler: #(#names)+* {}
            impl<T: #(#names)+*> Handler for T {}
        }
    });
    quote!(#(#traits)* #combined)
}

fn client(types: &Types<'_>, functions: &[Function]) -> TokenStream {
    let methods = functions.iter().map(|f| {
        let (name, method, call) = (&f.name, ident(&f.name), variant(&f.name));
        let separated = match f.docs.is_empty() {
            true => quote!(),
            false => quote!(#[doc = ""]),
        };
        let docs = docs(&f.docs);
        let returned = types.returned(f);
        let error = match f.throws.first() {
            Some(error) => types.rust(&error.ty),
            None => quote!(Infallible),
        };
        let params = f.args.iter().map(|a| {
            let name = ident(&a.name);
            let ty = match types.is_string(a) {
                true => quote!(impl Into<String>),
                false => types.field(a),
            };
            quote!(#name: #ty)
        });
        let fields = f.args.iter().map(|a| {
            let name = ident(&a.name);
            match types.is_string(a) {
                true => quote!(#name: #name.into()),
                false => quote!(#name),
            }
        });
        quote! {
            #docs
            #separated
            /// # Errors
            /// When the server rejects the request, or the connection fails.
            pub fn #method(&mut self #(, #params)*) -> std::result::Result<#returned, Failure<#error>> {
                let args = #call { #(#fields),* };
                self.0.call(NAME, #name, &args)
            }
        }
    });
    quote! {
        /// Client of the service: calls the methods of a server, one at a time.
        pub struct Client<'a>(pub(crate) &'a mut Connection);
        impl Client<'_> {
            #(#methods)*
        }
    }
}
