//! The points of an experiment: one run of one algorithm each.

use alfirk_roce::collective::Digest;

use super::flags;
use super::setting::Setting;
use super::spec::{Axis, Experiment, Selection, ALGORITHMS, MAX_POINTS};
use crate::exit::Failure;
use crate::run::Config;

/// One run of one algorithm: all its flags, and its unique name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Unique name: the values of the swept flags, then a hash of all flags.
    pub id: String,
    /// All flags of the run, including algorithm and seed.
    pub settings: Vec<Setting>,
}

/// Name of the flag `--seed`.
const SEED: &str = "seed";

impl Point {
    /// Value of a flag, as on the command line. A flag without a value is `on`; one that is not given is `off`.
    pub fn value(&self, flag: &str) -> &str {
        let setting = self.settings.iter().find(|setting| setting.flag == flag);
        match setting.map(|setting| setting.value.as_deref()) {
            None | Some(None) => "off",
            Some(Some("")) => "on",
            Some(Some(value)) => value,
        }
    }

    /// Whether the run has this flag.
    pub fn has(&self, flag: &str) -> bool {
        self.settings.iter().any(|setting| setting.flag == flag)
    }

    /// Whether the flags of the run have values that `place` selects.
    pub fn is_at(&self, place: &Selection) -> bool {
        let fits =
            |(axis, values): &(String, Vec<String>)| values.iter().any(|v| v == self.value(axis));
        place.iter().all(fits)
    }

    /// The checked configuration of the run.
    ///
    /// # Errors
    /// A flag's value is not valid on this machine; the message names all flags.
    pub fn config(&self) -> Result<Config, Failure> {
        check(&self.settings)
    }
}

/// Converts text to characters for a file name: all but letters, digits and dots become `-`.
pub fn file_word(text: &str) -> impl Iterator<Item = char> + '_ {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    text.chars().map(move |c| if is_plain(c) { c } else { '-' })
}

/// Lists the points of the sweep: for each combination of swept values, a point for each algorithm and seed. All are
/// checked as by `alfirk run`.
///
/// # Errors
/// A combination of flags is not valid; the message names all its flags.
pub fn enumerate(experiment: &Experiment) -> Result<Vec<Point>, Failure> {
    let mut points: Vec<Point> = Vec::new();
    let mut at = vec![0; experiment.sweep.len()];
    loop {
        let chosen: Vec<(&Axis, &Setting)> = experiment
            .sweep
            .iter()
            .zip(&at)
            .map(|(axis, &index)| (axis, &axis.values[index]))
            .collect();
        let mut settings = experiment.fixed.clone();
        settings.extend(chosen.iter().map(|(_, setting)| (*setting).clone()));
        let mut whole = settings.clone();
        add_dependent_flags(experiment, &mut whole);
        for algorithm in algorithms(&whole)? {
            let mut settings = settings.clone();
            replace(&mut settings, setting(ALGORITHMS, algorithm));
            if add_dependent_flags(experiment, &mut settings) {
                check(&settings)?;
            }
            points.extend(repeats(experiment, &settings));
        }
        if points.len() > MAX_POINTS {
            return Err(Failure::bad_input(format_args!(
                "{}: it has more than {MAX_POINTS} points",
                experiment.name
            )));
        }
        if !next_combination(&mut at, &experiment.sweep) {
            break;
        }
    }
    Ok(points)
}

/// Advances to the next combination of swept values; returns false after the last one. `at`: index of the value of each
/// axis; the last axis varies fastest.
fn next_combination(at: &mut [usize], sweep: &[Axis]) -> bool {
    for (index, axis) in at.iter_mut().zip(sweep).rev() {
        *index += 1;
        if *index < axis.values.len() {
            return true;
        }
        *index = 0;
    }
    false
}

/// Names of the algorithms that these flags select; `all` selects those that can run with the other flags.
fn algorithms(settings: &[Setting]) -> Result<Vec<String>, Failure> {
    let config = check(settings)?;
    Ok(config.algorithms.iter().map(ToString::to_string).collect())
}

/// Checks flags as `alfirk run` does, and returns the configuration.
///
/// # Errors
/// A flag or its value is not valid; the message has all flags as a command.
pub fn check(settings: &[Setting]) -> Result<Config, Failure> {
    let name = |what: &dyn std::fmt::Display| {
        Failure::bad_input(format_args!("{}: {what}", flags::command_line(settings)))
    };
    let args = flags::parse(settings).map_err(|what| name(&what))?;
    args.check().map_err(|failure| match failure {
        Failure::BadInput(what) => name(&what),
        other => other,
    })
}

/// Adds the flags that the section `per` of the experiment file attaches to the values in `settings`; returns whether
/// there were any.
fn add_dependent_flags(experiment: &Experiment, settings: &mut Vec<Setting>) -> bool {
    let mut any = false;
    for extra in &experiment.per {
        let is_value = |setting: &Setting| {
            setting.flag == extra.axis && setting.value.as_ref() == Some(&extra.value)
        };
        if settings.iter().any(is_value) {
            settings.retain(|old| !extra.settings.iter().any(|new| new.flag == old.flag));
            settings.extend(extra.settings.iter().cloned());
            any = true;
        }
    }
    any
}

/// Points with these flags: one for each seed, or a single one if the flags set the seed.
fn repeats(experiment: &Experiment, settings: &[Setting]) -> Vec<Point> {
    let one = |seed: Option<u64>| {
        let mut settings = settings.to_vec();
        if let Some(seed) = seed {
            replace(&mut settings, setting(SEED, seed.to_string()));
        }
        let id = point_id(experiment, &settings);
        Point { id, settings }
    };
    let seeded = settings.iter().any(|setting| setting.flag == SEED);
    match seeded {
        true => vec![one(None)],
        false => (1..=experiment.repeats)
            .map(|seed| one(Some(seed)))
            .collect(),
    }
}

fn setting(flag: &str, value: String) -> Setting {
    Setting {
        flag: flag.to_owned(),
        value: Some(value),
    }
}

/// Replaces the setting of a flag, or adds it if the flag has none.
pub fn replace(settings: &mut Vec<Setting>, new: Setting) {
    match settings.iter_mut().find(|old| old.flag == new.flag) {
        Some(old) => *old = new,
        None => settings.push(new),
    }
}

/// Unique name of the run with these flags ([`Point::id`]).
pub fn point_id(experiment: &Experiment, settings: &[Setting]) -> String {
    let variations = experiment.claims.iter().flat_map(|claim| &claim.vary);
    let is_varied = |flag: &str| variations.clone().any(|variation| variation.flag == flag);
    let varied = |setting: &&Setting| {
        experiment
            .sweep
            .iter()
            .any(|axis| axis.flag == setting.flag)
            || is_varied(&setting.flag)
            || [ALGORITHMS, SEED].contains(&setting.flag.as_str())
    };
    let mut name = String::new();
    for setting in settings.iter().filter(varied) {
        let Some(value) = &setting.value else {
            continue;
        };
        let last = value.rsplit('/').next().unwrap_or(value);
        let word = if last.is_empty() { &setting.flag } else { last };
        name.extend(file_word(word).take(40));
        name.push('_');
    }
    let digest = Digest::of(flags::words(settings).join("\0").as_bytes());
    name + &digest.to_string()[..8]
}
