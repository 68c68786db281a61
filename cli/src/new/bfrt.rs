//! Statements of tests that write and read tables by BfRuntime.

use alfirk_bf_rt_json::{ids, FieldContent, Schema, Table, TableType, TypeName};
use alfirk_p4runtime::p4::config::v1::Action;

use super::ptf::{arguments, bits, dictionary, name_of, quoted, ARGUMENT};

/// Name of the key field and data field that refer to a member of an action profile.
const MEMBER: &str = "\"$ACTION_MEMBER_ID\"";
/// Key field for the priority of an entry.
const PRIORITY: &str = "$MATCH_PRIORITY";

/// The rows of the README's table of statements.
pub const STATEMENTS: &str = "\
    | `table = self.switch.table(name)` | a table by its name in bf-rt.json, or the unique last part; arrays and action profiles are tables, too |\n\
    | `table.add(key, action, data)`, `modify`, `delete(key)`, `clear()` | writes entries; `key` has a value for each field, or a pair: value and \
    prefix length, value and mask, or both ends of a range; `$MATCH_PRIORITY` is a field of ternary and range keys, and the smallest number wins |\n\
    | `table.set_default(action, data)`, `table.default()` | sets or reads the default entry |\n\
    | `table.get(key)`, `table.entries()` | reads entries: `entry.key`, `entry.action`, `entry[\"port\"]` |\n\
    | `self.switch.table(\"my_counter\").get(3)[\"$COUNTER_SPEC_PKTS\"]` | reads a cell of a counter or register, by its index |\n\
    | `self.switch.table(\"my_register\").modify(3, data={\"f1\": 7})` | writes a cell |\n";

/// An array of which a cell is written and read.
pub struct Array<'s> {
    /// Kind of the array, as the first word of a sentence.
    pub kind: &'static str,
    /// Name without that of the pipe.
    pub name: &'s str,
    size: u64,
    table: &'s Table,
    /// Names and widths of the fields of a cell.
    fields: Vec<(&'s str, i32)>,
}

impl Array<'_> {
    /// The lines of the documentation of a test.
    pub fn notes(&self) -> Vec<String> {
        let cells = format!("Number of cells: {}.", self.size);
        let fields = self.fields.iter();
        let fields = fields.map(|(name, width)| format!("Field {name}: {}.", bits(*width)));
        std::iter::once(cells).chain(fields).collect()
    }

    /// Statements that write a cell and read it.
    pub fn body(&self) -> Vec<String> {
        let mut body = vec![format!(
            "table = self.switch.table({})",
            quoted(&self.table.name)
        )];
        let fields = self.fields.iter();
        let data: Vec<String> = fields
            .map(|(name, _)| format!("{}: {ARGUMENT}", quoted(name)))
            .collect();
        body.extend(dictionary("data = ", &data, ""));
        body.push("table.modify(0, data=data)".to_owned());
        body.push("self.assertEqual(data, table.get(0).data)".to_owned());
        body
    }
}

/// The counters, meters and registers whose cells have numbers only.
pub fn arrays(schema: &Schema) -> Vec<Array<'_>> {
    schema.tables.iter().filter_map(array).collect()
}

fn array(table: &Table) -> Option<Array<'_>> {
    let kind = match table.table_type {
        TableType::Counter => "Counter",
        TableType::Meter => "Meter",
        TableType::Register => "Register",
        _ => return None,
    };
    let mut fields = Vec::new();
    for (_, field) in table.data_fields() {
        let FieldContent::Type(ty) = &field.content else {
            return None;
        };
        let width = ty.bits().filter(|_| ty.name != TypeName::Bool)?;
        let width = i32::try_from(width).ok()?;
        fields.push((field.name.as_str(), width));
    }
    let is_indexed = table.key.len() == 1 && !fields.is_empty();
    is_indexed.then(|| Array {
        kind,
        name: own_name(&table.name),
        size: table.size,
        table,
        fields,
    })
}

