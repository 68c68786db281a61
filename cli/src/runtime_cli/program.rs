//! Names and properties of the objects of the running P4 program: tables, actions, meters, registers and others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use alfirk_bmv2_json::{
    BmV2Json, FieldRef, FieldWidth, MatchType, TableKey, TableKeyTarget, TableType,
};
use alfirk_stf::by_suffix;

use super::error::{Error, Result};

/// The objects of a P4 program: for each kind, a map by full name.
#[derive(Debug, Default)]
pub struct ProgramNames {
    pub actions: BTreeMap<String, Action>,
    pub tables: BTreeMap<String, Table>,
    pub profiles: BTreeMap<String, Profile>,
    pub meters: BTreeMap<String, Meter>,
    pub counters: BTreeMap<String, Array>,
    pub registers: BTreeMap<String, Array>,
    pub value_sets: BTreeMap<String, ValueSet>,
    /// Width in bits of each hash with a configurable CRC.
    pub custom_crcs: BTreeMap<String, u32>,
}

/// An action with its parameters.
#[derive(Debug)]
pub struct Action {
    pub name: String,
    pub params: Vec<Param>,
}

/// A parameter of an action.
#[derive(Debug)]
pub struct Param {
    pub name: String,
    pub bits: u32,
}

/// A table with its keys and actions.
#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub match_type: MatchType,
    pub keys: Vec<Key>,
    /// Full names of the table's actions.
    pub actions: Vec<String>,
    pub kind: TableType,
    /// Name of the action profile; `None` for a table with direct actions.
    pub profile: Option<String>,
    pub support_timeout: bool,
}

/// A key field of a table.
#[derive(Debug)]
pub struct Key {
    pub name: String,
    pub kind: MatchType,
    pub bits: u32,
}

/// An action profile.
#[derive(Debug)]
pub struct Profile {
    pub name: String,
    pub with_selector: bool,
    /// Full names of the actions that members may have: those of all tables that use the profile.
    pub actions: Vec<String>,
    /// Number of tables that use the profile.
    pub tables: usize,
}

/// A meter array or a direct meter.
#[derive(Debug)]
pub struct Meter {
    pub name: String,
    /// Number of rates: one for each colour except the first.
    pub rate_count: usize,
    /// Name of the table of a direct meter; `None` for a meter array.
    pub table: Option<String>,
}

/// A counter array, a direct counter or a register array.
#[derive(Debug)]
pub struct Array {
    pub name: String,
    /// Name of the table of a direct counter; `None` for an array.
    pub table: Option<String>,
}

/// A parser value set.
#[derive(Debug)]
pub struct ValueSet {
    pub name: String,
    pub bits: u32,
}

impl ProgramNames {
    /// Collects the objects of a program from its BMv2 JSON.
    ///
    /// # Errors
    /// The text is not BMv2 JSON, or refers to a missing object.
    pub fn from_json(text: &str) -> std::result::Result<ProgramNames, String> {
        let json = BmV2Json::from_text(text).map_err(|error| error.to_string())?;
        let mut program = ProgramNames::default();
        for action in &json.actions {
            let param = |param: &alfirk_bmv2_json::ActionParam| Param {
                name: param.name.clone(),
                bits: param.bitwidth,
            };
            let action = Action {
                name: action.name.clone(),
                params: action.runtime_data.iter().map(param).collect(),
            };
            program.actions.insert(action.name.clone(), action);
        }
        for pipeline in &json.pipelines {
            for profile in &pipeline.action_profiles {
                let profile = Profile {
                    name: profile.name.clone(),
                    with_selector: profile.selector.is_some(),
                    actions: Vec::new(),
                    tables: 0,
                };
                program.profiles.insert(profile.name.clone(), profile);
            }
            for table in &pipeline.tables {
                program.add_table(&json, table)?;
            }
        }
        for meter in &json.meter_arrays {
            let meter = Meter {
                name: meter.name.clone(),
                rate_count: meter.rate_count as usize,
                table: meter.binding.clone().filter(|_| meter.is_direct),
            };
            program.meters.insert(meter.name.clone(), meter);
        }
        for counter in &json.counter_arrays {
            let array = Array {
                name: counter.name.clone(),
                table: counter.binding.clone().filter(|_| counter.is_direct),
            };
            program.counters.insert(array.name.clone(), array);
        }
        for register in &json.register_arrays {
            let array = Array {
                name: register.name.clone(),
                table: None,
            };
            program.registers.insert(array.name.clone(), array);
        }
        for set in &json.parse_vsets {
            let set = ValueSet {
                name: set.name.clone(),
                bits: set.compressed_bitwidth,
            };
            program.value_sets.insert(set.name.clone(), set);
        }
        for calculation in &json.calculations {
            let width = match calculation.algo.as_str() {
                "crc16_custom" => 16,
                "crc32_custom" => 32,
                _ => continue,
            };
            program.custom_crcs.insert(calculation.name.clone(), width);
        }
        Ok(program)
    }

