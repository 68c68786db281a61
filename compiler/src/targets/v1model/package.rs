//! The architecture v1model: the blocks of a `V1Switch`.

use std::rc::Rc;

use crate::arch::Arch;
use crate::diag::{Code, Diagnostic};
use crate::ir::{FieldPlace, FieldRef, Header, HeaderPlace, HeaderType};
use crate::passes::annotations;
use crate::passes::builder::data::Place;
use crate::passes::builder::layout::scalar_field;
use crate::passes::elaborate::frame::{Binding, ControlInstance, ExternObject, Instance};
use crate::passes::elaborate::Elaborator;
use crate::passes::externs::call::Region;
use crate::passes::inlined::BlockCode;
use crate::sema::{Callee, Type};
use crate::syntax::ast::Instantiation;
use crate::targets::v1model::STANDARD_METADATA;

/// The target's names for fields of `standard_metadata`: pairs of an alias and the field.
const ALIASES: [(&str, &str); 12] = [
    ("queueing_metadata.enq_timestamp", "enq_timestamp"),
    ("queueing_metadata.enq_qdepth", "enq_qdepth"),
    ("queueing_metadata.deq_timedelta", "deq_timedelta"),
    ("queueing_metadata.deq_qdepth", "deq_qdepth"),
    (
        "intrinsic_metadata.ingress_global_timestamp",
        "ingress_global_timestamp",
    ),
    (
        "intrinsic_metadata.egress_global_timestamp",
        "egress_global_timestamp",
    ),
    ("intrinsic_metadata.lf_field_list", "lf_field_list"),
    ("intrinsic_metadata.mcast_grp", "mcast_grp"),
    ("intrinsic_metadata.resubmit_flag", "resubmit_flag"),
    ("intrinsic_metadata.egress_rid", "egress_rid"),
    ("intrinsic_metadata.recirculate_flag", "recirculate_flag"),
    ("intrinsic_metadata.priority", "priority"),
];