/// The expression of all entries of a table.
pub fn read(schema: &Schema, name: &str) -> String {
    format!("{}.entries()", table_of(schema, name))
}

/// Statements that insert an entry and read it. `keys`: names and values of P4Info.
pub fn entry(
    schema: &Schema,
    name: &str,
    action: &Action,
    keys: &[(String, String)],
) -> Vec<String> {
    let table = find(schema, name);
    let mut fields: Vec<String> = Vec::new();
    let own = table.map_or(&[][..], |table| &table.key);
    for (at, (key, value)) in keys.iter().enumerate() {
        let key = own.get(at).map_or(key, |field| &field.name);
        fields.push(format!("{}: {value}", quoted(key)));
    }
    if own.iter().any(|field| field.id == ids::MATCH_PRIORITY) {
        fields.push(format!("{}: 1", quoted(PRIORITY)));
    }
    let mut body = vec![format!("table = {}", table_of(schema, name))];
    body.extend(dictionary("key = ", &fields, ""));
    match table.and_then(|table| profile(schema, table)) {
        Some(profile) => {
            let members = quoted(&profile.name);
            let add = format!("add(1, {})", call(action));
            body.push(format!("self.switch.table({members}).{add}"));
            body.push(format!("table.add(key, data={{{MEMBER}: 1}})"));
            body.push(format!("self.assertEqual(1, table.get(key)[{MEMBER}])"));
        }
        None => {
            body.push(format!("table.add(key, {})", call(action)));
            body.extend(check("table.get(key)", action));
        }
    }
    body
}

/// Statements that set the default entry and read it.
pub fn default(schema: &Schema, name: &str, action: &Action) -> Vec<String> {
    let mut body = vec![
        format!("table = {}", table_of(schema, name)),
        format!("table.set_default({})", call(action)),
    ];
    body.extend(check("table.default()", action));
    body
}

/// Statements that compare an entry that is read with the action that was written.
fn check(read: &str, action: &Action) -> Vec<String> {
    let name = quoted(&name_of(action.preamble.as_ref()));
    let mut body = vec![
        format!("entry = {read}"),
        format!("self.assertEqual({name}, entry.action)"),
    ];
    for param in &action.params {
        let param = quoted(&param.name);
        body.push(format!("self.assertEqual({ARGUMENT}, entry[{param}])"));
    }
    body
}

/// Name and data of an action, as arguments.
fn call(action: &Action) -> String {
    let name = quoted(&name_of(action.preamble.as_ref()));
    match action.params.is_empty() {
        true => name,
        false => format!("{name}, {{{}}}", arguments(action, ": ")),
    }
}

/// The table of the schema with a name of P4Info, which lacks the name of the pipe.
fn find<'s>(schema: &'s Schema, name: &str) -> Option<&'s Table> {
    let mut tables = schema.tables.iter();
    tables.find(|table| table.name == name || own_name(&table.name) == name)
}

/// Name of an object without the name of its pipe.
fn own_name(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, own)| own)
}

fn table_of(schema: &Schema, name: &str) -> String {
    let full = find(schema, name).map_or(name, |table| &table.name);
    format!("self.switch.table({})", quoted(full))
}

/// The action profile that holds the members of a table's entries, also behind a selector.
fn profile<'s>(schema: &'s Schema, table: &Table) -> Option<&'s Table> {
    let is_indirect = matches!(
        table.table_type,
        TableType::MatchActionIndirect | TableType::MatchActionIndirectSelector
    );
    let with_ids = |ids: &[u32]| -> Vec<&'s Table> {
        let tables = schema.tables.iter();
        tables.filter(|table| ids.contains(&table.id)).collect()
    };
    let is_profile = |table: &&Table| table.table_type == TableType::Action;
    let direct = with_ids(&table.depends_on);
    let behind = direct.iter().flat_map(|other| with_ids(&other.depends_on));
    let mut all = direct.iter().copied().chain(behind);
    all.find(is_profile).filter(|_| is_indirect)
}