    fn add_table(
        &mut self,
        json: &BmV2Json,
        table: &alfirk_bmv2_json::Table,
    ) -> std::result::Result<(), String> {
        if let Some(missing) = table
            .actions
            .iter()
            .find(|a| !self.actions.contains_key(*a))
        {
            return Err(format!(
                "table {}: there is no action {missing}",
                table.name
            ));
        }
        if let Some(name) = &table.action_profile {
            let profile = self.profiles.get_mut(name);
            let profile = profile.ok_or_else(|| {
                format!("table {}: there is no action profile {name}", table.name)
            })?;
            profile.tables += 1;
            for action in &table.actions {
                if !profile.actions.contains(action) {
                    profile.actions.push(action.clone());
                }
            }
        }
        let keys = table.key.iter().map(|key| {
            convert_key(json, key).map_err(|what| format!("table {}: {what}", table.name))
        });
        let table = Table {
            name: table.name.clone(),
            match_type: table.match_type,
            keys: keys.collect::<std::result::Result<_, _>>()?,
            actions: table.actions.clone(),
            kind: table.kind,
            profile: table.action_profile.clone(),
            support_timeout: table.support_timeout,
        };
        self.tables.insert(table.name.clone(), table);
        Ok(())
    }

    /// Finds a table by its name or a unique suffix of it.
    pub fn table(&self, name: &str) -> Result<&Table> {
        find(&self.tables, name).ok_or_else(|| no_such("table", name))
    }

    /// Finds an action profile by its name or a unique suffix of it.
    pub fn profile(&self, name: &str) -> Result<&Profile> {
        find(&self.profiles, name).ok_or_else(|| no_such("action profile", name))
    }

    /// Finds a meter by its name or a unique suffix of it.
    pub fn meter(&self, name: &str) -> Result<&Meter> {
        find(&self.meters, name).ok_or_else(|| no_such("meter", name))
    }

    /// Finds a counter array by its name or a unique suffix of it.
    pub fn counter(&self, name: &str) -> Result<&Array> {
        find(&self.counters, name).ok_or_else(|| no_such("counter", name))
    }

    /// Finds a register array by its name or a unique suffix of it.
    pub fn register(&self, name: &str) -> Result<&Array> {
        find(&self.registers, name).ok_or_else(|| no_such("register", name))
    }

    /// Finds a parser value set by its name or a unique suffix of it.
    pub fn value_set(&self, name: &str) -> Result<&ValueSet> {
        find(&self.value_sets, name).ok_or_else(|| no_such("parser value set", name))
    }

    /// Finds a hash with a configurable CRC by its full name; an error if its CRC does not have `width` bits.
    pub fn custom_crc(&self, name: &str, width: u32) -> Result<&str> {
        match self.custom_crcs.get_key_value(name) {
            Some((name, found)) if *found == width => Ok(name),
            _ => Err(no_such(&format!("crc{width}_custom"), name)),
        }
    }

    /// Finds an action of a table by its name or a unique suffix of it. `given`: name of the table in messages.
    pub fn table_action(&self, table: &Table, given: &str, name: &str) -> Result<&Action> {
        let action = self.find_action(&table.actions, name);
        action.ok_or_else(|| Error::input(format_args!("Table {given} has no action {name}")))
    }

    /// Finds an action of an action profile by its name or a unique suffix of it. `given`: name of the profile in
    /// messages.
    pub fn profile_action(&self, profile: &Profile, given: &str, name: &str) -> Result<&Action> {
        let action = self.find_action(&profile.actions, name);
        action.ok_or_else(|| {
            Error::input(format_args!(
                "Action profile '{given}' has no action '{name}'"
            ))
        })
    }

    fn find_action(&self, names: &[String], name: &str) -> Option<&Action> {
        let full = by_suffix(names.iter().map(String::as_str), name).ok()?;
        self.actions.get(full)
    }
}

fn no_such(what: &str, name: &str) -> Error {
    Error::input(format_args!("Invalid {what} name ({name})"))
}

