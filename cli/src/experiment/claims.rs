//! Published ratios beside the measured ones.

use super::points::Point;
use super::rows::{measured, Stats};
use super::spec::{Claim, Place};
use super::store::Record;

/// How far a measured ratio may be from the published one, as a share of it.
pub const TOLERANCE: f64 = 0.25;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding<'c> {
    pub claim: &'c Claim,
    /// Of the ratios at all places that the claim is about; `None` if nothing was measured there.
    pub ratios: Option<Stats>,
}

impl Finding<'_> {
    /// Whether what was published lies within [`TOLERANCE`] of what was measured, at both ends.
    pub fn holds(&self) -> bool {
        let near = |ours: f64, paper: f64| (ours / paper - 1.0).abs() <= TOLERANCE;
        self.ratios.is_some_and(|ratios| {
            let (least, most) = self.claim.paper;
            least.is_none_or(|least| near(ratios.least, least)) && near(ratios.most, most)
        })
    }

    /// One or two words for that.
    pub fn verdict(&self) -> &'static str {
        match (self.ratios, self.holds()) {
            (None, _) => "not measured",
            (_, true) => "holds",
            (_, false) => "differs",
        }
    }

    /// The published ratio.
    pub fn paper(&self) -> String {
        range(
            self.claim.paper.0.unwrap_or(self.claim.paper.1),
            self.claim.paper.1,
        )
    }

    /// The measured one.
    pub fn ours(&self) -> String {
        match (self.ratios, self.claim.paper.0) {
            (None, _) => "-".to_owned(),
            (Some(ratios), Some(_)) => range(ratios.least, ratios.most),
            (Some(ratios), None) => range(ratios.most, ratios.most),
        }
    }

    /// The measured ratio divided by the published one, of the largest.
    pub fn factor(&self) -> Option<f64> {
        self.ratios.map(|ratios| ratios.most / self.claim.paper.1)
    }
}

fn range(least: f64, most: f64) -> String {
    let show = |number: f64| match number {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    match show(least) == show(most) {
        true => show(most),
        false => format!("{} to {}", show(least), show(most)),
    }
}

/// Looks at a claim: the ratio wherever the other axes are the same, repeats taken together.
pub fn look<'c>(claim: &'c Claim, axes: &[&str], records: &[(&Point, &Record)]) -> Finding<'c> {
    let among = |point: &Point, place: &Place| {
        let fits =
            |(axis, values): &(String, Vec<String>)| values.iter().any(|v| v == point.value(axis));
        place.iter().all(fits)
    };
    let others = || {
        axes.iter()
            .filter(|axis| !claim.of.iter().any(|(name, _)| name == *axis))
    };
    let elsewhere = |point: &Point| {
        others()
            .map(|axis| point.value(axis).to_owned())
            .collect::<Vec<_>>()
    };
    let mean = |place: &Place, elsewhere_: &[String]| {
        let here = records
            .iter()
            .filter(|(point, _)| among(point, place) && elsewhere(point) == elsewhere_);
        let numbers: Vec<f64> = here
            .filter_map(|(_, record)| measured(record, &claim.value))
            .collect();
        Stats::of(&numbers).map(|stats| stats.mean)
    };
    let mut ratios = Vec::new();
    let mut seen: Vec<Vec<String>> = Vec::new();
    for (point, _) in records {
        let here = elsewhere(point);
        if !among(point, &claim.of) || !among(point, &claim.at) || seen.contains(&here) {
            continue;
        }
        let base = match &claim.to {
            None => Some(1.0),
            Some(to) => mean(to, &here),
        };
        if let (Some(of), Some(to)) = (mean(&claim.of, &here), base) {
            ratios.push(of / to);
        }
        seen.push(here);
    }
    Finding {
        claim,
        ratios: Stats::of(&ratios),
    }
}
