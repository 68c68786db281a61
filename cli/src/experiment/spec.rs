//! An experiment as its file describes it: flags of `alfirk run`, and which of them are varied.
//!
//! ```yaml
//! name: overlays
//! about: One line for people.
//! run:                      # the same for all points: flags of `alfirk run` without their dashes
//!   topology: fat-tree:4
//! sweep:                    # one point for each combination; the first key varies slowest
//!   algorithms: [alfirk, chain]
//!   size: [64B, 1MiB]
//! repeats: 3                # seeds: 1, 2, 3 [default: 1]
//! tables:
//!   - {rows: algorithms, columns: size, value: completion_ns}
//! plots:
//!   - {name: completion, x: size, y: completion_ns, lines: algorithms}
//! per:                      # flags that go with one value of an axis
//!   algorithms: {chain: {slices: 4}}
//! claims:                   # ratios, and what somebody else has found them to be
//!   - text: Chain takes 3 to 5.2 times as long.
//!     of: {algorithms: chain}
//!     to: {algorithms: alfirk}       # [default: the claim is about the number itself]
//!     at: {size: [64B]}     # only there [default: everywhere]
//!     value: completion_ns
//!     paper: [3, 5.2]       # from where to where, or one number: the largest ratio
//!     why: What explains a difference.
//! quick: {sweep: {size: [64B]}}      # replaces keys of `run` and `sweep` where time is short
//! source: Somebody et al., figure 8
//! ```

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::flags::{Flags, Kind};
use super::setting::Setting;

/// The axis that every experiment has, if only with one value.
pub const ALGORITHMS: &str = "algorithms";

/// The numbers of a result that tables and plots can show, as `alfirk run --json` names them.
pub const MEASURED: [&str; 16] = [
    "completion_ns",
    "goodput_gbps",
    "sender_tx_bytes",
    "sender_payload_bytes",
    "wire_packets",
    "sender_acks",
    "retransmissions",
    "dropped_packets",
    "implausible_packets",
    "registration_ns",
    "requests.per_second",
    "requests.mean_ns",
    "requests.p50_ns",
    "requests.p99_ns",
    "requests.max_ns",
    "fairness",
];

/// A file that cannot be used; what is wrong and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct SpecError {
    /// As it was named.
    pub file: String,
    pub what: String,
}

/// A flag whose values are tried one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub flag: String,
    pub values: Vec<Setting>,
}

/// A table over two axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub rows: String,
    pub columns: String,
    /// A column of the results.
    pub value: String,
}

/// A plot of one column of the results over an axis, both logarithmic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// Of its file.
    pub name: String,
    pub x: String,
    /// A column of the results.
    pub y: String,
    /// The axis with a line for each value.
    pub lines: String,
}

/// Values of axes.
pub type Place = Vec<(String, Vec<String>)>;

/// A ratio between two values of axes, and what was published of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// One value each.
    pub of: Place,
    /// One value each; `None` if the claim is about what is measured at `of` itself.
    pub to: Option<Place>,
    /// Where the ratio is looked at, on axes that `of` and `to` leave open.
    pub at: Place,
    /// A column of the results.
    pub value: String,
    /// The least ratio, if one was published, and the largest.
    pub paper: (Option<f64>, f64),
    /// What explains a difference, for people.
    pub why: String,
}

/// Flags that go with one value of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    pub axis: String,
    pub value: String,
    pub settings: Vec<Setting>,
}

/// What is to be measured and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub about: String,
    /// Where the claims were published.
    pub source: String,
    pub fixed: Vec<Setting>,
    pub sweep: Vec<Axis>,
    /// How often each combination is run, each time with the next seed; from 1.
    pub repeats: u64,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub per: Vec<Extra>,
    pub claims: Vec<Claim>,
}

/// How much time there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// With what stands under `quick`.
    Quick,
}

const KEYS: [&str; 11] = [
    "name", "about", "source", "run", "sweep", "repeats", "tables", "plots", "per", "claims",
    "quick",
];
/// More points than anybody waits for: a slip.
pub const MOST_POINTS: usize = 100_000;

