//! The values at a position: headers, metadata, locals, tables, registers and counters.

use std::collections::BTreeMap;

use alfirk_bmv2::trace::stops::{CellKind, CellValue, Stop};
use alfirk_bmv2::trace::{Variable, VariableKind};
use alfirk_bmv2::{EntryTarget, KeyMatch, LoadedProgram, Switch};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::expression::{wrapped, Names, Value, SWITCH};
use crate::navigation::register;
use crate::recording::{Executed, Recording};

/// The names of a program's variables, tables and actions.
pub struct Scopes {
    /// The variables, in the order of the program.
    pub variables: Vec<Variable>,
    actions: Vec<String>,
    tables: Vec<String>,
}

/// A row of the view of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the variable, entry or cell.
    pub name: String,
    /// The value as text.
    pub value: String,
    /// The type as P4 writes it; empty if it has none.
    pub type_name: String,
    /// Expression with the value, for watches; empty if there is none.
    pub expression: String,
    /// Rows inside this one.
    pub inner: Option<Group>,
}

/// A group of rows, which the editor opens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Local variables, and the arguments of the running action.
    Locals,
    /// All headers.
    Headers,
    /// The fields of the header with this name.
    Header(String),
    /// The user-defined metadata.
    Metadata,
    /// Metadata that the architecture defines.
    Intrinsic,
    /// The structure of intrinsic metadata with this name.
    IntrinsicOf(String),
    /// All tables.
    Tables,
    /// The entries of the table with this index in the program.
    Table(usize),
    /// All register arrays.
    Registers,
    /// The cells of the register array with this index in the program.
    Register(u16),
    /// All counter arrays.
    Counters,
    /// The cells of the counter array with this index in the program.
    Counter(u16),
    /// The queue pairs of the hosts of a fabric.
    QueuePairs,
    /// The queue pair with this index.
    QueuePair(usize),
}

impl Scopes {
    /// Returns the names of a program.
    pub fn of(program: &LoadedProgram) -> Scopes {
        let action = |at: u16| program.action_name(at).map(str::to_owned);
        let table = |at: u16| program.table_name(at).map(str::to_owned);
        Scopes {
            variables: program.variables(),
            actions: (0..u16::MAX).map_while(action).collect(),
            tables: (0..u16::MAX).map_while(table).collect(),
        }
    }

    /// Returns the name of an action.
    pub fn action(&self, action: u16) -> Option<&str> {
        self.actions.get(usize::from(action)).map(String::as_str)
    }

    /// Returns the name of a table.
    pub fn table(&self, table: u16) -> Option<&str> {
        self.tables.get(usize::from(table)).map(String::as_str)
    }