impl Elaborator<'_> {
    /// Elaborates the blocks of `main`, which must be a V1Switch.
    pub fn v1model(&mut self, main: &Rc<Instantiation>) {
        if let Some(blocks) = self.v1switch(main) {
            self.v1model_blocks(main, blocks);
        }
    }

    /// The six arguments of `V1Switch`, in the order of its parameters. `None` after a reported error.
    fn v1switch(&mut self, main: &Rc<Instantiation>) -> Option<Vec<Instance>> {
        let checked = self.checked;
        let call = checked.call(main.call)?;
        let Callee::PackageConstructor(package) = call.callee else {
            return None;
        };
        let name = checked.name(package);
        if &*name != "V1Switch" || call.args.len() != 6 {
            let what = Diagnostic::error(
                Code::TARGET,
                main.span,
                format!("main is a {name}, but this target runs only a V1Switch"),
            )
            .help("include v1model.p4 and end the program with V1Switch(...) main;");
            let what = match Arch::of_package(&name) {
                Some(arch) => what.note(format!(
                    "{name} is a package of {0}: use --arch {0}",
                    arch.name()
                )),
                None => what,
            };
            self.diagnostics.report(what);
            return None;
        }
        self.package_arguments(call, &main.args)?
            .into_iter()
            .collect()
    }

    /// Elaborates the parser and the five controls of a `V1Switch`.
    fn v1model_blocks(&mut self, main: &Rc<Instantiation>, blocks: Vec<Instance>) {
        let [Instance::Parser(parser), Instance::Control(verify), Instance::Control(ingress), Instance::Control(egress), Instance::Control(compute), Instance::Control(deparser)] =
            &blocks[..]
        else {
            self.target(
                main.span,
                "the arguments of V1Switch must be a parser and five controls",
            );
            return;
        };
        let params = &parser.decl.params;
        if params.len() != 4 {
            self.target(
                parser.decl.span,
                "the parser of a V1Switch must have four parameters",
            );
            return;
        }
        let types: Vec<Type> = params
            .iter()
            .map(|param| self.checked.type_ref(&param.ty).clone())
            .collect();
        if !matches!(types[1], Type::Struct(_)) {
            let span = params[1].span;
            self.target(
                span,
                format!(
                    "the headers of a V1Switch must be a struct, not {}",
                    types[1]
                ),
            );
            return;
        }
        let standard = self.standard_metadata(&types[3]);
        let headers = self.top_level_headers(&types[1]);
        let meta = self.allocate(&types[2], "userMetadata");
        self.collect_field_lists(&types[2], &meta);

        let packet_in = Binding::Instance(Instance::Extern(ExternObject::PacketIn));
        let packet_out = Binding::Instance(Instance::Extern(ExternObject::PacketOut));
        let (headers, meta, standard) = (
            Binding::Place(headers),
            Binding::Place(meta),
            Binding::Place(standard),
        );

        self.program.aliases = self.standard_aliases();
        self.parser_block(
            parser,
            "parser",
            vec![packet_in, headers.clone(), meta.clone(), standard.clone()],
        );
        self.checksum_block(verify, Region::Verify, vec![headers.clone(), meta.clone()]);
        let three = vec![headers.clone(), meta.clone(), standard];
        self.control_block(ingress, Region::Ingress, "ingress", three.clone());
        self.control_block(egress, Region::Egress, "egress", three);
        self.checksum_block(compute, Region::Compute, vec![headers.clone(), meta]);
        self.deparser_block(deparser, "deparser", vec![packet_out, headers]);
        self.list_objects(&blocks);
    }

    /// Creates `standard_metadata`, which is header 1.
    fn standard_metadata(&mut self, ty: &Type) -> Place {
        let name = "standard_metadata";
        let fields = self.checked.fields(ty);
        let mut layout = HeaderType {
            name: name.to_owned(),
            fields: Vec::new(),
        };
        let mut members = Vec::new();
        let header = STANDARD_METADATA;
        for (field, ty) in &fields {
            let Some(scalar) = self.scalar(ty) else {
                continue;
            };
            let position = layout.fields.len() as u32;
            layout
                .fields
                .push(scalar_field(field.name.name.to_string(), scalar));
            let place = FieldPlace {
                header: HeaderPlace::Fixed(header),
                field: position,
            };
            members.push((Rc::clone(&field.name.name), Place::Scalar(place, scalar)));
        }
        let ty = self.add_header_type(layout);
        self.program.storage.headers.push(Header {
            name: name.to_owned(),
            ty,
            metadata: true,
        });
        self.into.names.insert(name.to_owned());
        Place::Struct(members.into())
    }

    /// Elaborates a control that verifies or updates checksums.
    fn checksum_block(
        &mut self,
        instance: &Rc<ControlInstance>,
        region: Region,
        arguments: Vec<Binding>,
    ) {
        self.region = region;
        let body = self.block(|this| this.apply_top(instance, arguments));
        let name = match region {
            Region::Verify => "verify_checksum",
            _ => "compute_checksum",
        };
        self.add_block(name, instance.decl.name.span, BlockCode::Checksums(body));
    }

    /// The aliases of those fields that the program's version of `standard_metadata` has.
    fn standard_aliases(&self) -> Vec<(String, FieldRef)> {
        let header = STANDARD_METADATA;
        let ty = self.program.storage.header_type(header);
        let known = ALIASES.iter().filter_map(|(alias, field)| {
            let field = ty.position(field)?;
            Some(((*alias).to_owned(), FieldRef { header, field }))
        });
        known.collect()
    }

    /// Collects the fields of the user metadata with `@field_list`, by the number of the list.
    fn collect_field_lists(&mut self, ty: &Type, place: &Place) {
        let Place::Struct(members) = place else {
            return;
        };
        let checked = self.checked;
        for ((field, field_ty), (_, member)) in checked.fields(ty).iter().zip(members.iter()) {
            for annotation in field
                .annotations
                .iter()
                .filter(|a| &*a.name.name == "field_list")
            {
                let Some(exprs) = annotation.exprs() else {
                    self.error(
                        Code::ANNOTATION_RULE,
                        annotation.span,
                        "the arguments of @field_list must be numbers",
                    );
                    continue;
                };
                for expr in exprs {
                    match annotations::number(self.checked, expr) {
                        Some(list) => {
                            let lists = &mut self.into.externs.field_lists;
                            lists.entry(list).or_default().extend(member.variables());
                        }
                        None => {
                            self.error(
                                Code::ANNOTATION_RULE,
                                expr.span,
                                "a field list must be a constant number below 2^32",
                            );
                        }
                    }
                }
            }
            self.collect_field_lists(field_ty, member);
        }
    }
}
