//! Requests about the call stack and values: scopes, variables, expressions, and changes of values.

use alfirk_bmv2::trace::stops::{Override, OverrideTarget, StopKind};
use alfirk_bmv2::trace::{Variable, VariableKind};
use serde::Deserialize;
use serde_json::{json, Value};

use super::{arguments, event, source, Answer, Debugger, Reply, Run};
use crate::expression::{wrapped, Expression};
use crate::navigation::{register, stack};
use crate::scopes::{cell_count, completions, to_words, Group, Row, Scopes};

/// Maximum number of rows of one response, if the editor sets no limit.
const MAX_ROWS: usize = 1000;

impl Debugger {
    pub(super) fn stack_trace(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Arguments {
            #[serde(default)]
            start_frame: usize,
            levels: Option<usize>,
        }
        let Arguments {
            start_frame,
            levels,
        } = arguments(request)?;
        let run = self.running()?;
        let frames = stack(&run.recording, &run.scopes);
        let total = frames.len();
        let levels = levels.filter(|levels| *levels > 0).unwrap_or(usize::MAX);
        let shown = frames
            .into_iter()
            .enumerate()
            .skip(start_frame)
            .take(levels);
        let frames: Vec<Value> = shown
            .map(|(number, frame)| {
                let mut described =
                    json!({"id": number + 1, "name": frame.name, "line": 0, "column": 0});
                if let Some(place) = frame.place {
                    described["line"] = json!(place.line);
                    described["column"] = json!(place.column.max(1));
                    described["source"] = source(&place.file);
                }
                if frame.is_label {
                    described["presentationHint"] = json!("label");
                }
                described
            })
            .collect();
        Ok(json!({"stackFrames": frames, "totalFrames": total}))
    }

    fn reference(&mut self, group: Group) -> usize {
        let known = self.groups.iter().position(|other| *other == group);
        let at = known.unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        at + 1
    }

    pub(super) fn scopes(&mut self) -> Answer {
        let top = Scopes::top(&self.running()?.recording);
        let scopes = top.into_iter().map(|(name, group, expensive)| {
            let mut scope = json!({
                "name": name,
                "variablesReference": self.reference(group.clone()),
                "expensive": expensive,
            });
            match group {
                Group::Locals => scope["presentationHint"] = json!("locals"),
                Group::Registers => scope["presentationHint"] = json!("registers"),
                _ => {}
            }
            scope
        });
        let scopes: Vec<Value> = scopes.collect();
        Ok(json!({ "scopes": scopes }))
    }

    fn group(&self, reference: usize) -> Result<Group, String> {
        let group = reference.checked_sub(1).and_then(|at| self.groups.get(at));
        group.cloned().ok_or_else(|| {
            format!("there are no variables with reference {reference} at this stop")
        })
    }

    pub(super) fn variables(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Arguments {
            variables_reference: usize,
            start: Option<usize>,
            count: Option<usize>,
        }
        let Arguments {
            variables_reference,
            start,
            count,
        } = arguments(request)?;
        let group = self.group(variables_reference)?;
        let count = count
            .filter(|count| *count > 0)
            .unwrap_or(MAX_ROWS)
            .min(MAX_ROWS);
        let run = self.running()?;
        let rows = run
            .scopes
            .rows(&run.recording, &group, start.unwrap_or(0), count);
        let mut described = Vec::new();
        for row in rows {
            let mut variable =
                json!({"name": row.name, "value": row.value, "variablesReference": 0});
            if !row.type_name.is_empty() {
                variable["type"] = json!(row.type_name);
            }
            if !row.expression.is_empty() {
                variable["evaluateName"] = json!(row.expression);
            }
            if let Some(inner) = row.inner {
                let run = self.running()?;
                if let Some(cells) = cell_count(&run.recording, &inner) {
                    variable["indexedVariables"] = json!(cells);
                }
                variable["variablesReference"] = json!(self.reference(inner));
            }
            described.push(variable);
        }
        Ok(json!({ "variables": described }))
    }

    /// Returns the row with this name in a group.
    pub(super) fn row(&mut self, reference: usize, name: &str) -> Result<Row, String> {
        let group = self.group(reference)?;
        let run = self.running()?;
        let start = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let start = start.and_then(|index| index.parse().ok()).unwrap_or(0);
        let rows = run.scopes.rows(&run.recording, &group, start, MAX_ROWS);
        let found = rows.into_iter().find(|row| row.name == name);
        found.ok_or_else(|| format!("there is no variable `{name}` here"))
    }

    pub(super) fn set_variable(&mut self, request: &Value, events: &mut Reply) -> Answer {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Arguments {
            variables_reference: usize,
            name: String,
            value: String,
        }
        let Arguments {
            variables_reference,
            name,
            value,
        } = arguments(request)?;
        let row = self.row(variables_reference, &name)?;
        let expression = match self.group(variables_reference)? {
            Group::Headers => format!("{name}.$valid$"),
            _ => row.expression,
        };
        self.assign(&expression, &value, events)
    }