    /// Returns the names of all tables and actions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().chain(&self.actions).map(String::as_str)
    }

    /// Returns the names that expressions may use at the current position of a recording.
    pub fn names<'a>(&'a self, recording: &'a Recording) -> Visible<'a> {
        Visible {
            scopes: self,
            recording,
        }
    }

    /// Returns the variable that a path means: the full name, or that without the name of a parameter in front. A local
    /// variable of an action or a control may be named without them.
    pub fn find(&self, path: &[String], stop: Option<&Stop>) -> Option<&Variable> {
        let action = stop.and_then(|stop| stop.action);
        let full = path.join(".");
        let without = path
            .get(1..)
            .filter(|rest| !rest.is_empty())
            .map(|rest| rest.join("."));
        let visible = |variable: &&Variable| match variable.kind {
            VariableKind::Parameter(of) => Some(of) == action,
            VariableKind::Validity => false,
            _ => true,
        };
        let candidates = || self.variables.iter().filter(visible);
        let name_is = |wanted: &str| {
            let mut found = candidates().filter(|variable| full_name(variable) == wanted);
            found.next()
        };
        let parameter = candidates().find(|variable| {
            matches!(variable.kind, VariableKind::Parameter(_)) && variable.name == full
        });
        let of_gress = || {
            let prefix = gress_prefix(stop)?;
            let full = format!("{prefix}{full}");
            name_is(&full).or_else(|| {
                let rest = format!(".{}", without.as_deref()?);
                candidates().find(|variable| {
                    let name = full_name(variable);
                    name.starts_with(prefix) && name.ends_with(&rest)
                })
            })
        };
        let local = || {
            candidates().find(|variable| {
                variable.kind == VariableKind::Local && plain_name(&variable.name) == full
            })
        };
        parameter
            .or_else(of_gress)
            .or_else(|| name_is(&full))
            .or_else(|| name_is(without.as_deref()?))
            .or_else(|| {
                let rest = without.as_deref()?;
                candidates().find(|variable| {
                    variable.kind == VariableKind::Metadata && variable.name == rest
                })
            })
            .or_else(local)
    }

    /// Returns the validity bit of the header that a path means.
    fn validity(&self, path: &[String], stop: Option<&Stop>) -> Option<&Variable> {
        let full = path.join(".");
        let without = path.get(1..).map(|rest| rest.join(".")).unwrap_or_default();
        let is = |wanted: &str| {
            let mut all = self.variables.iter();
            let wanted = wanted.to_owned();
            all.find(move |variable| {
                variable.kind == VariableKind::Validity && variable.owner == wanted
            })
        };
        let prefix = gress_prefix(stop);
        let of_gress = prefix.and_then(|prefix| {
            is(&format!("{prefix}{full}")).or_else(|| {
                let rest = format!(".{without}");
                let mut all = self.variables.iter();
                all.find(|variable| {
                    variable.kind == VariableKind::Validity
                        && variable.owner.starts_with(prefix)
                        && variable.owner.ends_with(&rest)
                })
            })
        });
        of_gress.or_else(|| is(&full)).or_else(|| is(&without))
    }

    /// Returns the value of a variable.
    ///
    /// # Errors
    /// The variable is a field of an invalid header.
    pub fn value(&self, variable: &Variable, words: &[u64]) -> Result<Value, String> {
        if variable.kind == VariableKind::Field && !self.is_owner_valid(variable, words) {
            return Err(format!("the header `{}` is not valid here", variable.owner));
        }
        Ok(value_of(variable, words))
    }

    fn is_owner_valid(&self, variable: &Variable, words: &[u64]) -> bool {
        let owner = self
            .variables
            .iter()
            .find(|other| other.kind == VariableKind::Validity && other.owner == variable.owner);
        let slot = owner.map(|owner| usize::from(owner.slot));
        slot.and_then(|slot| words.get(slot))
            .is_none_or(|bit| *bit != 0)
    }

    /// Returns the groups at the top of the view of variables, with their names and whether they are expensive to show.
    pub fn top(recording: &Recording) -> Vec<(&'static str, Group, bool)> {
        let mut top = vec![
            ("Locals", Group::Locals, false),
            ("Headers", Group::Headers, false),
            ("Metadata", Group::Metadata, false),
            ("Standard metadata", Group::Intrinsic, false),
            ("Tables", Group::Tables, true),
            ("Registers", Group::Registers, true),
            ("Counters", Group::Counters, true),
        ];
        if recording.current().is_some_and(|now| now.site.is_some()) {
            top.push(("Queue pairs", Group::QueuePairs, false));
        }
        top
    }

    /// Returns the rows of a group at the current position, from row `start` on, at most `count`.
    pub fn rows(
        &self,
        recording: &Recording,
        group: &Group,
        start: usize,
        count: usize,
    ) -> Vec<Row> {
        let words = recording.words();
        let action = recording
            .stop(recording.position())
            .and_then(|stop| stop.action);
        let of_kind = |accepts: &dyn Fn(&Variable) -> bool| {
            let all = self.variables.iter().filter(|variable| accepts(variable));
            all.map(|variable| row(variable, words)).collect::<Vec<_>>()
        };
        let Some(executed) = recording.current() else {
            return Vec::new();
        };
        let Some(switch) = recording.switch_before() else {
            return Vec::new();
        };
        let all = match group {
            Group::Locals => of_kind(&|variable| match variable.kind {
                VariableKind::Parameter(of) => Some(of) == action,
                VariableKind::Local => !variable.name.starts_with("tmp"),
                _ => false,
            }),
            Group::Metadata => of_kind(&|variable| variable.kind == VariableKind::Metadata),
            Group::Header(name) | Group::IntrinsicOf(name) => of_kind(&|variable| {
                variable.owner == *name
                    && matches!(variable.kind, VariableKind::Field | VariableKind::Intrinsic)
            }),
            Group::Headers => self.headers(words),
            Group::Intrinsic => self.intrinsic(),
            Group::Tables => self.table_rows(switch),
            Group::Table(table) => entries(switch, *table),
            Group::Registers => arrays(switch, CellKind::Register),
            Group::Counters => arrays(switch, CellKind::Counter),
            Group::QueuePairs | Group::QueuePair(_) => queue_pairs(executed, group),
            Group::Register(_) | Group::Counter(_) => {
                return cells(recording, switch, group, start, count);
            }
        };
        let mut all = all;
        if *group == Group::Locals {
            let names: Vec<String> = all
                .iter()
                .map(|row| plain_name(&row.name).to_owned())
                .collect();
            for (at, row) in all.iter_mut().enumerate() {
                if names.iter().filter(|name| **name == names[at]).count() == 1 {
                    row.name.clone_from(&names[at]);
                }
            }
        }
        all.into_iter().skip(start).take(count).collect()
    }

    fn headers(&self, words: &[u64]) -> Vec<Row> {
        let headers = self
            .variables
            .iter()
            .filter(|v| v.kind == VariableKind::Validity);
        let rows = headers.map(|header| {
            let is_valid = words
                .get(usize::from(header.slot))
                .is_some_and(|bit| *bit != 0);
            let value = if is_valid { "valid" } else { "invalid" };
            Row {
                inner: is_valid.then(|| Group::Header(header.owner.clone())),
                ..plain_row(header.owner.clone(), value.to_owned())
            }
        });
        rows.collect()
    }

    fn intrinsic(&self) -> Vec<Row> {
        let fields = self
            .variables
            .iter()
            .filter(|v| v.kind == VariableKind::Intrinsic);
        let mut owners: Vec<&str> = Vec::new();
        for field in fields {
            if !owners.contains(&field.owner.as_str()) {
                owners.push(&field.owner);
            }
        }
        let rows = owners
            .into_iter()
            .map(|owner| folder(owner, "", Group::IntrinsicOf(owner.to_owned())));
        rows.collect()
    }

    fn table_rows(&self, switch: &Switch) -> Vec<Row> {
        let tables = switch.tables().into_iter().enumerate();
        let rows = tables.filter_map(|(index, id)| {
            let info = switch.table_info(id).ok()?;
            let is_statement = info.name.starts_with("tbl_") && info.keys.is_empty();
            let entries = switch.entry_count(id).ok()?;
            let value = match entries {
                1 => "1 entry".to_owned(),
                entries => format!("{entries} entries"),
            };
            (!is_statement).then(|| folder(&info.name, &value, Group::Table(index)))
        });
        rows.collect()
    }
}