impl Experiment {
    /// Reads `text`, in which files are named from the folder of `file`.
    ///
    /// # Errors
    /// The text is no YAML of the form above, or names a flag or column that does not exist.
    pub fn parse(
        file: &Path,
        text: &str,
        flags: &Flags,
        extent: Extent,
    ) -> Result<Experiment, SpecError> {
        let reader = Reader {
            file: file.display().to_string(),
            folder: file.parent().unwrap_or(Path::new("")).to_path_buf(),
            flags,
        };
        reader.experiment(text, extent)
    }
}

/// What points differ in, as flags; the algorithm is always one of them.
pub fn axes(sweep: &[Axis]) -> Vec<&str> {
    let mut axes: Vec<&str> = sweep.iter().map(|axis| axis.flag.as_str()).collect();
    if !axes.contains(&ALGORITHMS) {
        axes.push(ALGORITHMS);
    }
    axes
}

struct Reader<'a> {
    file: String,
    folder: PathBuf,
    flags: &'a Flags,
}

impl Reader<'_> {
    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, SpecError> {
        Err(SpecError {
            file: self.file.clone(),
            what: what.into(),
        })
    }

    fn experiment(&self, text: &str, extent: Extent) -> Result<Experiment, SpecError> {
        let value: Value = match serde_saphyr::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                let message = error.to_string();
                return self.wrong(message.lines().next().unwrap_or("it is no YAML"));
            }
        };
        let map = self.map("the experiment", &value)?;
        self.known("the experiment", map, &KEYS)?;
        let replaced;
        let map = match (extent, map.get("quick")) {
            (Extent::Quick, Some(quick)) => {
                replaced = self.replace(map, quick)?;
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
                _ => return self.wrong(format!("repeats: {value} is no number from 1")),
            },
        };
        let seeded =
            fixed.iter().any(|s| s.flag == "seed") || sweep.iter().any(|a| a.flag == "seed");
        if repeats > 1 && seeded {
            return self
                .wrong("repeats: they have the seeds 1, 2, ...; leave `seed` or `repeats` out");
        }
        let combinations = sweep.iter().map(|axis| axis.values.len());
        let points = combinations
            .chain([usize::try_from(repeats).unwrap_or(usize::MAX)])
            .try_fold(1_usize, usize::checked_mul);
        if points.is_none_or(|points| points > MOST_POINTS) {
            return self.wrong(format!("sweep: it has more than {MOST_POINTS} points"));
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

    /// The whole with keys of `quick` instead of those of the same name.
    fn replace(
        &self,
        map: &Map<String, Value>,
        quick: &Value,
    ) -> Result<Map<String, Value>, SpecError> {
        let quick = self.map("quick", quick)?;
        self.known("quick", quick, &["run", "sweep", "repeats"])?;
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

    fn per(&self, value: Option<&Value>, axes: &[&str]) -> Result<Vec<Extra>, SpecError> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let mut per = Vec::new();
        for (axis, values) in self.map("per", value)? {
            self.swept("per", axis, axes)?;
            for (value, flags) in self.map("per", values)? {
                let mut settings = Vec::new();
                for (flag, value) in self.map("per", flags)? {
                    self.flag("per", flag)?;
                    if axes.contains(&flag.as_str()) {
                        return self
                            .wrong(format!("per: `{flag}` is swept, too; give it in one place"));
                    }
                    settings.push(self.setting("per", flag, value)?);
                }
                let (axis, value) = (axis.clone(), value.clone());
                per.push(Extra {
                    axis,
                    value,
                    settings,
                });
            }
        }
        Ok(per)
    }

    fn claims(&self, value: Option<&Value>, axes: &[&str]) -> Result<Vec<Claim>, SpecError> {
        let keys = ["text", "of", "to", "at", "value", "paper", "why"];
        let mut claims = Vec::new();
        for map in self.list("claims", value)? {
            self.known("claims", map, &keys)?;
            let claim = Claim {
                text: self.text("claims: text", map.get("text"))?,
                of: self.place("claims: of", map.get("of"), axes)?,
                to: match map.get("to") {
                    None => None,
                    to => Some(self.place("claims: to", to, axes)?),
                },
                at: match map.get("at") {
                    None => Vec::new(),
                    at => self.place("claims: at", at, axes)?,
                },
                value: self.column("claims: value", map.get("value"))?,
                paper: self.published(map.get("paper"))?,
                why: match map.get("why") {
                    None => String::new(),
                    why => self.text("claims: why", why)?,
                },
            };
            let names = |place: &Place| {
                place
                    .iter()
                    .map(|(axis, _)| axis.clone())
                    .collect::<Vec<_>>()
            };
            let single = |place: &Place| place.iter().all(|(_, values)| values.len() == 1);
            let to = claim.to.as_ref().unwrap_or(&claim.of);
            if names(&claim.of) != names(to) || !single(&claim.of) || !single(to) {
                return self.wrong(
                    "claims: `of` and `to` give one value each of the same axes, in the same order",
                );
            }
            claims.push(claim);
        }
        Ok(claims)
    }

    fn place(&self, place: &str, value: Option<&Value>, axes: &[&str]) -> Result<Place, SpecError> {
        let Some(value) = value else {
            return self.wrong(format!("{place} is missing"));
        };
        let mut found = Vec::new();
        for (axis, values) in self.map(place, value)? {
            self.swept(place, axis, axes)?;
            let values = match values {
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            let values = values.iter().map(|value| self.scalar(place, axis, value));
            found.push((axis.clone(), values.collect::<Result<Vec<_>, _>>()?));
        }
        Ok(found)
    }

    fn published(&self, value: Option<&Value>) -> Result<(Option<f64>, f64), SpecError> {
        let good = |number: &Value| number.as_f64().filter(|number| *number > 0.0);
        let numbers = match value {
            Some(Value::Array(values)) => match values.as_slice() {
                [least, most] => good(least)
                    .zip(good(most))
                    .map(|(least, most)| (Some(least), most)),
                _ => None,
            },
            Some(one) => good(one).map(|most| (None, most)),
            None => None,
        };
        match numbers {
            Some(numbers) => Ok(numbers),
            None => self.wrong("claims: `paper` is the largest ratio, or [least, largest]"),
        }
    }

    fn swept(&self, place: &str, axis: &str, axes: &[&str]) -> Result<(), SpecError> {
        match axes.contains(&axis) {
            true => Ok(()),
            false => {
                let axes = axes.join(", ");
                self.wrong(format!("{place}: `{axis}` is not swept; what is: {axes}"))
            }
        }
    }

    fn fixed(&self, value: Option<&Value>, sweep: &[Axis]) -> Result<Vec<Setting>, SpecError> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let mut fixed = Vec::new();
        for (flag, value) in self.map("run", value)? {
            self.flag("run", flag)?;
            if sweep.iter().any(|axis| axis.flag == *flag) {
                return self.wrong(format!("run: `{flag}` is swept, too; give it in one place"));
            }
            fixed.push(self.setting("run", flag, value)?);
        }
        Ok(fixed)
    }

    fn sweep(&self, value: Option<&Value>) -> Result<Vec<Axis>, SpecError> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let mut sweep = Vec::new();
        for (flag, values) in self.map("sweep", value)? {
            self.flag("sweep", flag)?;
            let values = match values {
                Value::Array(values) if !values.is_empty() => values.as_slice(),
                Value::Array(_) => return self.wrong(format!("sweep: `{flag}` has no values")),
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
                return self.wrong(format!("sweep: `{flag}` has {value} twice"));
            }
            sweep.push(Axis {
                flag: flag.clone(),
                values: settings,
            });
        }
        Ok(sweep)
    }

    /// A flag that a point may have.
    fn flag(&self, place: &str, flag: &str) -> Result<(), SpecError> {
        match self.flags.kind(flag) {
            Some(Kind::Refused(why)) => self.wrong(format!("{place}: `{flag}` {why}")),
            Some(_) => Ok(()),
            None => {
                let near = near(flag, self.flags.names());
                self.wrong(format!("{place}: `alfirk run` has no flag `{flag}`{near}"))
            }
        }
    }

    fn setting(&self, place: &str, flag: &str, value: &Value) -> Result<Setting, SpecError> {
        let kind = self.flags.kind(flag).expect("it was looked up");
        let value = match (kind, value) {
            (Kind::Switch, Value::Bool(on)) => on.then(String::new),
            (Kind::Switch, _) => {
                return self.wrong(format!("{place}: `{flag}` is true or false, not {value}"));
            }
            (Kind::List, Value::Array(values)) => {
                let values = values.iter().map(|value| self.scalar(place, flag, value));
                Some(values.collect::<Result<Vec<_>, _>>()?.join(","))
            }
            (Kind::File, value) => {
                let name = self.scalar(place, flag, value)?;
                let generated = flag == "topology" && crate::topology::is_generated(&name);
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

    fn scalar(&self, place: &str, flag: &str, value: &Value) -> Result<String, SpecError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => self.wrong(format!("{place}: `{flag}` needs a value, not {value}")),
        }
    }

    fn tables(&self, value: Option<&Value>, axes: &[&str]) -> Result<Vec<Table>, SpecError> {
        let mut tables = Vec::new();
        for map in self.list("tables", value)? {
            self.known("tables", map, &["rows", "columns", "value"])?;
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
            self.known("plots", map, &["name", "x", "y", "lines"])?;
            plots.push(Plot {
                name: self.file_name("plots: name", map.get("name"), "a file")?,
                x: self.axis("plots: x", map.get("x"), axes)?,
                y: self.column("plots: y", map.get("y"))?,
                lines: self.axis("plots: lines", map.get("lines"), axes)?,
            });
        }
        Ok(plots)
    }

    /// A name of `what`, in whose place nothing can be reached elsewhere.
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
            true => self.wrong(format!(
                "{place}: `{name}` names {what}, so it is made of letters, digits, `-`, `_` and `.`"
            )),
        }
    }

    fn axis(&self, place: &str, value: Option<&Value>, axes: &[&str]) -> Result<String, SpecError> {
        let name = self.text(place, value)?;
        self.swept(place, &name, axes)?;
        Ok(name)
    }

    fn column(&self, place: &str, value: Option<&Value>) -> Result<String, SpecError> {
        let name = self.text(place, value)?;
        match MEASURED.contains(&name.as_str()) {
            true => Ok(name),
            false => {
                let near = near(&name, MEASURED);
                self.wrong(format!("{place}: results have no number `{name}`{near}"))
            }
        }
    }

    fn list<'v>(
        &self,
        place: &str,
        value: Option<&'v Value>,
    ) -> Result<Vec<&'v Map<String, Value>>, SpecError> {
        match value {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                values.iter().map(|value| self.map(place, value)).collect()
            }
            Some(other) => self.wrong(format!("{place}: a list is expected, not {other}")),
        }
    }

    fn map<'v>(&self, place: &str, value: &'v Value) -> Result<&'v Map<String, Value>, SpecError> {
        match value {
            Value::Object(map) => Ok(map),
            other => self.wrong(format!(
                "{place}: keys with values are expected, not {other}"
            )),
        }
    }

    fn text(&self, place: &str, value: Option<&Value>) -> Result<String, SpecError> {
        match value {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => self.wrong(format!("{place}: a word is expected, not {other}")),
            None => self.wrong(format!("{place} is missing")),
        }
    }

    fn known(&self, place: &str, map: &Map<String, Value>, keys: &[&str]) -> Result<(), SpecError> {
        match map.keys().find(|key| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let near = near(key, keys.iter().copied());
                self.wrong(format!("{place} has no key `{key}`{near}"))
            }
        }
    }
}

/// `; did you mean X?`, or all that there are where nothing is near.
fn near<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let distance = |name: &&&str| strsim::damerau_levenshtein(word, name);
    match names.iter().min_by_key(distance) {
        Some(name) if distance(&name) <= 1 + word.chars().count() / 3 => {
            format!("; did you mean `{name}`?")
        }
        _ => format!("; there is {}", names.join(", ")),
    }
}