    pub(super) fn set_expression(&mut self, request: &Value, events: &mut Reply) -> Answer {
        #[derive(Deserialize)]
        struct Arguments {
            expression: String,
            value: String,
        }
        let Arguments { expression, value } = arguments(request)?;
        self.assign(&expression, &value, events)
    }

    /// Sets a field, a variable or a cell of a register, and executes the packet again.
    fn assign(&mut self, expression: &str, value: &str, events: &mut Reply) -> Answer {
        let supports_invalidated = self.supports_invalidated;
        let run = self.running()?;
        let at = run.recording.position();
        let stop = run.recording.stop(at).ok_or("no packet is stopped")?;
        if stop.kind == StopKind::Event {
            return Err("values can be changed at statements; step back to one".to_owned());
        }
        if expression.is_empty() {
            return Err("this value cannot be changed".to_owned());
        }
        let names = run.scopes.names(&run.recording);
        let (target, bits, signed) = run.target(expression)?;
        let value = match value.trim() {
            "valid" => "1",
            "invalid" => "0",
            value => value,
        };
        let value = Expression::parse(value)?.evaluate(&names)?.number();
        let wrapped = wrapped(&value, bits, signed);
        if wrapped != value && num_traits::Signed::is_positive(&value) {
            return Err(format!("the value needs more than {bits} bits"));
        }
        run.recording.set(Override {
            stop: at.stop,
            target,
            value: to_words(&value, bits, signed),
        })?;
        run.has_ended = false;
        if supports_invalidated {
            events.push(event(
                "invalidated",
                json!({"areas": ["stacks", "variables"]}),
            ));
        }
        Ok(json!({"value": format!("{wrapped:#x}"), "variablesReference": 0}))
    }

    pub(super) fn evaluate(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        struct Arguments {
            expression: String,
        }
        let Arguments { expression } = arguments(request)?;
        let run = self.running()?;
        let names = run.scopes.names(&run.recording);
        let value = Expression::parse(expression.trim())?.evaluate(&names)?;
        Ok(json!({"result": value.text(), "type": value.type_name(), "variablesReference": 0}))
    }

    pub(super) fn completions(&mut self, request: &Value) -> Answer {
        let text = request.pointer("/arguments/text").and_then(Value::as_str);
        let text = text.unwrap_or_default();
        let is_separator = |c: char| !c.is_alphanumeric() && c != '_' && c != '.';
        let word = text.rsplit(is_separator).next().unwrap_or_default();
        let run = self.running()?;
        let names = completions(&run.scopes);
        let found = names
            .iter()
            .filter(|(name, _)| name.contains(word))
            .take(200);
        let targets: Vec<Value> = found
            .map(|(name, type_name)| json!({"label": name, "detail": type_name}))
            .collect();
        Ok(json!({ "targets": targets }))
    }
}

impl Run {
    /// Returns what an expression names: words of the packet or cells of a register, the width, and whether it is signed.
    fn target(&self, expression: &str) -> Result<(OverrideTarget, u32, bool), String> {
        let of = |variable: &Variable| {
            let target = OverrideTarget::Words(variable.slot);
            (target, variable.bits, variable.signed)
        };
        if let Some(header) = expression.strip_suffix(".$valid$") {
            let mut all = self.scopes.variables.iter();
            let found = all.find(|v| v.kind == VariableKind::Validity && v.owner == header);
            return found
                .map(of)
                .ok_or_else(|| format!("`{header}` is not a header"));
        }
        let stop = self.recording.stop(self.recording.position());
        // Names of compiled programs need not be expressions.
        let full: Vec<String> = expression.split('.').map(str::to_owned).collect();
        if let Some(variable) = self.scopes.find(&full, stop) {
            return Ok(of(variable));
        }
        let (array, cell) = self.register_cell(expression)?;
        let (array, cell) = (array, cell.ok_or("an index is missing: `register[index]`")?);
        let switch = self.recording.objects();
        let bits = switch.registers()[usize::from(array)].bits;
        Ok((OverrideTarget::Register(array, cell), bits, false))
    }

    /// Returns the register, and the cell if there is an index, that an expression names.
    pub(super) fn register_cell(&self, expression: &str) -> Result<(u16, Option<u64>), String> {
        let unknown = || format!("`{expression}` is neither a variable nor a cell of a register");
        let names = self.scopes.names(&self.recording);
        let (path, index) = match expression.rsplit_once('[') {
            Some((path, index)) => {
                let index = index.strip_suffix(']').ok_or_else(unknown)?;
                let index = Expression::parse(index)?.evaluate(&names)?.number();
                (path, Some(u64::try_from(index).map_err(|_| unknown())?))
            }
            None => (expression, None),
        };
        let switch = self.recording.objects();
        let array = register(switch, path).ok_or_else(unknown)?;
        let size = switch.registers()[usize::from(array)].size as u64;
        match index.filter(|index| *index >= size) {
            Some(index) => Err(format!("`{path}` has {size} cells, the index is {index}")),
            None => Ok((array, index)),
        }
    }
}