/// Returns the rows of the queue pairs of a fabric, or of one of them.
fn queue_pairs(executed: &Executed, group: &Group) -> Vec<Row> {
    let site = executed.site.as_ref();
    let all = site.map_or(&[][..], |site| &site.queue_pairs);
    match group {
        Group::QueuePair(at) => {
            let values = all.get(*at).map_or(&[][..], |state| &state.values);
            let rows = values.iter();
            rows.map(|(name, value)| plain_row(name.clone(), value.clone()))
                .collect()
        }
        _ => {
            let rows = all.iter().enumerate();
            rows.map(|(at, state)| folder(&state.name, &state.summary, Group::QueuePair(at)))
                .collect()
        }
    }
}

/// Returns the prefix by which the compiler distinguishes the headers of ingress and egress, where they have separate ones.
fn gress_prefix(stop: Option<&Stop>) -> Option<&'static str> {
    match stop?.block.split(' ').next()? {
        "ingress" => Some("ingress_"),
        "egress" => Some("egress_"),
        _ => None,
    }
}

fn folder(name: &str, value: &str, inner: Group) -> Row {
    Row {
        inner: Some(inner),
        ..plain_row(name.to_owned(), value.to_owned())
    }
}

/// Returns the name of a variable in expressions.
fn full_name(variable: &Variable) -> String {
    match variable.owner.as_str() {
        "" => variable.name.clone(),
        owner => format!("{owner}.{}", variable.name),
    }
}

