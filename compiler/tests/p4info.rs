//! Tests of the P4Info of programs. The expected ids, names, orders and bytes are those of p4c for the same programs.

use std::path::PathBuf;

use alfirk_compiler::driver::{compile_with, CompileOptions, Session};
use alfirk_compiler::p4info;
use alfirk_compiler::preproc::MemoryLoader;
use alfirk_p4runtime::p4::config::v1::{
    action_profile::SelectorSizeSemantics, p4_data_type_spec::TypeSpec,
    p4_new_type_spec::Representation, p4_new_type_translation::SdnType, P4Info, Preamble,
};
use alfirk_p4runtime::p4::v1::{entity::Entity, TableEntry};

/// A program with the parts that a test sets.
#[derive(Default)]
struct Source<'s> {
    /// Declarations of the top level.
    top: &'s str,
    /// Members of the metadata.
    meta: &'s str,
    /// Annotations of the ingress control.
    annotations: &'s str,
    /// Declarations of the ingress control.
    locals: &'s str,
    /// Statements of the ingress control.
    apply: &'s str,
    /// Annotations of `main`.
    main: &'s str,
}

impl Source<'_> {
    /// The text of the program.
    fn text(&self) -> String {
        let Source {
            top,
            meta,
            annotations,
            locals,
            apply,
            main,
        } = self;
        format!(
            "#include <core.p4>
#include <v1model.p4>
header data_t {{ bit<32> a; bit<16> b; }}
struct headers_t {{ data_t data; }}
{top}
struct meta_t {{ bit<8> x; {meta} }}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    state start {{ packet.extract(hdr.data); transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
{annotations} control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {apply} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.data); }} }}
{main} V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        )
    }

    fn loader(&self) -> MemoryLoader {
        let mut loader = MemoryLoader::default();
        loader.add("test.p4", self.text());
        loader
    }

    /// The P4Info of the program.
    fn info(&self) -> P4Info {
        let options = CompileOptions::new(PathBuf::from("test.p4"));
        let compiled = compile_with(&options, &self.loader());
        compiled.unwrap_or_else(|error| panic!("{error}")).p4info
    }

    /// The program's table entries as P4Runtime entities.
    fn entries(&self) -> Vec<TableEntry> {
        let mut session = Session::new(CompileOptions::new("test.p4"));
        let program = session.elaborated(&self.loader()).expect("it is in memory");
        let program = program.unwrap_or_else(|_| panic!("{}", session.rendered()));
        p4info::entries(&program.objects)
            .updates
            .into_iter()
            .filter_map(|update| match update.entity?.entity? {
                Entity::TableEntry(entry) => Some(entry),
                _ => None,
            })
            .collect()
    }
}

fn preamble(preamble: &Option<Preamble>) -> &Preamble {
    preamble.as_ref().expect("every object has one")
}

fn names<'p>(preambles: impl Iterator<Item = &'p Option<Preamble>>) -> Vec<&'p str> {
    preambles
        .map(|found| preamble(found).name.as_str())
        .collect()
}

/// Names of all actions.
fn actions(info: &P4Info) -> Vec<&str> {
    names(info.actions.iter().map(|action| &action.preamble))
}

/// Names of all tables.
fn tables(info: &P4Info) -> Vec<&str> {
    names(info.tables.iter().map(|table| &table.preamble))
}

const ONE_TABLE: Source = Source {
    top: "",
    meta: "",
    annotations: "",
    locals: "table t { key = { hdr.data.a: exact; } actions = { NoAction; } }",
    apply: "t.apply();",
    main: "",
};

