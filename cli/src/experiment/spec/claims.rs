//! Parses the section `claims` of an experiment file.

use serde_json::Value;

use super::reader::Reader;
use super::{Claim, Extent, Published, Selection, Side, SpecError, Variation};
use crate::experiment::setting::Setting;

impl Reader<'_> {
    /// Parses the section `claims`; `axes` are the swept flags.
    pub(super) fn claims(
        &self,
        value: Option<&Value>,
        axes: &[&str],
    ) -> Result<Vec<Claim>, SpecError> {
        let keys = [
            "text", "of", "to", "at", "value", "paper", "above", "why", "vary",
        ];
        let mut claims = Vec::new();
        for map in self.list("claims", value)? {
            self.check_keys("claims", map, &keys)?;
            let of = self.selection("claims: of", map.get("of"), axes)?;
            let ratio: Vec<&str> = of.iter().map(|(axis, _)| axis.as_str()).collect();
            let claim = Claim {
                text: self.text("claims: text", map.get("text"))?,
                vary: {
                    // Checked in any case.
                    let vary = self.variations(map.get("vary"), axes, &ratio)?;
                    match self.extent {
                        Extent::Quick => Vec::new(),
                        Extent::Whole => vary,
                    }
                },
                of,
                to: match map.get("to") {
                    None => None,
                    to => Some(self.selection("claims: to", to, axes)?),
                },
                at: match map.get("at") {
                    None => Vec::new(),
                    at => self.selection("claims: at", at, axes)?,
                },
                value: self.column("claims: value", map.get("value"))?,
                paper: self.published(map.get("paper"), map.get("above"))?,
                why: match map.get("why") {
                    None => String::new(),
                    why => self.text("claims: why", why)?,
                },
            };
            let names = |place: &Selection| {
                place
                    .iter()
                    .map(|(axis, _)| axis.clone())
                    .collect::<Vec<_>>()
            };
            let single = |place: &Selection| place.iter().all(|(_, values)| values.len() == 1);
            let to = claim.to.as_ref().unwrap_or(&claim.of);
            if names(&claim.of) != names(to) || !single(&claim.of) || !single(to) {
                return self.invalid(
                    "claims: `of` and `to` give one value each of the same axes, in the same order",
                );
            }
            claims.push(claim);
        }
        Ok(claims)
    }

    /// Parses a selection of points by values of swept flags. `place`: part of the file, for messages.
    fn selection(
        &self,
        place: &str,
        value: Option<&Value>,
        axes: &[&str],
    ) -> Result<Selection, SpecError> {
        let Some(value) = value else {
            return self.invalid(format!("{place} is missing"));
        };
        let mut found = Vec::new();
        for (axis, values) in self.map(place, value)? {
            self.check_swept(place, axis, axes)?;
            let values = match values {
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            let values = values.iter().map(|value| self.scalar(place, axis, value));
            found.push((axis.clone(), values.collect::<Result<Vec<_>, _>>()?));
        }
        Ok(found)
    }

    /// Parses the published ratio: `paper` or `above`.
    fn published(
        &self,
        paper: Option<&Value>,
        above: Option<&Value>,
    ) -> Result<Published, SpecError> {
        let good = |number: &Value| number.as_f64().filter(|number| *number > 0.0);
        let published = match (paper, above) {
            (Some(Value::Array(values)), None) => match values.as_slice() {
                [least, most] => good(least)
                    .zip(good(most))
                    .map(|(least, most)| Published::Range(least, most)),
                _ => None,
            },
            (Some(one), None) => good(one).map(Published::Most),
            (None, Some(above)) => good(above).map(Published::Above),
            _ => None,
        };
        match published {
            Some(published) => Ok(published),
            None => self.invalid(
                "claims: give `paper` as the largest ratio or [smallest, largest], or `above` as a lower bound of all ratios",
            ),
        }
    }

    /// Parses the flags that a claim varies. `ratio`: flags that select the sides of the ratio.
    fn variations(
        &self,
        value: Option<&Value>,
        axes: &[&str],
        ratio: &[&str],
    ) -> Result<Vec<Variation>, SpecError> {
        let mut variations = Vec::new();
        for map in self.list("claims: vary", value)? {
            let place = "claims: vary";
            self.check_keys(
                place,
                map,
                &["flag", "about", "side", "at", "values", "with"],
            )?;
            let flag = self.text("claims: vary: flag", map.get("flag"))?;
            self.check_flag(place, &flag)?;
            if ratio.contains(&flag.as_str()) {
                return self.invalid(format!(
                    "{place}: `{flag}` selects the sides of the ratio; vary another flag"
                ));
            }
            let side = match map.get("side").map(|side| side.as_str()) {
                None => Side::Both,
                Some(Some("both")) => Side::Both,
                Some(Some("of")) => Side::Of,
                Some(Some("to")) => Side::To,
                Some(_) => return self.invalid("claims: vary: `side` is both, of or to"),
            };
            let at = match map.get("at") {
                None => Vec::new(),
                at => self.selection("claims: vary: at", at, axes)?,
            };
            let mut with = Vec::new();
            if let Some(flags) = map.get("with") {
                for (flag, value) in self.map("claims: vary: with", flags)? {
                    self.check_flag("claims: vary: with", flag)?;
                    with.push(self.setting("claims: vary: with", flag, value)?);
                }
            }
            variations.push(Variation {
                about: match map.get("about") {
                    None => flag.clone(),
                    about => self.text("claims: vary: about", about)?,
                },
                values: self.varied_values(&flag, map.get("values"))?,
                flag,
                side,
                at,
                with,
            });
        }
        Ok(variations)
    }

    /// Parses the tried values of a varied flag. Each has a label in the file, or is its own label.
    fn varied_values(
        &self,
        flag: &str,
        value: Option<&Value>,
    ) -> Result<Vec<(String, Setting)>, SpecError> {
        let place = "claims: vary: values";
        let mut values = Vec::new();
        match value {
            Some(Value::Array(list)) => {
                for value in list {
                    let name = self.scalar(place, flag, value)?;
                    values.push((name, self.setting(place, flag, value)?));
                }
            }
            Some(Value::Object(map)) => {
                for (name, value) in map {
                    values.push((name.clone(), self.setting(place, flag, value)?));
                }
            }
            _ => return self.invalid(format!("{place}: expected a list, or labels with values")),
        }
        if values.len() < 2 {
            return self.invalid(format!("{place}: `{flag}` has fewer than two values"));
        }
        Ok(values)
    }
}