/// Finds an object by its full name, or by a suffix after a dot that is unique.
fn find<'m, T>(objects: &'m BTreeMap<String, T>, name: &str) -> Option<&'m T> {
    let full = by_suffix(objects.keys().map(String::as_str), name).ok()?;
    objects.get(full)
}

/// Converts a key field of a table from BMv2 JSON.
fn convert_key(json: &BmV2Json, key: &TableKey) -> std::result::Result<Key, String> {
    let (name, bits) = match &key.target {
        TableKeyTarget::Header(header) => (format!("{header}_valid"), 1),
        TableKeyTarget::Field(field) if field.field == FieldRef::VALID => {
            (format!("{}_valid", field.header), 1)
        }
        TableKeyTarget::Field(field) => {
            let name = format!("{}.{}", field.header, field.field);
            let bits = width(json, field).ok_or_else(|| format!("there is no field {name}"))?;
            (name, bits)
        }
    };
    Ok(Key {
        name,
        kind: key.match_type,
        bits,
    })
}

/// Width of a header field in bits; `None` if there is no such field, or if its width varies.
fn width(json: &BmV2Json, field: &FieldRef) -> Option<u32> {
    let header = json.headers.iter().find(|h| h.name == field.header)?;
    let mut types = json.header_types.iter();
    let header_type = types.find(|t| t.name == header.header_type)?;
    let field = header_type.fields.iter().find(|f| f.name == field.field)?;
    match field.width {
        FieldWidth::Bits(bits) => Some(bits),
        FieldWidth::Variable => None,
    }
}

/// Name of a match kind, as in BMv2 JSON.
pub fn match_type_name(kind: MatchType) -> &'static str {
    match kind {
        MatchType::Exact => "exact",
        MatchType::Lpm => "lpm",
        MatchType::Ternary => "ternary",
        MatchType::Range => "range",
        MatchType::Valid => "valid",
        MatchType::Optional => "optional",
    }
}

impl Table {
    /// Whether entries of the table have priorities.
    pub fn has_priorities(&self) -> bool {
        matches!(
            self.match_type,
            MatchType::Ternary | MatchType::Range | MatchType::Optional
        )
    }

    /// Description of the table in one line, as `show_tables` prints it.
    pub fn summary(&self) -> String {
        let implementation = self.profile.as_deref().unwrap_or("None");
        let key = |key: &Key| format!("{}({}, {})", key.name, match_type_name(key.kind), key.bits);
        let keys: Vec<String> = self.keys.iter().map(key).collect();
        format!(
            "{:30} [implementation={implementation}, mk={}]",
            self.name,
            keys.join(",\t")
        )
    }
}

impl Action {
    /// Description of the action in one line, as `show_actions` prints it.
    pub fn summary(&self) -> String {
        let param = |param: &Param| format!("{}({})", param.name, param.bits);
        let params: Vec<String> = self.params.iter().map(param).collect();
        format!("{:30} [{}]", self.name, params.join(",\t"))
    }
}

impl ValueSet {
    /// Description of the value set in one line, as `show_pvs` prints it.
    pub fn summary(&self) -> String {
        format!("{:30} [compressed bitwidth:{}]", self.name, self.bits)
    }
}

