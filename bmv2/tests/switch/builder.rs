//! Builder of small BMv2 programs. The notation is that of the JSON; parts common to all simple_switch programs are
//! predefined.

use alfirk_bmv2::{EntryTarget, KeyMatch, LoadedProgram, Switch, SwitchOptions};
use serde_json::{json, Value};
use std::sync::Arc;

/// A program under construction.
pub struct Builder {
    json: Value,
    next_action: u64,
}

const STANDARD: [(&str, u32); 17] = [
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
    ("priority", 3),
    ("_padding", 1),
];

impl Builder {
    /// Creates a program with standard metadata, and empty parser, deparser and pipelines.
    pub fn new() -> Builder {
        let standard: Vec<Value> = STANDARD.iter().map(|(n, w)| json!([n, w, false])).collect();
        let alias = |header: &str, field: &str| {
            json!([format!("{header}.{field}"), ["standard_metadata", field]])
        };
        let mut aliases = Vec::new();
        for field in ["enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"] {
            aliases.push(alias("queueing_metadata", field));
        }
        for field in [
            "ingress_global_timestamp",
            "egress_global_timestamp",
            "mcast_grp",
            "egress_rid",
            "priority",
        ] {
            aliases.push(alias("intrinsic_metadata", field));
        }
        let pipeline = |name: &str| json!({"name": name, "id": 0, "init_table": null, "tables": [], "action_profiles": [], "conditionals": []});
        let errors = [
            "NoError",
            "PacketTooShort",
            "NoMatch",
            "StackOutOfBounds",
            "HeaderTooShort",
            "ParserTimeout",
            "ParserInvalidArgument",
        ];
        let errors: Vec<Value> = errors
            .iter()
            .enumerate()
            .map(|(i, n)| json!([n, i]))
            .collect();
        let json = json!({
            "header_types": [
                {"name": "standard_metadata", "id": 0, "fields": standard},
                {"name": "scalars_t", "id": 1, "fields": []},
            ],
            "headers": [
                {"name": "scalars", "id": 0, "header_type": "scalars_t", "metadata": true},
                {"name": "standard_metadata", "id": 1, "header_type": "standard_metadata", "metadata": true},
            ],
            "header_stacks": [], "header_union_types": [], "header_unions": [], "header_union_stacks": [],
            "field_lists": [], "errors": errors, "enums": [],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": []}],
            "parse_vsets": [],
            "deparsers": [{"name": "deparser", "id": 0, "order": [], "primitives": []}],
            "meter_arrays": [], "counter_arrays": [], "register_arrays": [], "calculations": [],
            "learn_lists": [], "actions": [],
            "pipelines": [pipeline("ingress"), pipeline("egress")],
            "checksums": [], "field_aliases": aliases,
            "__meta__": {"version": [2, 23]},
        });
        Builder {
            json,
            next_action: 0,
        }
    }

    fn list(&mut self, key: &str) -> &mut Vec<Value> {
        self.json[key].as_array_mut().unwrap()
    }

    /// Adds an object to a top-level list, with its id.
    pub fn add(&mut self, key: &str, mut object: Value) -> &mut Builder {
        let id = self.list(key).len();
        if object.get("id").is_none() {
            object["id"] = json!(id);
        }
        self.list(key).push(object);
        self
    }

    /// Adds a metadata field `scalars.name`.
    pub fn scalar(&mut self, name: &str, bits: u32) -> &mut Builder {
        let field = json!([name, bits, false]);
        self.list("header_types")[1]["fields"]
            .as_array_mut()
            .unwrap()
            .push(field);
        self
    }

    /// Adds a header type, and one header for each name.
    pub fn header(&mut self, kind: &str, names: &[&str], fields: Value) -> &mut Builder {
        self.add("header_types", json!({"name": kind, "fields": fields}));
        for name in names {
            self.add(
                "headers",
                json!({"name": name, "header_type": kind, "metadata": false}),
            );
        }
        self
    }

    pub fn header_id(&self, name: &str) -> u64 {
        let headers = self.json["headers"].as_array().unwrap();
        headers.iter().find(|h| h["name"] == name).unwrap()["id"]
            .as_u64()
            .unwrap()
    }

    /// Adds a parse state; the first one is the start state.
    pub fn state(
        &mut self,
        name: &str,
        ops: Value,
        key: Value,
        transitions: Value,
    ) -> &mut Builder {
        let states = self.list("parsers")[0]["parse_states"]
            .as_array_mut()
            .unwrap();
        let id = states.len();
        states.push(json!({"name": name, "id": id, "parser_ops": ops, "transition_key": key, "transitions": transitions}));
        self
    }

    /// Adds parse states that extract headers in sequence.
    pub fn extracts(&mut self, headers: &[&str]) -> &mut Builder {
        let ops: Vec<Value> = headers.iter().map(|h| extract(h)).collect();
        self.state(
            "start",
            json!(ops),
            json!([]),
            json!([default(Value::Null)]),
        )
    }

    /// Adds a deparser that emits headers in sequence.
    pub fn emits(&mut self, headers: &[&str]) -> &mut Builder {
        self.list("deparsers")[0]["order"] = json!(headers);
        self
    }

    /// Adds an action; returns its number.
    pub fn action(&mut self, name: &str, params: &[(&str, u32)], primitives: Value) -> u64 {
        let params: Vec<Value> = params
            .iter()
            .map(|(n, w)| json!({"name": n, "bitwidth": w}))
            .collect();
        let id = self.next_action;
        self.next_action += 1;
        self.add(
            "actions",
            json!({"name": name, "id": id, "runtime_data": params, "primitives": primitives}),
        );
        id
    }

