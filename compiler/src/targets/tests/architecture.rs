//! The architecture of the tests: all of it is in this file, and its header in `two_pipes.p4`.

use std::rc::Rc;

use alfirk_bmv2_json::BmV2Json;

use crate::bmv2;
use crate::diag::{Code, Span};
use crate::ir::{
    CounterUnit, Effect, Expr, FlatProgram, MatchKind, Primitive, Register, RegisterId, Scalar,
    TableId,
};
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::{ops, Builder};
use crate::passes::deparsers::DeparserForm;
use crate::passes::elaborate::frame::{Binding, ExternObject, Instance};
use crate::passes::elaborate::Elaborator;
use crate::passes::externs::call::{Call, Callee, DeclaredObject, Region};
use crate::passes::externs::{number, value, LoweredObject, Lowering};
use crate::sema::{Callee as Checked, Type};
use crate::syntax::ast::{BinaryOp, Instantiation};
use crate::targets::{KeyUse, PropertyValue, TableProperty, Target};

/// Two pipelines of parser, control and deparser.
#[derive(Debug)]
pub struct TwoPipes;

pub static TWO_PIPES: TwoPipes = TwoPipes;

/// Width of a cell of a `Tally` in bits.
const CELL: Scalar = Scalar::Bit(32);

/// The names of a pipeline's blocks, and its region.
struct Names {
    prefix: &'static str,
    parser: &'static str,
    control: &'static str,
    deparser: &'static str,
    region: Region,
}

const PIPES: [Names; 2] = [
    Names {
        prefix: "ingress",
        parser: "ingress_parser",
        control: "ingress",
        deparser: "ingress_deparser",
        region: Region::Ingress,
    },
    Names {
        prefix: "egress",
        parser: "egress_parser",
        control: "egress",
        deparser: "egress_deparser",
        region: Region::Egress,
    },
];

impl Target for TwoPipes {
    fn name(&self) -> &'static str {
        "two_pipes"
    }

    fn target_names(&self) -> &'static [&'static str] {
        &["two_pipes"]
    }

    fn packages(&self) -> &'static [&'static str] {
        &["TwoPipes"]
    }

    fn table_properties(&self) -> &'static [TableProperty] {
        &[
            TableProperty {
                name: "size",
                value: PropertyValue::Size,
            },
            TableProperty {
                name: "direct_tally",
                value: PropertyValue::Object,
            },
        ]
    }

    fn object_properties(&self) -> &'static [&'static str] {
        &["direct_tally"]
    }

    fn variables_header(&self) -> (&'static str, &'static str) {
        ("variables_t", "variables")
    }

    fn elaborate(&self, elaborator: &mut Elaborator<'_>, main: &Rc<Instantiation>) {
        elaborator.two_pipes(main);
    }

    fn key_use(&self, match_kind: &str) -> Option<KeyUse> {
        match match_kind {
            "exact" => Some(KeyUse::Match(MatchKind::Exact)),
            "prefix" => Some(KeyUse::Match(MatchKind::Lpm)),
            _ => None,
        }
    }

    fn packet_length(&self, build: &mut Builder<'_>, span: Span) -> Data {
        build
            .target(span, "the length of a packet is unknown")
            .into()
    }

    fn control_kind(&self, extern_type: &str) -> Option<&'static str> {
        match extern_type {
            "Tally" => Some("register"),
            "DirectTally" => Some("direct counter"),
            _ => None,
        }
    }

    fn calls_have_results(&self) -> bool {
        true
    }

    fn lower_object(&self, lowering: &mut Lowering<'_>, declared: DeclaredObject) -> LoweredObject {
        let meta = declared.meta.unwrap_or_default();
        if &*declared.ty == "DirectTally" {
            return lowering.add_counter(meta, 0, CounterUnit::Packets, 32, true);
        }
        let size = number(&declared.args, "size").and_then(|size| u64::try_from(size).ok());
        let type_spec = lowering.type_spec(&Type::Bit(CELL.width()));
        let id = RegisterId::from(lowering.program.registers.len());
        lowering.program.registers.push(Register {
            meta,
            size: size.unwrap_or(1),
            index_type: None,
            ty: CELL,
            initial: Default::default(),
            type_spec,
            hidden: false,
            role: Default::default(),
        });
        LoweredObject::Register(id)
    }

    fn lower_call(&self, lowering: &mut Lowering<'_>, call: &mut Call) -> Data {
        let Callee::Method(id, _) = call.callee else {
            let message = "the architecture has no extern functions";
            return lowering.target(call.span, message).into();
        };
        let (LoweredObject::Register(register), Some(index)) =
            (lowering.lowered_object(id), value(&call.args, 0))
        else {
            return lowering.no_data(call.span, "only a Tally has methods");
        };
        let index = lowering.save_value(index, call.span, &call.scope);
        let target = lowering.temporary(&call.scope, "tally", CELL);
        let read = Primitive::RegisterRead {
            target,
            register,
            index: index.clone(),
        };
        lowering.emit(call.span, Effect::Primitive(read));
        let next = ops::binary(BinaryOp::Add, Expr::field(target, CELL), Expr::bits(1, 32));
        let next = lowering.save_value(next, call.span, &call.scope);
        let write = Primitive::RegisterWrite {
            register,
            index,
            value: next.clone(),
        };
        lowering.emit(call.span, Effect::Primitive(write));
        Data::Scalar(next)
    }

    fn attach(
        &self,
        lowering: &mut Lowering<'_>,
        table: TableId,
        _property: &str,
        object: Option<LoweredObject>,
        span: Span,
    ) -> bool {
        match object {
            Some(LoweredObject::DirectCounter(id)) => {
                lowering.program.tables[table.index()].counter = Some(id);
                lowering.program.counters[id.index()].table = Some(table);
            }
            _ => {
                lowering.target(span, "direct_tally must be a DirectTally");
            }
        }
        true
    }

    fn continues_after_reject(&self) -> bool {
        false
    }

    fn deparser_form(&self) -> DeparserForm {
        DeparserForm::Statements
    }

    fn emit(&self, program: &FlatProgram) -> BmV2Json {
        bmv2::emit(program, Some(self.name()))
    }
}