#[test]
fn controller_header_id_is_from_its_type_and_name_from_its_annotation() {
    let info = Source {
        top: "@controller_header(\"packet_in\") header packet_in_t { bit<16> port; }
@controller_header(\"packet_out\") @name(\"out\") header packet_out_t { @name(\"egress\") bit<16> port; @hidden bit<8> pad; bit<8> more; }
@controller_header(\"third\") @hidden header third_t { bit<8> x; }",
        ..ONE_TABLE
    }
    .info();
    let found: Vec<_> = info
        .controller_packet_metadata
        .iter()
        .map(|header| {
            let preamble = preamble(&header.preamble);
            (preamble.id, &*preamble.name, &*preamble.alias)
        })
        .collect();
    assert_eq!(
        found,
        [
            (80671331, "packet_in", "packet_in"),
            (67534480, "packet_out", "packet_out")
        ]
    );
    let fields: Vec<_> = info.controller_packet_metadata[1]
        .metadata
        .iter()
        .map(|field| (field.id, &*field.name))
        .collect();
    assert_eq!(fields, [(1, "egress"), (3, "more")]);
}

#[test]
fn name_annotation_of_a_control_type_is_ignored() {
    let info = Source {
        annotations: "@name(\"other\")",
        ..ONE_TABLE
    }
    .info();
    assert_eq!(tables(&info), ["I.t"]);
}

#[test]
fn name_annotation_renames_action_parameters() {
    let info = Source {
        locals: "action a(@name(\"orange\") bit<8> red, @name(\".blue\") bit<8> green) { meta.x = red + green; }
table t { actions = { a; NoAction; } }",
        ..ONE_TABLE
    }
    .info();
    let action = info.actions.last().expect("there is one");
    let params: Vec<_> = action.params.iter().map(|param| &*param.name).collect();
    assert_eq!(params, ["orange", "blue"]);
}

#[test]
fn hidden_registers_are_listed_and_hidden_tables_and_actions_are_not() {
    let info = Source {
        locals: "@hidden register<bit<8>>(4) r;
@hidden action unseen() { }
@hidden table dark { actions = { unseen; } }
table t { actions = { unseen; NoAction; } }",
        apply: "dark.apply(); t.apply(); r.write(0, meta.x);",
        ..ONE_TABLE
    }
    .info();
    assert_eq!(info.registers.len(), 1);
    assert_eq!(
        preamble(&info.registers[0].preamble).annotations,
        ["@hidden"]
    );
    assert_eq!(tables(&info), ["I.t"]);
    assert_eq!(actions(&info), ["NoAction"]);
    assert_eq!(info.tables[0].action_refs.len(), 2);
}

#[test]
fn direct_counters_and_meters_of_hidden_tables_are_not_listed() {
    let info = Source {
        locals: "direct_counter(CounterType.packets) lit; direct_counter(CounterType.packets) unlit; direct_meter<bit<8>>(MeterType.bytes) m;
action count() { unlit.count(); }
action meter() { m.read(meta.x); }
@hidden table dark { key = { meta.x: exact; } actions = { count; @defaultonly NoAction; } counters = unlit; }
@hidden table grey { key = { meta.x: exact; } actions = { meter; @defaultonly NoAction; } meters = m; }
table t { key = { meta.x: exact; } actions = { NoAction; } counters = lit; }",
        apply: "dark.apply(); grey.apply(); t.apply();",
        ..ONE_TABLE
    }
    .info();
    let counters: Vec<_> = info
        .direct_counters
        .iter()
        .map(|c| &preamble(&c.preamble).name)
        .collect();
    assert_eq!(counters, ["I.lit"]);
    assert!(info.direct_meters.is_empty());
}

#[test]
fn annotations_of_main_describe_package_and_platform() {
    let info = Source {
        main: "@pkginfo(name=\"p\", url=\"u\") @platform_property(multicast_group_table_size=10, multicast_group_table_max_replicas_per_entry=30) @other(x) @kept[1]",
        ..ONE_TABLE
    }
    .info();
    let package = info.pkg_info.expect("it is always there");
    assert_eq!(
        (&*package.arch, &*package.name, &*package.url),
        ("v1model", "p", "u")
    );
    assert_eq!(package.annotations, ["@other(x)"]);
    assert_eq!(package.structured_annotations.len(), 1);
    let platform = package.platform_properties.expect("it is given");
    assert_eq!(platform.multicast_group_table_size, 10);
    assert_eq!(platform.multicast_group_table_total_replicas, 0);
    assert_eq!(platform.multicast_group_table_max_replicas_per_entry, 30);
}

#[test]
fn implicit_action_profiles_are_numbered() {
    let info = Source {
        locals: "table t { key = { meta.x: exact; } actions = { NoAction; } implementation = action_profile(4); }
table u { key = { meta.x: exact; } actions = { NoAction; } @name(\"mine\") implementation = action_profile(4); }
table v { key = { meta.x: exact; hdr.data.a: selector; } actions = { NoAction; }
    implementation = action_selector(HashAlgorithm.crc16, 32w8, 32w16); }",
        apply: "t.apply(); u.apply(); v.apply();",
        ..ONE_TABLE
    }
    .info();
    let names = info
        .action_profiles
        .iter()
        .map(|profile| &preamble(&profile.preamble).name);
    assert_eq!(
        Vec::from_iter(names),
        ["action_profile_0", "mine", "action_profile_2"]
    );
}

#[test]
fn selector_size_semantics_are_listed_only_if_annotated() {
    let of = |annotations: &str| {
        let info = Source {
            locals: &format!(
                "{annotations} action_selector(HashAlgorithm.crc16, 32w64, 32w14) s;
table t {{ key = {{ hdr.data.a: exact; hdr.data.b: selector; }} actions = {{ NoAction; }} implementation = s; }}"
            ),
            ..ONE_TABLE
        }
        .info();
        let profile = &info.action_profiles[0];
        assert!(preamble(&profile.preamble).annotations.is_empty());
        (profile.max_group_size, profile.selector_size_semantics)
    };
    assert_eq!(of(""), (0, None));
    let (size, semantics) = of("@max_group_size(7) @selector_size_semantics(\"sum_of_weights\")");
    assert_eq!(size, 7);
    assert!(matches!(
        semantics,
        Some(SelectorSizeSemantics::SumOfWeights(_))
    ));
    let (_, semantics) = of("@selector_size_semantics(\"Sum_Of_Members\") @max_member_weight(9)");
    let Some(SelectorSizeSemantics::SumOfMembers(members)) = semantics else {
        panic!("{semantics:?}");
    };
    assert_eq!(members.max_member_weight, 9);
    // Without `sum_of_members`, the maximum weight of a member is ignored.
    assert_eq!(of("@max_member_weight(9)").1, None);
}

#[test]
fn table_size_of_0_is_the_default_size() {
    let info = Source {
        locals: "table t { key = { hdr.data.a: exact; } actions = { NoAction; } size = 0; }",
        ..ONE_TABLE
    }
    .info();
    assert_eq!(info.tables[0].size, 1024);
}

#[test]
fn digests_without_a_named_type_are_numbered() {
    let info = Source {
        top: "struct news_t { bit<32> a; }",
        locals: "",
        apply: "digest(1, { hdr.data.a, hdr.data.b }); digest<news_t>(1, { hdr.data.a }); digest(1, { hdr.data.b });",
        ..ONE_TABLE
    }
    .info();
    let digests = names(info.digests.iter().map(|digest| &digest.preamble));
    assert_eq!(digests, ["digest_0", "news_t", "digest_1"]);
}

#[test]
fn values_have_the_byte_length_of_their_types() {
    let info = Source {
        top: "enum bit<16> kind_t { FIRST = 1, LAST = 0xffff }",
        meta: "kind_t kind;",
        locals:
            "action a(bit<32> v, bit<9> w, kind_t k) { hdr.data.a = v + (bit<32>)w; meta.kind = k; }
table t { key = { meta.kind: exact; } actions = { a; } default_action = a(10, 3, kind_t.FIRST); }",
        ..ONE_TABLE
    }
    .info();
    let default = info.tables[0].initial_default_action.as_ref();
    let values: Vec<_> = default
        .expect("it is given")
        .arguments
        .iter()
        .map(|argument| &argument.value[..])
        .collect();
    assert_eq!(values, [&[0, 0, 0, 10][..], &[0, 3], &[0, 1]]);
    let types = info.type_info.expect("there is an enum");
    let members = &types.serializable_enums["kind_t"].members;
    assert_eq!(members[0].value, [0, 1]);
}

#[test]
fn actions_used_by_tables_or_controls_are_listed() {
    let info = Source {
        top: "action outer() { }",
        locals: "action inner(inout bit<8> x) { x = 1; }
action unused() { }
action direct(in bit<8> y, bit<8> z) { inner(meta.x); meta.x = y + z; }
action both() { }
table t { actions = { both; NoAction; } }",
        apply: "outer(); direct(2, 3); both(); t.apply();",
        ..ONE_TABLE
    }
    .info();
    // Top-level actions come first. An action that another action calls is inlined.
    assert_eq!(actions(&info), ["NoAction", "outer", "I.direct", "I.both"]);
    assert!(info.actions.iter().all(|action| action.params.is_empty()));
}

#[test]
fn action_called_only_in_unreachable_code_is_listed() {
    let info = Source {
        locals: "action a() { }",
        apply: "exit; a();",
        ..ONE_TABLE
    }
    .info();
    assert_eq!(actions(&info), ["I.a"]);
}

#[test]
fn objects_are_in_declaration_order_with_instances_inlined() {
    let info = Source {
        top: "register<bit<8>>(2) shared;
control Inner(inout meta_t meta) {
    register<bit<8>>(2) r;
    action a() { meta.x = 3; }
    table t { actions = { a; NoAction; } }
    apply { t.apply(); r.write(0, meta.x); }
}"
        .replace("meta_t", "bits_t")
        .replace("register<bit<8>>(2) shared;", "struct bits_t { bit<8> x; } register<bit<8>>(2) shared;")
        .as_str(),
        meta: "bits_t bits;",
        locals: "action z() { shared.write(0, meta.x); }
table last { actions = { z; } default_action = z; }
Inner() one;
register<bit<8>>(2) after;
table first { actions = { z; } default_action = z; }
Inner() two;",
        apply: "first.apply(); two.apply(meta.bits); Inner.apply(meta.bits); one.apply(meta.bits); last.apply(); after.write(0, 1);",
        ..ONE_TABLE
    }
    .info();
    assert_eq!(
        tables(&info),
        ["I.last", "I.one.t", "I.first", "I.two.t", "I.Inner.t"]
    );
    assert_eq!(
        actions(&info),
        ["NoAction", "I.z", "I.one.a", "I.two.a", "I.Inner.a"]
    );
    let registers = names(info.registers.iter().map(|register| &register.preamble));
    assert_eq!(
        registers,
        ["shared", "I.one.r", "I.after", "I.two.r", "I.Inner.r"]
    );
}

#[test]
fn type_of_a_type_is_listed_with_the_underlying_type() {
    let info = Source {
        top: "type bit<9> port_t;
@p4runtime_translation(\"org/vrf\", string) @stays(here) type port_t vrf_t;
@p4runtime_translation(\"org/link\", 32) @name(\"renamed\") type port_t link_t;
type port_t plain_t;",
        meta: "vrf_t vrf; link_t link; plain_t plain;",
        locals: "table t { key = { meta.vrf: exact; meta.link: exact; meta.plain: exact; } actions = { NoAction; } }",
        ..ONE_TABLE
    }
    .info();
    let keys: Vec<_> = info.tables[0]
        .match_fields
        .iter()
        .map(|key| {
            let type_name = key.type_name.as_ref().map(|named| &*named.name);
            (key.bitwidth, type_name)
        })
        .collect();
    assert_eq!(
        keys,
        [
            (0, Some("vrf_t")),
            (32, Some("link_t")),
            (9, Some("plain_t"))
        ]
    );
    let types = info.type_info.expect("there are types").new_types;
    let names: Vec<_> = types.keys().map(|name| &**name).collect();
    // As in p4c, the key refers to the name of the declaration, not to that of `@name`.
    assert_eq!(names, ["plain_t", "renamed", "vrf_t"]);
    let Some(Representation::OriginalType(spec)) = &types["plain_t"].representation else {
        panic!("it is not translated");
    };
    assert!(matches!(spec.type_spec, Some(TypeSpec::Bitstring(_))));
    let translation = |name: &str| match &types[name].representation {
        Some(Representation::TranslatedType(translated)) => translated.clone(),
        other => panic!("{other:?}"),
    };
    let vrf = translation("vrf_t");
    assert_eq!(vrf.uri, "org/vrf");
    assert!(matches!(vrf.sdn_type, Some(SdnType::SdnString(_))));
    assert_eq!(
        translation("renamed").sdn_type,
        Some(SdnType::SdnBitwidth(32))
    );
    assert_eq!(types["vrf_t"].annotations, ["@stays(here)"]);
}

#[test]
fn type_info_exists_for_externs_and_tables() {
    let of = |locals: &str, apply: &str| {
        let info = Source {
            locals,
            apply,
            ..ONE_TABLE
        }
        .info();
        info.type_info
    };
    assert_eq!(of("", "meta.x = 1;"), None);
    assert_eq!(of("action a() { meta.x = 1; }", "a();"), None);
    for (locals, apply) in [
        ("", "mark_to_drop(sm);"),
        ("register<bit<8>>(1) r;", ""),
        ("table t { actions = { NoAction; } }", "t.apply();"),
    ] {
        assert_eq!(
            of(locals, apply),
            Some(Default::default()),
            "{locals} {apply}"
        );
    }
}

#[test]
fn enums_are_listed_only_if_objects_use_them() {
    let info = Source {
        top: "enum bit<8> used_t { A = 1 } enum bit<8> unused_t { B = 1 } enum named_t { X, Y }",
        meta: "used_t used; unused_t unused; named_t named;",
        locals:
            "table t { key = { meta.used: exact; meta.named: exact; } actions = { NoAction; } }",
        ..ONE_TABLE
    }
    .info();
    let types = info.type_info.expect("there are types");
    let names: Vec<_> = types.serializable_enums.keys().collect();
    assert_eq!(names, ["used_t"]);
    assert_eq!(types.enums.keys().collect::<Vec<_>>(), ["named_t"]);
}

#[test]
fn annotations_are_written_token_by_token_or_as_expressions() {
    let info = Source {
        locals: "@foo(a,b .c (1+ 2)) @empty() @noWarn(\"unused\") @quoted(\"a \\\" b\") @deprecated(\"a \\\" b\") @list[] @two[x=1, y=\"z\"]
table t { key = { hdr.data.a: exact @hidden; } actions = { NoAction; } }",
        ..ONE_TABLE
    }
    .info();
    let preamble = preamble(&info.tables[0].preamble);
    assert_eq!(
        preamble.annotations,
        [
            "@foo(a , b . c ( 1 + 2 ))",
            "@empty",
            "@noWarn(\"unused\")",
            "@quoted(\"a \\\" b\")",
            "@deprecated(\"a \\\\\\\" b\")",
        ]
    );
    let bodies: Vec<_> = preamble
        .structured_annotations
        .iter()
        .map(|annotation| (&*annotation.name, annotation.body.is_some()))
        .collect();
    assert_eq!(bodies, [("list", false), ("two", true)]);
    assert_eq!(info.tables[0].match_fields[0].annotations, ["@hidden"]);
}

#[test]
fn absolute_field_name_replaces_the_key_prefix() {
    let info = Source {
        top: "struct part_t { bit<8> plain; @name(\"given\") bit<8> named; @name(\".top\") bit<8> absolute; }",
        meta: "@name(\".part\") part_t part;",
        locals: "table t { key = { meta.part.plain: exact; meta.part.named: exact; meta.part.absolute: exact; } actions = { NoAction; } }",
        ..ONE_TABLE
    }
    .info();
    let keys: Vec<_> = info.tables[0]
        .match_fields
        .iter()
        .map(|key| &*key.name)
        .collect();
    assert_eq!(keys, ["part.plain", "part.given", "top"]);
}

#[test]
fn fields_of_value_sets_are_documented() {
    let info = Source {
        top: "struct set_t { @brief(\"what\") @description(\"why\") @match(ternary) bit<8> x; }
parser Sub(in bit<8> x) {
    value_set<set_t>(4) known;
    state start { transition select(x) { known: accept; default: accept; } }
}",
        ..ONE_TABLE
    };
    let text = info.text().replace(
        "packet.extract(hdr.data); transition accept;",
        "packet.extract(hdr.data); Sub.apply(meta.x); transition accept;",
    );
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", text);
    let compiled = compile_with(&CompileOptions::new("test.p4"), &loader);
    let info = compiled.unwrap_or_else(|error| panic!("{error}")).p4info;
    let field = &info.value_sets[0].r#match[0];
    let doc = field.doc.as_ref().expect("it is given");
    assert_eq!((&*doc.brief, &*doc.description), ("what", "why"));
    assert!(field.annotations.is_empty());
}

#[test]
fn direct_counters_are_in_the_order_of_their_tables() {
    let info = Source {
        locals: "direct_counter(CounterType.packets) of_second;
direct_counter(CounterType.bytes) of_first;
direct_counter(CounterType.bytes) of_none;
table first { actions = { NoAction; } counters = of_first; }
table second { actions = { NoAction; } counters = of_second; }",
        apply: "second.apply(); first.apply();",
        ..ONE_TABLE
    }
    .info();
    let counters = names(info.direct_counters.iter().map(|counter| &counter.preamble));
    assert_eq!(counters, ["I.of_first", "I.of_second"]);
}

#[test]
fn entries_of_hidden_tables_are_written_by_descending_priority() {
    let entries = Source {
        locals: "@hidden table dark { key = { hdr.data.a: ternary; } actions = { NoAction; }
    entries = { priority = 1: 1: NoAction(); priority = 9: 2: NoAction(); const priority = 5: 3: NoAction(); } }",
        apply: "dark.apply();",
        ..ONE_TABLE
    }
    .entries();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (entry.priority, entry.is_const))
        .collect();
    assert_eq!(found, [(9, false), (5, true), (1, false)]);
    assert!(entries.iter().all(|entry| entry.table_id >> 24 == 2));
}