/// Returns the name of a local variable in the source: without the names of controls in front, and without the number by
/// which the compiler makes names unique.
fn plain_name(name: &str) -> &str {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last.rsplit_once('_') {
        Some((plain, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            plain
        }
        _ => last,
    }
}

fn value_of(variable: &Variable, words: &[u64]) -> Value {
    let value = number(words.get(variable.words()).unwrap_or_default());
    Value::Number {
        value: wrapped(&value, variable.bits, variable.signed),
        bits: Some(variable.bits),
        signed: variable.signed,
    }
}

fn row(variable: &Variable, words: &[u64]) -> Row {
    let value = value_of(variable, words);
    Row {
        name: variable.name.clone(),
        value: value.text(),
        type_name: value.type_name(),
        expression: match variable.kind {
            VariableKind::Parameter(_) => variable.name.clone(),
            _ => full_name(variable),
        },
        inner: None,
    }
}

/// Returns the number in these words, least significant first.
pub fn number(words: &[u64]) -> BigInt {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    BigInt::from_bytes_le(num_bigint::Sign::Plus, &bytes)
}

/// Returns the words of a number of `bits` bits, least significant first.
pub fn to_words(value: &BigInt, bits: u32, signed: bool) -> Vec<u64> {
    let count = (bits as usize).div_ceil(64).max(1);
    // A signed field of one word is sign-extended, as the switch keeps it.
    let value = match signed && bits <= 64 {
        true => wrapped(&wrapped(value, bits, true), 64, false),
        false => wrapped(value, bits, false),
    };
    let mut words: Vec<u64> = value.iter_u64_digits().collect();
    words.resize(count, 0);
    words
}

fn bytes_text(bytes: &[u8]) -> String {
    format!(
        "{:#x}",
        BigInt::from_bytes_be(num_bigint::Sign::Plus, bytes)
    )
}

fn entries(switch: &Switch, table: usize) -> Vec<Row> {
    let id = switch.tables().get(table).copied();
    let Some((id, info)) = id.and_then(|id| Some((id, switch.table_info(id).ok()?))) else {
        return Vec::new();
    };
    let entries = switch.entries(id).unwrap_or_default();
    let mut rows: Vec<Row> = (entries.iter())
        .map(|entry| {
            let keys = info.keys.iter().zip(&entry.key);
            let keys = keys.map(|(key, value)| format!("{}: {}", key.name, key_text(value)));
            let mut value = format!(
                "{} => {}",
                keys.collect::<Vec<_>>().join(", "),
                target_text(&entry.target)
            );
            if info.has_priorities {
                value += &format!(", priority {}", entry.priority);
            }
            if let Some(counter) = &entry.counter {
                value += &format!(", {} packets, {} bytes", counter.packets, counter.bytes);
            }
            plain_row(entry.handle.0.to_string(), value)
        })
        .collect();
    if let Ok(Some(default)) = switch.default_entry(id) {
        rows.push(plain_row("default".to_owned(), target_text(&default)));
    }
    rows
}

fn plain_row(name: String, value: String) -> Row {
    Row {
        name,
        value,
        type_name: String::new(),
        expression: String::new(),
        inner: None,
    }
}

fn key_text(key: &KeyMatch) -> String {
    match key {
        KeyMatch::Exact { value } => bytes_text(value),
        KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", bytes_text(value)),
        KeyMatch::Ternary { value, mask } => {
            format!("{} &&& {}", bytes_text(value), bytes_text(mask))
        }
        KeyMatch::Range { low, high } => format!("{}..{}", bytes_text(low), bytes_text(high)),
        other => format!("{other:?}"),
    }
}

fn target_text(target: &EntryTarget) -> String {
    match target {
        EntryTarget::Action { name, args } => {
            let args: Vec<String> = args.iter().map(|arg| bytes_text(arg)).collect();
            format!("{name}({})", args.join(", "))
        }
        EntryTarget::Member(id) => format!("member {id}"),
        EntryTarget::Group(id) => format!("group {id}"),
    }
}

/// Returns names and sizes of arrays, in the order of the program.
fn array_list(switch: &Switch, kind: CellKind) -> Vec<(String, usize, u32)> {
    match kind {
        CellKind::Register => (switch.registers().into_iter())
            .map(|array| (array.name, array.size, array.bits))
            .collect(),
        CellKind::Counter => (switch.counters().into_iter())
            .map(|array| (array.name, array.size, 0))
            .collect(),
    }
}

fn arrays(switch: &Switch, kind: CellKind) -> Vec<Row> {
    let all = (0..).zip(array_list(switch, kind));
    let rows = all.map(|(index, (name, size, bits)): (u16, _)| {
        let value = match kind {
            CellKind::Register => format!("bit<{bits}>[{size}]"),
            CellKind::Counter if size == 0 => "one for each entry of a table".to_owned(),
            CellKind::Counter => format!("{size} cells"),
        };
        let inner = match kind {
            CellKind::Register => Group::Register(index),
            CellKind::Counter => Group::Counter(index),
        };
        let mut row = folder(&name, &value, inner);
        if size == 0 {
            row.inner = None;
        }
        row
    });
    rows.collect()
}

/// Returns the number of cells of a group; `None` for other groups.
pub fn cell_count(recording: &Recording, group: &Group) -> Option<usize> {
    let switch = recording.objects();
    let (kind, at) = match group {
        Group::Register(at) => (CellKind::Register, *at),
        Group::Counter(at) => (CellKind::Counter, *at),
        _ => return None,
    };
    array_list(switch, kind)
        .get(usize::from(at))
        .map(|array| array.1)
}

fn cells(
    recording: &Recording,
    switch: &Switch,
    group: &Group,
    start: usize,
    count: usize,
) -> Vec<Row> {
    let (kind, at) = match group {
        Group::Register(at) => (CellKind::Register, *at),
        Group::Counter(at) => (CellKind::Counter, *at),
        _ => return Vec::new(),
    };
    let arrays = array_list(switch, kind);
    let Some((name, size, bits)) = arrays.get(usize::from(at)) else {
        return Vec::new();
    };
    let range = start.min(*size)..start.saturating_add(count).min(*size);
    let rows = range.map(|index| {
        let value = match cell_value(recording, switch, kind, (at, name), index as u64) {
            Some(CellValue::Register(words)) => format!("{:#x}", number(&words)),
            Some(CellValue::Counter(packets, bytes)) => format!("{packets} packets, {bytes} bytes"),
            None => String::new(),
        };
        Row {
            name: format!("[{index}]"),
            value,
            type_name: if *bits > 0 {
                format!("bit<{bits}>")
            } else {
                String::new()
            },
            expression: format!("{name}[{index}]"),
            inner: None,
        }
    });
    rows.collect()
}

/// Returns the value of a cell at the current position: that of the packet's last access, or else that before the packet.
fn cell_value(
    recording: &Recording,
    switch: &Switch,
    kind: CellKind,
    (array, name): (u16, &str),
    index: u64,
) -> Option<CellValue> {
    if let Some(value) = recording.cell(kind, array, index) {
        return Some(value.clone());
    }
    match kind {
        CellKind::Register => {
            let bytes = switch.read_register(name, index).ok()?;
            let value = BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes);
            Some(CellValue::Register(value.iter_u64_digits().collect()))
        }
        CellKind::Counter => {
            let counter = switch.read_counter(name, index).ok()?;
            Some(CellValue::Counter(counter.packets, counter.bytes))
        }
    }
}

