//! Parser of experiment files.

use std::path::PathBuf;

use alfirk_stf::did_you_mean;
use serde_json::{Map, Value};

use super::{
    axes, Axis, DependentFlags, Experiment, Extent, Plot, SpecError, Table, MAX_POINTS, MEASURED,
};
use crate::experiment::flags::{Flags, Kind};
use crate::experiment::setting::Setting;

/// Keys of an experiment file.
const KEYS: [&str; 11] = [
    "name", "about", "source", "run", "sweep", "repeats", "tables", "plots", "per", "claims",
    "quick",
];

/// Parser of an experiment file.
pub(super) struct Reader<'a> {
    /// Path of the experiment file as given, for messages.
    pub(super) file: String,
    /// Folder of the experiment file, to which file names in it are relative.
    pub(super) folder: PathBuf,
    pub(super) flags: &'a Flags,
    pub(super) extent: Extent,
}

impl Reader<'_> {
    /// Returns the error that this file is not valid; `what` says why.
    pub(super) fn invalid<T>(&self, what: impl Into<String>) -> Result<T, SpecError> {
        Err(SpecError {
            file: self.file.clone(),
            what: what.into(),
        })
    }

    /// Parses and checks the text of the file.
    pub(super) fn experiment(&self, text: &str) -> Result<Experiment, SpecError> {
        let value: Value = match serde_saphyr::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                let message = error.to_string();
                return self.invalid(message.lines().next().unwrap_or("not YAML"));
            }
        };
        let map = self.map("the experiment", &value)?;
        self.check_keys("the experiment", map, &KEYS)?;
        let replaced;
        let map = match (self.extent, map.get("quick")) {
            (Extent::Quick, Some(quick)) => {
                replaced = self.apply_quick(map, quick)?;
                &replaced
            }
            _ => map,
        };
        let name = self.file_name("name", map.get("name"), "a folder of results")?;
        let optional = |key: &str| match map.get(key) {
            None => Ok(String::new()),
            text => self.text(key, text),
        };
        let (about, source) = (optional("about")?, optional("source")?);
        let sweep = self.sweep(map.get("sweep"))?;
        let fixed = self.fixed(map.get("run"), &sweep)?;
        let repeats = match map.get("repeats") {
            None => 1,
            Some(value) => match value.as_u64() {
                Some(repeats) if repeats > 0 => repeats,
                _ => {
                    return self.invalid(format!(
                        "repeats: expected a number of at least 1, not {value}"
                    ))
                }
            },
        };
        let seeded =
            fixed.iter().any(|s| s.flag == "seed") || sweep.iter().any(|a| a.flag == "seed");
        if repeats > 1 && seeded {
            return self.invalid(
                "repeats: repeated runs have the seeds 1, 2, ...; leave `seed` or `repeats` out",
            );
        }
        let combinations = sweep.iter().map(|axis| axis.values.len());
        let points = combinations
            .chain([usize::try_from(repeats).unwrap_or(usize::MAX)])
            .try_fold(1_usize, usize::checked_mul);
        if points.is_none_or(|points| points > MAX_POINTS) {
            return self.invalid(format!("sweep: it has more than {MAX_POINTS} points"));
        }
        let axes = axes(&sweep);
        let tables = self.tables(map.get("tables"), &axes)?;
        let plots = self.plots(map.get("plots"), &axes)?;
        let per = self.per(map.get("per"), &axes)?;
        let claims = self.claims(map.get("claims"), &axes)?;
        Ok(Experiment {
            name,
            about,
            source,
            fixed,
            sweep,
            repeats,
            tables,
            plots,
            per,
            claims,
        })
    }

    /// Applies the section `quick`: returns the file with its keys in place of those of the same name.
    fn apply_quick(
        &self,
        map: &Map<String, Value>,
        quick: &Value,
    ) -> Result<Map<String, Value>, SpecError> {
        let quick = self.map("quick", quick)?;
        self.check_keys("quick", quick, &["run", "sweep", "repeats"])?;
        let mut map = map.clone();
        for (part, keys) in quick {
            match (map.get_mut(part), keys) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    old.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                (_, value) => {
                    map.insert(part.clone(), value.clone());
                }
            }
        }
        Ok(map)
    }

    /// Parses the section `per`: flags that are set together with one value of a swept flag.
    fn per(&self, value: Option<&Value>, axes: &[&str]) -> Result<Vec<DependentFlags>, SpecError> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let mut per = Vec::new();
        for (axis, values) in self.map("per", value)? {
            self.check_swept("per", axis, axes)?;
            for (value, flags) in self.map("per", values)? {
                let mut settings = Vec::new();
                for (flag, value) in self.map("per", flags)? {
                    self.check_flag("per", flag)?;
                    if axes.contains(&flag.as_str()) {
                        return self
                            .invalid(format!("per: `{flag}` is swept, too; give it in one place"));
                    }
                    settings.push(self.setting("per", flag, value)?);
                }
                let (axis, value) = (axis.clone(), value.clone());
                per.push(DependentFlags {
                    axis,
                    value,
                    settings,
                });
            }
        }
        Ok(per)
    }

    /// Checks that the flag `axis` is swept. `place`: part of the file, for messages.
    pub(super) fn check_swept(
        &self,
        place: &str,
        axis: &str,
        axes: &[&str],
    ) -> Result<(), SpecError> {
        match axes.contains(&axis) {
            true => Ok(()),
            false => {
                let axes = axes.join(", ");
                self.invalid(format!(
                    "{place}: `{axis}` is not swept; the axes are {axes}"
                ))
            }
        }
    }

    /// Parses the section `run`: flags with the same value at all points.
    fn fixed(&self, value: Option<&Value>, sweep: &[Axis]) -> Result<Vec<Setting>, SpecError> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let mut fixed = Vec::new();
        for (flag, value) in self.map("run", value)? {
            self.check_flag("run", flag)?;
            if sweep.iter().any(|axis| axis.flag == *flag) {
                return self.invalid(format!("run: `{flag}` is swept, too; give it in one place"));
            }
            fixed.push(self.setting("run", flag, value)?);
        }
        Ok(fixed)
    }

    /// Parses the section `sweep`: the swept flags with their values.
    fn sweep(&self, value: Option<&Value>) -> Result<Vec<Axis>, SpecError> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let mut sweep = Vec::new();
        for (flag, values) in self.map("sweep", value)? {
            self.check_flag("sweep", flag)?;
            let values = match values {
                Value::Array(values) if !values.is_empty() => values.as_slice(),
                Value::Array(_) => return self.invalid(format!("sweep: `{flag}` has no values")),
                one => std::slice::from_ref(one),
            };
            let settings = values
                .iter()
                .map(|value| self.setting("sweep", flag, value));
            let settings = settings.collect::<Result<Vec<_>, _>>()?;
            if let Some(twice) =
                (1..settings.len()).find(|&at| settings[..at].contains(&settings[at]))
            {
                let value = &values[twice];
                return self.invalid(format!("sweep: `{flag}` has {value} twice"));
            }
            sweep.push(Axis {
                flag: flag.clone(),
                values: settings,
            });
        }
        Ok(sweep)
    }

    /// Checks that `alfirk run` has this flag, and that experiments may use it.
    pub(super) fn check_flag(&self, place: &str, flag: &str) -> Result<(), SpecError> {
        match self.flags.kind(flag) {
            Some(Kind::Refused(why)) => self.invalid(format!("{place}: `{flag}` {why}")),
            Some(_) => Ok(()),
            None => {
                let near = did_you_mean(flag, self.flags.names());
                self.invalid(format!("{place}: `alfirk run` has no flag `{flag}`{near}"))
            }
        }
    }

    /// Parses the value of a flag, which may have a label and additional flags.
    pub(super) fn setting(
        &self,
        place: &str,
        flag: &str,
        value: &Value,
    ) -> Result<Setting, SpecError> {
        let kind = self.flags.kind(flag).expect("it was looked up");
        let value = match (kind, value) {
            (Kind::Switch, Value::Bool(on)) => on.then(String::new),
            (Kind::Switch, _) => {
                return self.invalid(format!(
                    "{place}: expected true or false for `{flag}`, not {value}"
                ));
            }
            (Kind::List, Value::Array(values)) => {
                let values = values.iter().map(|value| self.scalar(place, flag, value));
                Some(values.collect::<Result<Vec<_>, _>>()?.join(","))
            }
            (Kind::File, value) => {
                let name = self.scalar(place, flag, value)?;
                let generated =
                    flag == "topology" && alfirk_ctrl::topology::is_generator_spec(&name);
                Some(match generated {
                    true => name,
                    false => self.folder.join(name).display().to_string(),
                })
            }
            (_, value) => Some(self.scalar(place, flag, value)?),
        };
        let flag = flag.to_owned();
        Ok(Setting { flag, value })
    }

    /// Parses the value of a flag without additional flags.
    pub(super) fn scalar(
        &self,
        place: &str,
        flag: &str,
        value: &Value,
    ) -> Result<String, SpecError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => self.invalid(format!("{place}: `{flag}` needs a value, not {value}")),
        }
    }

    fn tables(&self, value: Option<&Value>, axes: &[&str]) -> Result<Vec<Table>, SpecError> {
        let mut tables = Vec::new();
        for map in self.list("tables", value)? {
            self.check_keys("tables", map, &["rows", "columns", "value"])?;
            tables.push(Table {
                rows: self.axis("tables: rows", map.get("rows"), axes)?,
                columns: self.axis("tables: columns", map.get("columns"), axes)?,
                value: self.column("tables: value", map.get("value"))?,
            });
        }
        Ok(tables)
    }

    fn plots(&self, value: Option<&Value>, axes: &[&str]) -> Result<Vec<Plot>, SpecError> {
        let mut plots = Vec::new();
        for map in self.list("plots", value)? {
            self.check_keys("plots", map, &["name", "x", "y", "lines"])?;
            plots.push(Plot {
                name: self.file_name("plots: name", map.get("name"), "a file")?,
                x: self.axis("plots: x", map.get("x"), axes)?,
                y: self.column("plots: y", map.get("y"))?,
                lines: self.axis("plots: lines", map.get("lines"), axes)?,
            });
        }
        Ok(plots)
    }

    /// A file name without a path; `what` describes the file.
    fn file_name(
        &self,
        place: &str,
        value: Option<&Value>,
        what: &str,
    ) -> Result<String, SpecError> {
        let name = self.text(place, value)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
            false => Ok(name),
            true => self.invalid(format!(
                "{place}: `{name}` is not a valid name of {what}; use letters, digits, `-`, `_` and `.`"
            )),
        }
    }

    fn axis(&self, place: &str, value: Option<&Value>, axes: &[&str]) -> Result<String, SpecError> {
        let name = self.text(place, value)?;
        self.check_swept(place, &name, axes)?;
        Ok(name)
    }

    /// Parses the name of a measured column of the results.
    pub(super) fn column(&self, place: &str, value: Option<&Value>) -> Result<String, SpecError> {
        let name = self.text(place, value)?;
        match MEASURED.contains(&name.as_str()) {
            true => Ok(name),
            false => {
                let near = did_you_mean(&name, MEASURED);
                self.invalid(format!(
                    "{place}: results have no numeric column `{name}`{near}"
                ))
            }
        }
    }

    /// Parses a list of maps; empty if `value` is `None`.
    pub(super) fn list<'v>(
        &self,
        place: &str,
        value: Option<&'v Value>,
    ) -> Result<Vec<&'v Map<String, Value>>, SpecError> {
        match value {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                values.iter().map(|value| self.map(place, value)).collect()
            }
            Some(other) => self.invalid(format!("{place}: expected a list, not {other}")),
        }
    }

    /// Checks that a value is a map.
    pub(super) fn map<'v>(
        &self,
        place: &str,
        value: &'v Value,
    ) -> Result<&'v Map<String, Value>, SpecError> {
        match value {
            Value::Object(map) => Ok(map),
            other => self.invalid(format!("{place}: expected keys with values, not {other}")),
        }
    }

    /// Parses a required string.
    pub(super) fn text(&self, place: &str, value: Option<&Value>) -> Result<String, SpecError> {
        match value {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => self.invalid(format!("{place}: expected a string, not {other}")),
            None => self.invalid(format!("{place} is missing")),
        }
    }

    /// Checks that a map has only the keys `keys`.
    pub(super) fn check_keys(
        &self,
        place: &str,
        map: &Map<String, Value>,
        keys: &[&str],
    ) -> Result<(), SpecError> {
        match map.keys().find(|key| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let near = did_you_mean(key, keys.iter().copied());
                self.invalid(format!("{place} has no key `{key}`{near}"))
            }
        }
    }
}
