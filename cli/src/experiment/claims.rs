//! Checks an experiment's claims: compares measured ratios with those that a paper states.

use super::points::Point;
use super::quantity::{self, Reached};
use super::rows::{measured, Stats};
use super::spec::{Claim, Published, Selection, Variation};
use super::store::Record;
use super::variations;

/// Relative difference up to which a measured ratio agrees with the published one.
pub const TOLERANCE: f64 = 0.25;

/// Result of checking a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding<'c> {
    pub claim: &'c Claim,
    /// Mean, smallest and largest of the measured ratios; `None` if no run of the claim has finished.
    pub ratios: Option<Stats>,
    /// For each flag that the claim varies, how the ratio depends on it.
    pub dependences: Vec<Dependence<'c>>,
}

/// How the ratio of a claim depends on one flag, which is varied.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependence<'c> {
    pub variation: &'c Variation,
    /// Measured ratios for each value of the flag, in the order of the experiment file; `None` where no run has
    /// finished.
    pub ratios: Vec<Option<Stats>>,
}

/// The smallest or the largest ratio of a published range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeEnd {
    Least,
    Most,
}

impl RangeEnd {
    fn of(self, ratios: Stats) -> f64 {
        match self {
            RangeEnd::Least => ratios.least,
            RangeEnd::Most => ratios.most,
        }
    }
}

impl Finding<'_> {
    /// Whether the measured ratios agree with the published ones: smallest and largest within [`TOLERANCE`], or all
    /// above the lower bound.
    pub fn holds(&self) -> bool {
        let mut ends = published(self.claim);
        ends.all(|(bound, paper)| self.is_near(bound, paper))
    }

    /// Whether each published ratio is within the tolerance, or is reached at some value of a flag that the claim
    /// varies.
    fn is_explained(&self) -> bool {
        let mut ends = published(self.claim);
        ends.all(|(bound, paper)| {
            let mut dependences = self.dependences.iter();
            self.is_near(bound, paper)
                || dependences
                    .any(|dependence| dependence.value_where_reached(bound, paper).is_some())
        })
    }

    /// Whether one measured end agrees with the published ratio `paper`: within the tolerance, or above a lower bound.
    fn is_near(&self, bound: RangeEnd, paper: f64) -> bool {
        let above = matches!(self.claim.paper, Published::Above(_));
        self.ratios.is_some_and(|ratios| match above {
            true => bound.of(ratios) > paper,
            false => (bound.of(ratios) / paper - 1.0).abs() <= TOLERANCE,
        })
    }

    /// The verdict: `holds`, `explained`, `differs` or `not measured`.
    pub fn verdict(&self) -> &'static str {
        match (self.ratios, self.holds()) {
            (None, _) => "not measured",
            (_, true) => "holds",
            (_, false) if self.is_explained() => "explained",
            (_, false) => "differs",
        }
    }

    /// The published ratio as text.
    pub fn published_text(&self) -> String {
        match self.claim.paper {
            Published::Most(most) => ratio_text(most),
            Published::Range(least, most) => range_text(least, most),
            Published::Above(least) => format!("above {}", ratio_text(least)),
        }
    }

    /// The measured ratios as text; `-` if no run has finished.
    pub fn measured_text(&self) -> String {
        match self.ratios {
            None => "-".to_owned(),
            Some(ratios) => self.claim.paper.show(ratios),
        }
    }

    /// Largest measured ratio divided by the largest published one; `None` if no number was published.
    pub fn measured_to_published(&self) -> Option<f64> {
        match self.claim.paper {
            Published::Most(most) | Published::Range(_, most) => {
                self.ratios.map(|ratios| ratios.most / most)
            }
            Published::Above(_) => None,
        }
    }

    /// One sentence for each varied flag: how the ratio depends on it, and where the published ratio is reached.
    pub fn dependence_sentences(&self) -> Vec<String> {
        let sentences = self.dependences.iter().map(|dependence| {
            let claim = self.claim;
            dependence.sentence(claim)
        });
        sentences.collect()
    }
}

