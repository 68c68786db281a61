//! The Tofino Native Architecture: the blocks of a `Switch`, for the software model.
//!
//! A pipe has two gresses, ingress and egress. Each has a parser, a control and a deparser, and its own headers and metadata. So data of
//! ingress reaches egress only as bytes in front of the packet. In the output, each gress has a parser, two pipelines and a deparser. The
//! second pipeline has the statements of the deparser that do not emit headers. The model finds intrinsic metadata by aliases, such as
//! `ingress_intrinsic_metadata_for_tm.ucast_egress_port`.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{FieldRef, HeaderPlace, PortMetadata};
use crate::passes::builder::data::Place;
use crate::passes::elaborate::frame::{
    Binding, ControlInstance, ExternObject, Instance, ParserInstance,
};
use crate::passes::elaborate::Elaborator;
use crate::passes::externs::call::Region;
use crate::sema::{CallInfo, Callee, DefKind, Resolution, Type};
use crate::syntax::ast::{Arg, Expr, ExprKind, Instantiation, Param};

/// Name of a pipe whose `Pipeline` has no name, as in bf-p4c.
const DEFAULT_PIPE: &str = "pipe";
/// Name of the type of the intrinsic metadata of ingress.
const INGRESS_METADATA: &str = "ingress_intrinsic_metadata_t";

/// The target's names for the blocks of a gress (ingress or egress).
struct Names {
    /// `ingress` or `egress`, the prefix of names of headers and metadata.
    prefix: &'static str,
    parser: &'static str,
    control: &'static str,
    deparser: &'static str,
}

const GRESSES: [Names; 2] = [
    Names {
        prefix: "ingress",
        parser: "ingress_parser",
        control: "ingress",
        deparser: "ingress_deparser",
    },
    Names {
        prefix: "egress",
        parser: "egress_parser",
        control: "egress",
        deparser: "egress_deparser",
    },
];

/// Bindings of the parameters that the blocks of a gress (ingress or egress) share.
struct Gress {
    headers: Binding,
    /// The user metadata.
    metadata: Binding,
    /// Intrinsic metadata, by the name of its type.
    intrinsic: BTreeMap<String, Place>,
}

impl<'a> Elaborator<'a> {
    /// Elaborates the blocks of `main`, which must be a `Switch`. If it has several pipelines, the option `--pipe` selects one.
    pub fn tofino(&mut self, main: &Rc<Instantiation>) {
        self.options.arch.check(self.checked, self.diagnostics);
        if self.diagnostics.has_errors() {
            return;
        }
        let Some((blocks, span)) = self.pipeline(main) else {
            return;
        };
        let blocks: Vec<Instance> = blocks.into_iter().flatten().collect();
        let [Instance::Parser(ingress_parser), Instance::Control(ingress), Instance::Control(ingress_deparser), Instance::Parser(egress_parser), Instance::Control(egress), Instance::Control(egress_deparser)] =
            &blocks[..]
        else {
            self.beyond_model(
                span,
                "the software model runs a Pipeline of two parsers and four controls, without a ghost",
            );
            return;
        };
        self.program.port_metadata = Some(self.port_metadata(ingress_parser));
        self.gress(&GRESSES[0], ingress_parser, ingress, ingress_deparser);
        self.gress(&GRESSES[1], egress_parser, egress, egress_deparser);
        self.list_objects(&blocks);
    }

    /// The blocks of the selected or only pipeline, and its source position. `None` after a reported error.
    fn pipeline(&mut self, main: &Rc<Instantiation>) -> Option<(Vec<Option<Instance>>, Span)> {
        let checked = self.checked;
        let pipes = main.args.len();
        let chosen = match self.options.pipe {
            Some(pipe) if pipe < pipes => pipe,
            Some(pipe) => {
                let last = pipes.saturating_sub(1);
                let what =
                    format!("--pipe {pipe}: unknown pipe; the last one of this Switch is {last}");
                self.diagnostics
                    .report(Diagnostic::error(Code::TARGET, main.span, what));
                return None;
            }
            None if pipes > 1 => {
                let last = pipes - 1;
                self.beyond_model(
                    main.span,
                    format!("the software model runs one pipeline for all ports of a switch: compile each by `--pipe 0` to `--pipe {last}`, and run a switch for each"),
                );
                return None;
            }
            None => 0,
        };
        let call = checked.call(main.call)?;
        if let Callee::PackageConstructor(id) = call.callee {
            if &*checked.name(id) == "MultiParserSwitch" {
                self.beyond_model(
                    main.span,
                    "the software model runs a Switch, not a MultiParserSwitch: all ports have the same parser",
                );
                return None;
            }
        }
        let pipe = &main.args.get(chosen)?.value;
        self.program.pipe = match &pipe.kind {
            ExprKind::Name(name) => name.name.to_string(),
            _ => DEFAULT_PIPE.to_owned(),
        };
        let (info, args, span) = self.package_of(pipe)?;
        let blocks = self.package_arguments(info, args)?;
        Some((blocks, span))
    }