impl Elaborator<'_> {
    /// Elaborates the blocks of a `TwoPipes`.
    fn two_pipes(&mut self, main: &Rc<Instantiation>) {
        let checked = self.checked;
        let call = checked.call(main.call);
        let Some(call) = call.filter(|call| match call.callee {
            Checked::PackageConstructor(id) => &*checked.name(id) == "TwoPipes",
            _ => false,
        }) else {
            self.error(Code::TARGET, main.span, "main must be a TwoPipes");
            return;
        };
        let Some(blocks) = self.package_arguments(call, &main.args) else {
            return;
        };
        let blocks: Vec<Instance> = blocks.into_iter().flatten().collect();
        for (blocks, names) in blocks.chunks(3).zip(PIPES) {
            self.pipe(blocks, &names);
        }
        self.list_objects(&blocks);
    }

    /// Elaborates the parser, control and deparser of a pipeline.
    fn pipe(&mut self, blocks: &[Instance], names: &Names) {
        let [Instance::Parser(parser), Instance::Control(control), Instance::Control(deparser)] =
            blocks
        else {
            return;
        };
        let checked = self.checked;
        let ty = |position: usize| checked.type_ref(&parser.decl.params[position].ty);
        let output = checked.type_ref(&control.decl.params[3].ty);
        let headers = self.allocate(ty(1), &format!("{}_headers", names.prefix));
        let metadata = self.allocate(ty(2), &format!("{}_metadata", names.prefix));
        let input = self.intrinsic(ty(3), &format!("{}_input", names.prefix));
        let output = self.intrinsic(output, &format!("{}_output", names.prefix));
        let [headers, metadata, input, output] =
            [headers, metadata, input, output].map(Binding::Place);
        let packet = |object| Binding::Instance(Instance::Extern(object));
        self.parser_block(
            parser,
            names.parser,
            vec![
                packet(ExternObject::PacketIn),
                headers.clone(),
                metadata.clone(),
                input.clone(),
            ],
        );
        self.control_block(
            control,
            names.region,
            names.control,
            vec![headers.clone(), metadata.clone(), input, output.clone()],
        );
        self.deparser_block(
            deparser,
            names.deparser,
            vec![packet(ExternObject::PacketOut), headers, metadata, output],
        );
    }

    /// Creates intrinsic metadata, with an alias for each field by which the switch finds the field.
    fn intrinsic(&mut self, ty: &Type, name: &str) -> Place {
        let place = self.allocate(ty, name);
        if let Place::Struct(members) = &place {
            for (field, member) in members.iter() {
                let alias = format!("{name}.{field}");
                let fields = member.variables();
                let aliases = fields.into_iter().map(|place| (alias.clone(), place));
                self.program.aliases.extend(aliases);
            }
        }
        place
    }
}