/// The names that expressions may use at a position.
pub struct Visible<'a> {
    scopes: &'a Scopes,
    recording: &'a Recording,
}

impl Visible<'_> {
    fn stop(&self) -> Option<&Stop> {
        self.recording.stop(self.recording.position())
    }
}

impl Visible<'_> {
    /// Returns the value of a name that the debugger adds to those of the program: in a fabric, the switch and the time.
    fn of_site(&self, path: &[String]) -> Option<Value> {
        let site = self.recording.current()?.site.as_ref()?;
        match path {
            [name] if name == SWITCH => Some(Value::Text(site.switch.clone())),
            [name] if name == "time" => Some(Value::bits(site.time.into(), 64)),
            _ => None,
        }
    }
}

impl Names for Visible<'_> {
    fn variable(&self, path: &[String]) -> Result<Value, String> {
        let found = self.scopes.find(path, self.stop());
        if let (None, Some(value)) = (found, self.of_site(path)) {
            return Ok(value);
        }
        let found = found
            .ok_or_else(|| format!("`{}` is not a variable of the program", path.join(".")))?;
        self.scopes.value(found, self.recording.words())
    }

    fn is_valid(&self, path: &[String]) -> Result<bool, String> {
        let found = self.scopes.validity(path, self.stop());
        let found =
            found.ok_or_else(|| format!("`{}` is not a header of the program", path.join(".")))?;
        let bit = self.recording.words().get(usize::from(found.slot));
        Ok(bit.is_some_and(|bit| *bit != 0))
    }

    fn cell(&self, path: &[String], index: &BigInt) -> Result<Value, String> {
        let name = path.join(".");
        let unknown = || format!("`{name}` is not a register of the program");
        let switch = self.recording.switch_before().ok_or_else(unknown)?;
        let array = register(switch, &name).ok_or_else(unknown)?;
        let arrays = array_list(switch, CellKind::Register);
        let (full, size, bits) = &arrays[usize::from(array)];
        let cell = index.to_u64().filter(|cell| *cell < *size as u64);
        let cell =
            cell.ok_or_else(|| format!("`{name}` has {size} cells, the index is {index}"))?;
        match cell_value(
            self.recording,
            switch,
            CellKind::Register,
            (array, full),
            cell,
        ) {
            Some(CellValue::Register(words)) => Ok(Value::bits(number(&words), *bits)),
            _ => Err(unknown()),
        }
    }
}

/// Returns the variables by the names that expressions use, for completion.
pub fn completions(scopes: &Scopes) -> BTreeMap<String, String> {
    let all = scopes
        .variables
        .iter()
        .filter(|v| v.kind != VariableKind::Validity);
    all.map(|variable| (full_name(variable), format!("bit<{}>", variable.bits)))
        .collect()
}