/// The published ratios of a claim, each with the end of the measured range with which it is compared.
fn published(claim: &Claim) -> impl Iterator<Item = (RangeEnd, f64)> {
    let (least, most) = match claim.paper {
        Published::Most(most) => (None, Some(most)),
        Published::Range(least, most) => (Some(least), Some(most)),
        Published::Above(least) => (Some(least), None),
    };
    let least = least.map(|least| (RangeEnd::Least, least));
    least
        .into_iter()
        .chain(most.map(|most| (RangeEnd::Most, most)))
}

impl Published {
    /// The published ratios: one, or the smallest and the largest of a range.
    pub fn ends(self) -> Vec<f64> {
        match self {
            Published::Most(one) | Published::Above(one) => vec![one],
            Published::Range(least, most) if least == most => vec![most],
            Published::Range(least, most) => vec![least, most],
        }
    }

    /// Formats measured ratios in the form of the published value: a single ratio or a range.
    fn show(self, ratios: Stats) -> String {
        match self {
            Published::Most(_) => ratio_text(ratios.most),
            Published::Range(..) | Published::Above(_) => range_text(ratios.least, ratios.most),
        }
    }
}

impl Dependence<'_> {
    /// Each value of the flag for which a run has finished, with the measured ratios.
    pub fn measured(&self) -> impl Iterator<Item = (&str, Stats)> {
        let names = self.variation.values.iter().map(|(name, _)| name.as_str());
        let both = names.zip(&self.ratios);
        both.filter_map(|(name, ratios)| Some((name, (*ratios)?)))
    }

    /// The value of the flag at which the ratio is `paper`, by interpolation; `None` if `paper` lies outside the
    /// measured ratios.
    fn value_where_reached(&self, bound: RangeEnd, paper: f64) -> Option<Reached> {
        let points: Vec<(&str, f64)> = self
            .measured()
            .map(|(name, ratios)| (name, bound.of(ratios)))
            .collect();
        quantity::reached(&points, paper)
    }

    /// Each published ratio, with the value of the flag at which it is reached; `None` if it is not reached.
    pub fn reached(&self, claim: &Claim) -> Vec<(f64, Option<String>)> {
        let ends = published(claim);
        ends.map(|(bound, paper)| {
            let at = self.value_where_reached(bound, paper);
            (paper, at.map(|at| at.to_string()))
        })
        .collect()
    }

    fn sentence(&self, claim: &Claim) -> String {
        let about = &self.variation.about;
        let measured: Vec<(&str, Stats)> = self.measured().collect();
        let [(first, from), .., (last, to)] = measured[..] else {
            return format!("{about}: not measured.");
        };
        let show = |ratios: Stats| claim.paper.show(ratios);
        let mut text = format!("{about}: {} at {first}, {} at {last}", show(from), show(to));
        for (paper, at) in self.reached(claim) {
            let paper = ratio_text(paper);
            text += &match at {
                Some(at) => format!("; the paper's {paper} {at}"),
                None => format!("; the paper's {paper} at none of them"),
            };
        }
        text + "."
    }
}

/// Formats a ratio with 2 decimals, with 1 from 10 on, and with none from 100 on.
pub fn ratio_text(number: f64) -> String {
    match number {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

fn range_text(least: f64, most: f64) -> String {
    match ratio_text(least) == ratio_text(most) {
        true => ratio_text(most),
        false => format!("{} to {}", ratio_text(least), ratio_text(most)),
    }
}

/// Evaluates a claim. Each ratio divides the mean of the claim's numerator by that of its denominator, at equal values
/// of all other axes (swept flags).
pub fn evaluate<'c>(
    claim: &'c Claim,
    axes: &[&str],
    records: &[(&Point, &Record)],
    dependences: Vec<Dependence<'c>>,
) -> Finding<'c> {
    Finding {
        claim,
        ratios: ratios(claim, &claim.at, axes, records),
        dependences,
    }
}

