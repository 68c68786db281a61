use super::*;
use alfirk_p4runtime::p4::config::v1::match_field;

const TABLE: u32 = 0x0200_0001;

fn key_field(id: u32, name: &str, annotations: &[&str]) -> MatchField {
    MatchField {
        id,
        name: name.to_owned(),
        bitwidth: 16,
        annotations: annotations.iter().map(|text| (*text).to_owned()).collect(),
        r#match: Some(match_field::Match::MatchType(
            match_field::MatchType::Exact as i32,
        )),
        ..MatchField::default()
    }
}

fn table(id: u32, name: &str, annotations: &[&str], fields: Vec<MatchField>) -> Table {
    Table {
        preamble: Some(Preamble {
            id,
            name: format!("ingress.{name}"),
            alias: name.to_owned(),
            annotations: annotations.iter().map(|text| (*text).to_owned()).collect(),
            ..Preamble::default()
        }),
        match_fields: fields,
        ..Table::default()
    }
}

fn with_rule(rule: &str) -> Result<Constraints, AnnotationError> {
    let annotation = format!("@entry_restriction(\"{rule}\")");
    let fields = vec![key_field(1, "a", &[]), key_field(2, "b.c", &[])];
    Constraints::of(&P4Info {
        tables: vec![table(TABLE, "t", &[&annotation], fields)],
        ..P4Info::default()
    })
}

fn insertion(table_id: u32, matches: Vec<(u32, FieldMatchType)>) -> Update {
    let matches =
        matches
            .into_iter()
            .map(|(field_id, value)| alfirk_p4runtime::p4::v1::FieldMatch {
                field_id,
                field_match_type: Some(value),
            });
    let entry = TableEntry {
        table_id,
        r#match: matches.collect(),
        ..TableEntry::default()
    };
    super::super::entity_update(update::Type::Insert, Entity::TableEntry(entry))
}

fn exact(value: u16) -> FieldMatchType {
    let value = bytestring::encode(value);
    FieldMatchType::Exact(alfirk_p4runtime::p4::v1::field_match::Exact { value })
}

fn lpm(value: u16, prefix_len: i32) -> FieldMatchType {
    let value = bytestring::encode(value);
    FieldMatchType::Lpm(alfirk_p4runtime::p4::v1::field_match::Lpm { value, prefix_len })
}

fn allows(rule: &str, a: u16, c: u16) -> bool {
    let entry = insertion(TABLE, vec![(1, exact(a)), (2, exact(c))]);
    with_rule(rule).unwrap().check(&[entry]).is_ok()
}

#[test]
fn conditions_are_evaluated() {
    let cases = [
        ("a == 5", true),
        ("a::value != 0x5", false),
        ("a < 6 && b.c > 6", true),
        ("a > 6 || b.c::value >= 7", true),
        ("a == 4 -> b.c == 0", true),
        ("a == 5 -> b.c == 0", false),
        ("!(a == 5)", false),
        ("!(a == 4) && !false", true),
        ("a == 0b101 && (b.c <= 6 || true)", true),
        // Precedence: `&&` before `||`, and `||` before `->`.
        ("true || false && false", true),
        ("false -> false || false", true),
        ("b.c::mask == 0xffff && a::prefix_length == 16", true),
    ];
    for (rule, wanted) in cases {
        assert_eq!(allows(rule, 5, 7), wanted, "{rule}");
    }
}

#[test]
fn prefixes_and_omitted_keys_have_masks() {
    let checks = |rule: &str, matches| {
        let constraints = with_rule(rule).unwrap();
        constraints.check(&[insertion(TABLE, matches)]).is_ok()
    };
    assert!(checks("a::mask == 0xff00", vec![(1, lpm(0x1200, 8))]));
    assert!(checks("a::prefix_length == 8", vec![(1, lpm(0x1200, 8))]));
    assert!(checks("a::mask == 0", vec![]));
}

#[test]
fn a_violation_names_table_rule_and_keys() {
    let entry = insertion(TABLE, vec![(1, exact(5)), (2, exact(7))]);
    let error = with_rule("a == 6").unwrap().check(&[entry]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an entry of ingress.t violates @entry_restriction `a == 6`: a=0x5, b.c=0x7"
    );
}

#[test]
fn malformed_rules_are_rejected() {
    let deep = "(".repeat(1000);
    for (rule, why) in [
        ("", "a key or a number is missing"),
        ("a ==", "a key or a number is missing"),
        ("x == 1", "there is no key `x`"),
        ("(a == 1", "a `)` is missing"),
        ("a == 1 b", "unexpected `b`"),
        ("a == 0xzz", "`0xzz` is not a number"),
        (
            "a == 999999999999999999999999999999999999999999",
            "is not a number",
        ),
        (deep.as_str(), "nested too deeply"),
    ] {
        let error = with_rule(rule).unwrap_err().to_string();
        assert!(error.contains(why), "{rule}: {error}");
    }
}

#[test]
fn references_must_exist_before_in_one_entry() {
    let there = 0x0200_0002;
    let refers = |key: &str| format!("@refers_to(there, {key})");
    let fields = vec![
        key_field(1, "a", &[&refers("x")]),
        key_field(2, "b", &[&refers("y")]),
    ];
    let p4info = P4Info {
        tables: vec![
            table(TABLE, "t", &[], fields),
            table(
                there,
                "there",
                &[],
                vec![key_field(1, "x", &[]), key_field(2, "y", &[])],
            ),
        ],
        ..P4Info::default()
    };
    let constraints = Constraints::of(&p4info).unwrap();
    let at = |table, x, y| insertion(table, vec![(1, exact(x)), (2, exact(y))]);
    let check = |updates: &[Update]| constraints.check(updates).map_err(|e| e.to_string());
    assert_eq!(check(&[at(there, 1, 2), at(TABLE, 1, 2)]), Ok(()));
    let missing = Err(
        "an entry of ingress.t refers to a missing entry of ingress.there: a=0x1, b=0x2".to_owned(),
    );
    assert_eq!(check(&[at(TABLE, 1, 2), at(there, 1, 2)]), missing);
    assert_eq!(
        check(&[at(there, 1, 3), at(there, 3, 2), at(TABLE, 1, 2)]),
        missing
    );
    let mut wrong = p4info;
    wrong.tables[1].match_fields.pop();
    let error = Constraints::of(&wrong).unwrap_err().to_string();
    assert!(error.contains("the table has no such key"), "{error}");
}