    fn pipeline(&mut self, name: &str) -> &mut Value {
        let at = usize::from(name == "egress");
        &mut self.list("pipelines")[at]
    }

    pub fn start_at(&mut self, pipeline: &str, node: &str) -> &mut Builder {
        self.pipeline(pipeline)["init_table"] = json!(node);
        self
    }

    /// Adds a node of a pipeline: `tables`, `conditionals`, `action_calls` or `action_profiles`.
    pub fn node(&mut self, pipeline: &str, kind: &str, mut object: Value) -> &mut Builder {
        let p = self.pipeline(pipeline);
        if p.get(kind).is_none() {
            p[kind] = json!([]);
        }
        let list = p[kind].as_array_mut().unwrap();
        if object.get("id").is_none() {
            object["id"] = json!(list.len());
        }
        list.push(object);
        self
    }

    /// Adds primitives to a pipeline as p4c does: in a table without a key.
    pub fn runs(&mut self, pipeline: &str, primitives: Value) -> &mut Builder {
        let name = format!("{pipeline}_act");
        let id = self.action(&name, &[], primitives);
        let table = format!("tbl_{name}");
        self.node(pipeline, "tables", json!({
            "name": table, "key": [], "match_type": "exact", "type": "simple", "max_size": 1024,
            "action_ids": [id], "actions": [name], "next_tables": {name: null},
            "default_entry": {"action_id": id, "action_const": true, "action_data": [], "action_entry_const": true},
        }));
        self.start_at(pipeline, &table)
    }

    /// Adds a table at the start of the ingress pipeline.
    pub fn table(
        &mut self,
        name: &str,
        match_type: &str,
        keys: Value,
        actions: &[(&str, u64)],
    ) -> &mut Builder {
        let next: serde_json::Map<String, Value> = actions
            .iter()
            .map(|(n, _)| ((*n).to_owned(), Value::Null))
            .collect();
        let ids: Vec<u64> = actions.iter().map(|(_, id)| *id).collect();
        let names: Vec<&str> = actions.iter().map(|(n, _)| *n).collect();
        self.node("ingress", "tables", json!({
            "name": name, "key": keys, "match_type": match_type, "type": "simple", "max_size": 8,
            "action_ids": ids, "actions": names, "next_tables": next,
        }));
        self.start_at("ingress", name)
    }

    /// Sets any value, by JSON pointer.
    pub fn set(&mut self, pointer: &str, value: Value) -> &mut Builder {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match self.json.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
            object => object[key] = value,
        }
        self
    }

    pub fn text(&self) -> String {
        self.json.to_string()
    }

    pub fn switch(&self) -> Switch {
        self.switch_with(SwitchOptions::default())
    }

    pub fn switch_with(&self, options: SwitchOptions) -> Switch {
        let mut switch = Switch::new(options);
        load(
            &mut switch,
            Arc::new(LoadedProgram::from_json(&self.text()).unwrap()),
        );
        switch
    }
}

/// Loads a program to a switch, for the engine of the tests.
pub fn load(switch: &mut Switch, program: Arc<LoadedProgram>) {
    if crate::engine::IS_COMPILED {
        program.compile().expect("the program is compiled");
    }
    switch.load(program);
}

pub fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}

pub fn scalar(name: &str) -> Value {
    field("scalars", name)
}

pub fn standard(name: &str) -> Value {
    field("standard_metadata", name)
}

pub fn hex(value: &str) -> Value {
    json!({"type": "hexstr", "value": value})
}

pub fn num(value: u64) -> Value {
    hex(&format!("{value:#x}"))
}

pub fn arg(index: u32) -> Value {
    json!({"type": "runtime_data", "value": index})
}

pub fn named(kind: &str, name: &str) -> Value {
    json!({"type": kind, "value": name})
}

/// `{"op": ...}` in an expression object.
pub fn expr(op: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

/// Returns an expression as an operand of a primitive, which the format wraps in another object.
pub fn operand(expression: Value) -> Value {
    json!({"type": "expression", "value": expression})
}

pub fn call(op: &str, parameters: Value) -> Value {
    json!({"op": op, "parameters": parameters})
}

pub fn assign(to: Value, value: Value) -> Value {
    call("assign", json!([to, value]))
}

pub fn extract(header: &str) -> Value {
    json!({"op": "extract", "parameters": [{"type": "regular", "value": header}]})
}

pub fn default(next: Value) -> Value {
    json!({"type": "default", "value": null, "mask": null, "next_state": next})
}

pub fn on(value: &str, next: Value) -> Value {
    json!({"type": "hexstr", "value": value, "mask": null, "next_state": next})
}

/// Returns a primitive that sends the packet to a port.
pub fn send_to(port: u64) -> Value {
    assign(standard("egress_spec"), num(port))
}

pub fn key(kind: &str, header: &str, name: &str) -> Value {
    json!({"match_type": kind, "target": [header, name], "mask": null})
}

pub fn exact(value: u64) -> KeyMatch {
    KeyMatch::Exact {
        value: value.to_be_bytes().to_vec(),
    }
}

pub fn run_action(name: &str, args: &[u64]) -> EntryTarget {
    EntryTarget::Action {
        name: name.to_owned(),
        args: args.iter().map(|a| a.to_be_bytes().to_vec()).collect(),
    }
}