/// Ratios of a claim for one value of a varied flag. `records` are the results with that value.
pub fn evaluate_at_value(
    claim: &Claim,
    variation: &Variation,
    axes: &[&str],
    records: &[(&Point, &Record)],
) -> Option<Stats> {
    // An axis that the variation sets does not select points.
    let is_varied = |axis: &str| {
        let mut with = variation.with.iter();
        axis == variation.flag || with.any(|setting| setting.flag == axis)
    };
    let axes: Vec<&str> = axes
        .iter()
        .copied()
        .filter(|axis| !is_varied(axis))
        .collect();
    let mut at = variations::selected(claim, variation);
    at.retain(|(axis, _)| !is_varied(axis));
    ratios(claim, &at, &axes, records)
}

/// Measured ratios of a claim at the axes' values `at`; `None` if there are none.
fn ratios(
    claim: &Claim,
    at: &Selection,
    axes: &[&str],
    records: &[(&Point, &Record)],
) -> Option<Stats> {
    let others = || {
        axes.iter()
            .filter(|axis| !claim.of.iter().any(|(name, _)| name == *axis))
    };
    let elsewhere = |point: &Point| {
        others()
            .map(|axis| point.value(axis).to_owned())
            .collect::<Vec<_>>()
    };
    let mean = |place: &Selection, elsewhere_: &[String]| {
        let here = records
            .iter()
            .filter(|(point, _)| point.is_at(place) && elsewhere(point) == elsewhere_);
        let numbers: Vec<f64> = here
            .filter_map(|(_, record)| measured(record, &claim.value))
            .collect();
        Stats::of(&numbers).map(|stats| stats.mean)
    };
    let mut ratios = Vec::new();
    let mut seen: Vec<Vec<String>> = Vec::new();
    for (point, _) in records {
        let here = elsewhere(point);
        if !point.is_at(&claim.of) || !point.is_at(at) || seen.contains(&here) {
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
    Stats::of(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::setting::Setting;
    use crate::experiment::spec::Side;

    fn claim(paper: Published) -> Claim {
        let value = |name: &str, value: &str| {
            let (flag, value) = ("host-model".to_owned(), Some(value.to_owned()));
            (name.to_owned(), Setting { flag, value })
        };
        Claim {
            text: "Three to five.".to_owned(),
            of: Vec::new(),
            to: None,
            at: Vec::new(),
            value: "completion_ns".to_owned(),
            paper,
            why: String::new(),
            vary: vec![Variation {
                flag: "host-model".to_owned(),
                about: "Cost".to_owned(),
                side: Side::Both,
                at: Vec::new(),
                values: vec![value("0us", "free"), value("4us", "relay-delay=4us")],
                with: Vec::new(),
            }],
        }
    }

    /// A finding with ratio 2 at the first value, and the given ratios at the two others.
    fn finding(claim: &Claim, ratios: [f64; 2]) -> Finding<'_> {
        let ratios = ratios.map(|ratio| Stats::of(&[ratio]));
        Finding {
            claim,
            ratios: Stats::of(&[2.0]),
            dependences: vec![Dependence {
                variation: &claim.vary[0],
                ratios: ratios.to_vec(),
            }],
        }
    }

    #[test]
    fn difference_is_explained_if_a_variation_reaches_each_published_end() {
        let range = claim(Published::Range(3.0, 5.0));
        assert_eq!(finding(&range, [2.0, 6.0]).verdict(), "explained");
        assert_eq!(finding(&range, [2.0, 4.0]).verdict(), "differs");
        let dependences = finding(&range, [2.0, 6.0]).dependence_sentences();
        let wanted = "Cost: 2.00 at 0us, 6.00 at 4us; the paper's 3.00 at about 1 us; the paper's 5.00 at about 3 us.";
        assert_eq!(dependences, [wanted]);
        let near = claim(Published::Most(2.4));
        assert_eq!(finding(&near, [9.0, 9.0]).verdict(), "holds");
    }

    #[test]
    fn lower_bound_holds_if_all_ratios_exceed_it() {
        let above = claim(Published::Above(1.9));
        let holds = finding(&above, [1.0, 1.0]);
        assert_eq!(
            (holds.verdict(), holds.measured_to_published()),
            ("holds", None)
        );
        assert_eq!(holds.published_text(), "above 1.90");
        let not = claim(Published::Above(2.0));
        assert_eq!(finding(&not, [1.0, 1.5]).verdict(), "differs");
    }
}