impl ProgramNames {
    /// Descriptions of the actions `names`, one line each, sorted by name.
    pub fn action_lines(&self, names: &[String]) -> String {
        let mut names: Vec<&String> = names.iter().collect();
        names.sort();
        names.dedup();
        let mut lines = String::new();
        for action in names.iter().filter_map(|name| self.actions.get(*name)) {
            // Writing to a String does not fail.
            let _ = writeln!(lines, "{}", action.summary());
        }
        lines
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A program with one object of each kind.
    pub fn sample() -> ProgramNames {
        ProgramNames::from_json(
            r#"{
            "header_types": [
                {"name": "ipv4_t", "id": 0, "fields": [["dst", 32, false], ["ttl", 8, false]]}
            ],
            "headers": [{"name": "ipv4", "id": 0, "header_type": "ipv4_t"}],
            "actions": [
                {"name": "MyIngress.drop", "id": 0, "runtime_data": [], "primitives": []},
                {"name": "MyIngress.forward", "id": 1, "primitives": [],
                 "runtime_data": [{"name": "mac", "bitwidth": 48}, {"name": "port", "bitwidth": 9}]},
                {"name": "MyEgress.drop", "id": 2, "runtime_data": [], "primitives": []}
            ],
            "pipelines": [
                {"name": "ingress", "id": 0, "init_table": null, "conditionals": [],
                 "action_profiles": [
                    {"name": "MyIngress.hops", "id": 0, "max_size": 8,
                     "selector": {"algo": "crc16", "input": []}}],
                 "tables": [
                    {"name": "MyIngress.route", "id": 0, "match_type": "lpm", "type": "simple",
                     "key": [{"match_type": "lpm", "name": "hdr.ipv4.dst", "target": ["ipv4", "dst"]}],
                     "actions": ["MyIngress.forward", "MyIngress.drop"], "action_ids": [1, 0]},
                    {"name": "MyIngress.acl", "id": 1, "match_type": "ternary", "type": "simple",
                     "key": [
                        {"match_type": "exact", "target": ["ipv4", "$valid$"]},
                        {"match_type": "ternary", "target": ["ipv4", "ttl"]}],
                     "actions": ["MyIngress.drop"], "action_ids": [0]},
                    {"name": "MyIngress.ecmp", "id": 2, "match_type": "exact", "type": "indirect_ws",
                     "action_profile": "MyIngress.hops",
                     "key": [{"match_type": "exact", "target": ["ipv4", "ttl"]}],
                     "actions": ["MyIngress.forward"], "action_ids": [1]}]},
                {"name": "egress", "id": 1, "init_table": null, "conditionals": [], "tables": [
                    {"name": "MyEgress.route", "id": 3, "match_type": "exact", "type": "simple",
                     "key": [], "actions": ["MyEgress.drop"], "action_ids": [2]}]}
            ],
            "meter_arrays": [{"name": "MyIngress.m", "id": 0, "type": "bytes", "size": 4}],
            "counter_arrays": [
                {"name": "MyIngress.c", "id": 0, "is_direct": true, "binding": "MyIngress.route"}],
            "register_arrays": [{"name": "MyIngress.r", "id": 0, "size": 4, "bitwidth": 8}],
            "calculations": [{"name": "calc", "id": 0, "algo": "crc16_custom", "input": []}]
        }"#,
        )
        .expect("it is a program")
    }

    #[test]
    fn unique_suffix_is_accepted_as_a_name() {
        let program = sample();
        assert_eq!(program.table("acl").unwrap().name, "MyIngress.acl");
        assert_eq!(
            program.table("MyEgress.route").unwrap().name,
            "MyEgress.route"
        );
        for name in ["route", "cl", "nothing"] {
            assert_eq!(
                program.table(name).unwrap_err().to_string(),
                format!("Error: Invalid table name ({name})")
            );
        }
    }

    #[test]
    fn actions_are_searched_in_their_table() {
        let program = sample();
        let table = program.table("MyIngress.route").unwrap();
        let action = program.table_action(table, "route", "drop").unwrap();
        assert_eq!(action.name, "MyIngress.drop");
        assert_eq!(
            program
                .table_action(table, "route", "MyEgress.drop")
                .unwrap_err()
                .to_string(),
            "Error: Table route has no action MyEgress.drop"
        );
    }

    #[test]
    fn summaries_have_names_in_30_columns() {
        let program = sample();
        assert_eq!(
            program.tables["MyIngress.acl"].summary(),
            "MyIngress.acl                  [implementation=None, mk=ipv4_valid(exact, 1),\tipv4.ttl(ternary, 8)]"
        );
        assert_eq!(
            program.tables["MyIngress.ecmp"].summary(),
            "MyIngress.ecmp                 [implementation=MyIngress.hops, mk=ipv4.ttl(exact, 8)]"
        );
        assert_eq!(
            program.actions["MyIngress.forward"].summary(),
            "MyIngress.forward              [mac(48),\tport(9)]"
        );
    }

    #[test]
    fn only_hashes_of_the_width_have_parameters() {
        let program = sample();
        assert!(program.custom_crc("calc", 16).is_ok());
        assert_eq!(
            program.custom_crc("calc", 32).unwrap_err().to_string(),
            "Error: Invalid crc32_custom name (calc)"
        );
    }

    #[test]
    fn invalid_programs_are_reported() {
        assert!(ProgramNames::from_json("{").is_err());
        let dangling = r#"{"pipelines": [{"name": "ingress", "id": 0, "tables": [
            {"name": "t", "id": 0, "match_type": "exact", "key": [], "actions": ["a"]}]}]}"#;
        assert_eq!(
            ProgramNames::from_json(dangling).unwrap_err(),
            "table t: there is no action a"
        );
    }
}