    /// The package that an expression names or constructs: its constructor call, the arguments and the source position. `None` for other
    /// expressions.
    fn package_of<'e>(&self, expr: &'e Expr) -> Option<(&'a CallInfo, &'e [Arg], Span)>
    where
        'a: 'e,
    {
        let checked = self.checked;
        match &expr.kind {
            ExprKind::Name(_) => {
                let Resolution::Decl(id) = checked.resolution(expr) else {
                    return None;
                };
                match &checked.def(id).kind {
                    DefKind::Instance(decl) => {
                        Some((checked.call(decl.call)?, &decl.args, decl.span))
                    }
                    _ => None,
                }
            }
            ExprKind::Call(call) => Some((checked.call(expr.id)?, &call.args, expr.span)),
            _ => None,
        }
    }

    /// The table with metadata of the ports, of a program with this ingress parser.
    fn port_metadata(&self, parser: &ParserInstance) -> PortMetadata {
        let params = parser.decl.params.iter();
        let intrinsic = params.filter(|param| {
            let nominal = self.checked.type_ref(&param.ty).nominal();
            nominal.is_some_and(|nominal| &*nominal.name == INGRESS_METADATA)
        });
        let names: Vec<String> = intrinsic.map(|param| param.name.to_string()).collect();
        PortMetadata {
            parser: parser.name.clone(),
            intrinsic: names.into_iter().next().unwrap_or_default(),
            type_spec: None,
        }
    }

    /// Elaborates the parser, control and deparser of a gress (ingress or egress).
    fn gress(
        &mut self,
        names: &Names,
        parser: &Rc<ParserInstance>,
        control: &Rc<ControlInstance>,
        deparser: &Rc<ControlInstance>,
    ) {
        let own = |this: &Self, position: usize| {
            let param = parser.decl.params.get(position)?;
            let ty = this.checked.type_ref(&param.ty);
            Some(ty.substitute(&parser.substitution))
        };
        let (Some(headers), Some(metadata)) = (own(self, 1), own(self, 2)) else {
            let span = parser.decl.span;
            self.target(
                span,
                "a parser must have parameters for packet, headers and metadata",
            );
            return;
        };
        let headers = self.allocate(&headers, &format!("{}_hdr", names.prefix));
        let metadata = self.allocate(&metadata, &format!("{}_md", names.prefix));
        let mut gress = Gress {
            headers: Binding::Place(headers),
            metadata: Binding::Place(metadata),
            intrinsic: BTreeMap::new(),
        };
        let of_parser = self.blocks_parameters(&mut gress, &parser.decl.params, 1);
        self.parser_block(parser, names.parser, of_parser);
        let of_control = self.blocks_parameters(&mut gress, &control.decl.params, 0);
        let region = match names.prefix {
            "ingress" => Region::Ingress,
            _ => Region::Egress,
        };
        self.control_block(control, region, names.control, of_control);
        let of_deparser = self.blocks_parameters(&mut gress, &deparser.decl.params, 1);
        self.deparser_block(deparser, names.deparser, of_deparser);
    }

    /// The bindings of a block's parameters. The headers are at position `first`, and the user metadata after them. Other parameters are the
    /// packet and intrinsic metadata, recognised by their types.
    fn blocks_parameters(
        &mut self,
        gress: &mut Gress,
        params: &[Rc<Param>],
        first: usize,
    ) -> Vec<Binding> {
        let checked = self.checked;
        let mut bindings = Vec::new();
        for (position, param) in params.iter().enumerate() {
            let ty = checked.type_ref(&param.ty).clone();
            bindings.push(match &ty {
                Type::Extern(_) => {
                    let name = ty.nominal().map(|nominal| nominal.name.to_string());
                    let packet = match name.as_deref() {
                        Some("packet_out") => ExternObject::PacketOut,
                        _ => ExternObject::PacketIn,
                    };
                    Binding::Instance(Instance::Extern(packet))
                }
                _ if position == first => gress.headers.clone(),
                _ if position == first + 1 => gress.metadata.clone(),
                _ => Binding::Place(self.intrinsic_metadata(gress, &ty)),
            });
        }
        bindings
    }

    /// The storage of a gress (ingress or egress) for intrinsic metadata of the type `ty`. It is created on first use,
    /// with an alias for each field.
    fn intrinsic_metadata(&mut self, gress: &mut Gress, ty: &Type) -> Place {
        let Some(nominal) = ty.nominal() else {
            return self.no_place(None, "intrinsic metadata has a type without a name");
        };
        let name = nominal.name.to_string();
        if let Some(known) = gress.intrinsic.get(&name) {
            return known.clone();
        }
        let stem = name.strip_suffix("_t").unwrap_or(&name).to_owned();
        let place = self.allocate(ty, &stem);
        for (position, (field, _)) in (0..).zip(self.parts(ty).iter()) {
            let place = match &place {
                Place::Header(HeaderPlace::Fixed(header)) => Some(FieldRef {
                    header: *header,
                    field: position,
                }),
                Place::Struct(members) => match members.get(position as usize) {
                    Some((_, Place::Scalar(place, _))) => place.fixed(),
                    _ => None,
                },
                _ => None,
            };
            if let Some(place) = place {
                self.program
                    .aliases
                    .push((format!("{stem}.{field}"), place));
            }
        }
        gress.intrinsic.insert(name, place.clone());
        place
    }
}
