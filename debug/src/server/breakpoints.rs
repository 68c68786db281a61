//! Requests that set breakpoints.

use std::path::Path;

use alfirk_compiler::preproc::normalize;
use serde::Deserialize;
use serde_json::{json, Value};

use super::{arguments, source, Answer, Debugger, Run};
use crate::expression::Expression;
use crate::navigation::{is_named, Breakpoint, Trigger};
use crate::recording::Place;

/// Options of all kinds of breakpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BreakpointOptions {
    condition: Option<String>,
    hit_condition: Option<String>,
    log_message: Option<String>,
}

impl Debugger {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn breakpoint(
        &mut self,
        trigger: Trigger,
        options: &BreakpointOptions,
    ) -> Result<Breakpoint, String> {
        let condition = match options.condition.as_deref().map(str::trim) {
            None | Some("") => None,
            Some(text) => Some(Expression::parse(text)?),
        };
        let ignored_hits = match options.hit_condition.as_deref().map(str::trim) {
            None | Some("") => 0,
            Some(text) => {
                let count = text.trim_start_matches(['>', '=', ' ']).parse::<u64>();
                let count = count.map_err(|_| format!("the hit count `{text}` is not a number"))?;
                let is_exclusive = text.starts_with('>') && !text.starts_with(">=");
                if is_exclusive {
                    count
                } else {
                    count.saturating_sub(1)
                }
            }
        };
        Ok(Breakpoint {
            id: self.id(),
            trigger,
            condition,
            ignored_hits,
            hits: 0,
            log: options.log_message.clone().filter(|text| !text.is_empty()),
        })
    }

    /// Adds a breakpoint to a list, and returns the protocol's description of it.
    fn add(
        &mut self,
        list: &mut Vec<Breakpoint>,
        trigger: Result<Trigger, String>,
        options: &BreakpointOptions,
    ) -> Value {
        let added = trigger.and_then(|trigger| self.breakpoint(trigger, options));
        match added {
            Ok(breakpoint) => {
                let mut described = json!({"id": breakpoint.id, "verified": true});
                if let Trigger::Line(place) = &breakpoint.trigger {
                    described["line"] = json!(place.line);
                    described["source"] = source(&place.file);
                }
                list.push(breakpoint);
                described
            }
            Err(message) => json!({"id": self.id(), "verified": false, "message": message}),
        }
    }

    pub(super) fn set_breakpoints(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        struct Arguments {
            source: SourceArgument,
            #[serde(default)]
            breakpoints: Vec<LineBreakpoint>,
        }
        #[derive(Deserialize)]
        struct SourceArgument {
            path: Option<String>,
        }
        #[derive(Deserialize)]
        struct LineBreakpoint {
            line: u64,
            #[serde(flatten)]
            options: BreakpointOptions,
        }
        let Arguments {
            source,
            breakpoints,
        } = arguments(request)?;
        let path = source.path.ok_or("the source has no path")?;
        let (mut list, mut described) = (Vec::new(), Vec::new());
        for LineBreakpoint { line, options } in breakpoints {
            let place = self.running().and_then(|run| run.place(&path, line));
            described.push(self.add(&mut list, place.map(Trigger::Line), &options));
        }
        self.breakpoints.insert(path, list);
        Ok(json!({ "breakpoints": described }))
    }

    /// Returns the trigger of a table, an action or a parser state.
    fn function(&mut self, name: String) -> Result<Trigger, String> {
        let run = self.running()?;
        let states = run.states.iter().map(String::as_str);
        let mut all = run.scopes.functions().chain(states);
        match all.any(|full| is_named(full, &name)) {
            true => Ok(Trigger::Function(name)),
            false => Err(format!("`{name}` is not a table, action or parser state")),
        }
    }

    /// Sets the breakpoint of the launch configuration, which editors do not know.
    pub(super) fn stop_at(&mut self, name: &str) -> Result<(), String> {
        let trigger = self.function(name.to_owned())?;
        let breakpoint = self.breakpoint(trigger, &BreakpointOptions::default())?;
        self.breakpoints
            .insert("the attribute stopAt".to_owned(), vec![breakpoint]);
        Ok(())
    }

    pub(super) fn set_function_breakpoints(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        struct Arguments {
            breakpoints: Vec<FunctionBreakpoint>,
        }
        #[derive(Deserialize)]
        struct FunctionBreakpoint {
            name: String,
            #[serde(flatten)]
            options: BreakpointOptions,
        }
        let Arguments { breakpoints } = arguments(request)?;
        let (mut list, mut described) = (Vec::new(), Vec::new());
        for FunctionBreakpoint { name, options } in breakpoints {
            let known = self.function(name);
            described.push(self.add(&mut list, known, &options));
        }
        self.breakpoints.insert(" functions".to_owned(), list);
        Ok(json!({ "breakpoints": described }))
    }

    pub(super) fn set_exception_breakpoints(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        struct Arguments {
            #[serde(default)]
            filters: Vec<String>,
        }
        let Arguments { filters } = arguments(request)?;
        let (mut list, mut described) = (Vec::new(), Vec::new());
        for filter in filters {
            let trigger = match filter.as_str() {
                "drop" => Ok(Trigger::Drop),
                "assert" => Ok(Trigger::Assertion),
                "miss" => Ok(Trigger::Miss),
                other => Err(format!("there is no exception filter `{other}`")),
            };
            described.push(self.add(&mut list, trigger, &BreakpointOptions::default()));
        }
        self.breakpoints.insert(" exceptions".to_owned(), list);
        Ok(json!({ "breakpoints": described }))
    }

    pub(super) fn data_breakpoint_info(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Arguments {
            variables_reference: Option<usize>,
            name: String,
        }
        let Arguments {
            variables_reference,
            name,
        } = arguments(request)?;
        let expression = match variables_reference.filter(|reference| *reference > 0) {
            Some(reference) => self.row(reference, &name)?.expression,
            None => name.clone(),
        };
        let run = self.running()?;
        Ok(match run.data_trigger(&expression) {
            Ok(_) => json!({
                "dataId": expression,
                "description": format!("{expression} is written"),
                "accessTypes": ["write"],
                "canPersist": true,
            }),
            Err(why) => json!({"dataId": null, "description": why}),
        })
    }

    pub(super) fn set_data_breakpoints(&mut self, request: &Value) -> Answer {
        #[derive(Deserialize)]
        struct Arguments {
            breakpoints: Vec<DataBreakpoint>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct DataBreakpoint {
            data_id: String,
            #[serde(flatten)]
            options: BreakpointOptions,
        }
        let Arguments { breakpoints } = arguments(request)?;
        let (mut list, mut described) = (Vec::new(), Vec::new());
        for DataBreakpoint { data_id, options } in breakpoints {
            let trigger = self.running().and_then(|run| run.data_trigger(&data_id));
            described.push(self.add(&mut list, trigger, &options));
        }
        self.breakpoints.insert(" data".to_owned(), list);
        Ok(json!({ "breakpoints": described }))
    }
}

impl Run {
    /// Returns the place of a breakpoint: the line, or the next one that is executed.
    fn place(&self, path: &str, line: u64) -> Result<Place, String> {
        let wanted = normalize(Path::new(path));
        let is_wanted = |file: &str| {
            let file = normalize(Path::new(file));
            file == wanted || (file.is_relative() && wanted.ends_with(&file))
        };
        let mut files = self
            .lines
            .iter()
            .filter(|(file, _)| is_wanted(file))
            .peekable();
        if files.peek().is_none() {
            return Err("the program has no statement in this file".to_owned());
        }
        let mut places = files.filter_map(|(file, lines)| {
            let line = *lines.range(line..).next()?;
            Some(Place {
                file: file.clone(),
                line,
                column: 0,
            })
        });
        let place = places.next();
        place.ok_or_else(|| "no statement follows this line".to_owned())
    }

    fn data_trigger(&self, expression: &str) -> Result<Trigger, String> {
        let expression = expression.trim();
        let stop = self.recording.stop(self.recording.position());
        let full: Vec<String> = expression.split('.').map(str::to_owned).collect();
        match self.scopes.find(&full, stop) {
            Some(variable) => Ok(Trigger::Words(variable.slot, variable.words().len())),
            None => {
                let (array, cell) = self.register_cell(expression)?;
                Ok(Trigger::Register(array, cell))
            }
        }
    }
}
