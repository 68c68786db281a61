//! Compares measured ratios with published ones.

use super::points::Point;
use super::quantity::{self, Reached};
use super::rows::{measured, Stats};
use super::spec::{Claim, Place, Published, Variation};
use super::store::Record;
use super::variations;

/// Tolerated relative difference between a measured and a published ratio.
pub const TOLERANCE: f64 = 0.25;

/// Result of checking a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding<'c> {
    pub claim: &'c Claim,
    /// Measured ratios at all points of the claim; `None` if nothing was measured there.
    pub ratios: Option<Stats>,
    /// Dependences of the ratio on varied flags.
    pub dependences: Vec<Dependence<'c>>,
}

/// The ratio of a claim as a function of a flag.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependence<'c> {
    pub variation: &'c Variation,
    /// Ratios for each value of the flag, in the file's order.
    pub ratios: Vec<Option<Stats>>,
}

/// One end of a published range.
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
    /// Whether both ends of the published range are within [`TOLERANCE`] of the measured one.
    pub fn holds(&self) -> bool {
        let mut ends = published(self.claim);
        ends.all(|(bound, paper)| self.is_near(bound, paper))
    }

    /// Whether each published end outside the tolerance is reached at some value of a varied flag.
    fn is_explained(&self) -> bool {
        let mut ends = published(self.claim);
        ends.all(|(bound, paper)| {
            let mut dependences = self.dependences.iter();
            self.is_near(bound, paper)
                || dependences.any(|dependence| dependence.reaches(bound, paper).is_some())
        })
    }

    fn is_near(&self, bound: RangeEnd, paper: f64) -> bool {
        let above = matches!(self.claim.paper, Published::Above(_));
        self.ratios.is_some_and(|ratios| match above {
            true => bound.of(ratios) > paper,
            false => (bound.of(ratios) / paper - 1.0).abs() <= TOLERANCE,
        })
    }

    /// The verdict in one or two words.
    pub fn verdict(&self) -> &'static str {
        match (self.ratios, self.holds()) {
            (None, _) => "not measured",
            (_, true) => "holds",
            (_, false) if self.is_explained() => "explained",
            (_, false) => "differs",
        }
    }

    /// The published ratio as text.
    pub fn paper(&self) -> String {
        match self.claim.paper {
            Published::Most(most) => ratio(most),
            Published::Range(least, most) => range(least, most),
            Published::Above(least) => format!("above {}", ratio(least)),
        }
    }

    /// The measured ratio as text.
    pub fn ours(&self) -> String {
        match self.ratios {
            None => "-".to_owned(),
            Some(ratios) => self.claim.paper.show(ratios),
        }
    }

    /// Largest measured ratio divided by the largest published one; `None` if no number was published.
    pub fn factor(&self) -> Option<f64> {
        match self.claim.paper {
            Published::Most(most) | Published::Range(_, most) => {
                self.ratios.map(|ratios| ratios.most / most)
            }
            Published::Above(_) => None,
        }
    }

    /// One sentence for each varied flag: how the ratio depends on it, and where the published ratio is reached.
    pub fn dependences(&self) -> Vec<String> {
        let sentences = self.dependences.iter().map(|dependence| {
            let claim = self.claim;
            dependence.sentence(claim)
        });
        sentences.collect()
    }
}

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
    /// The published numbers.
    pub fn ends(self) -> Vec<f64> {
        match self {
            Published::Most(one) | Published::Above(one) => vec![one],
            Published::Range(least, most) if least == most => vec![most],
            Published::Range(least, most) => vec![least, most],
        }
    }

    /// Formats measured ratios in the form of the published ones.
    fn show(self, ratios: Stats) -> String {
        match self {
            Published::Most(_) => ratio(ratios.most),
            Published::Range(..) | Published::Above(_) => range(ratios.least, ratios.most),
        }
    }
}

impl Dependence<'_> {
    /// Measured values of the flag, with their ratios.
    pub fn measured(&self) -> impl Iterator<Item = (&str, Stats)> {
        let names = self.variation.values.iter().map(|(name, _)| name.as_str());
        let both = names.zip(&self.ratios);
        both.filter_map(|(name, ratios)| Some((name, (*ratios)?)))
    }

    /// The value at which a published end is reached; `None` if it is not reached at or between tried values.
    fn reaches(&self, bound: RangeEnd, paper: f64) -> Option<Reached> {
        let points: Vec<(&str, f64)> = self
            .measured()
            .map(|(name, ratios)| (name, bound.of(ratios)))
            .collect();
        quantity::reached(&points, paper)
    }

    /// Each published end, with the value at which it is reached.
    pub fn reached(&self, claim: &Claim) -> Vec<(f64, Option<String>)> {
        let ends = published(claim);
        ends.map(|(bound, paper)| {
            let at = self.reaches(bound, paper);
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
            let paper = ratio(paper);
            text += &match at {
                Some(at) => format!("; the paper's {paper} {at}"),
                None => format!("; the paper's {paper} at none of them"),
            };
        }
        text + "."
    }
}

/// Formats a ratio.
pub fn ratio(number: f64) -> String {
    match number {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

fn range(least: f64, most: f64) -> String {
    match ratio(least) == ratio(most) {
        true => ratio(most),
        false => format!("{} to {}", ratio(least), ratio(most)),
    }
}

/// Evaluates a claim: the ratio at all points that agree in the other axes, over all repeats.
pub fn look<'c>(
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

/// Evaluates a claim while a flag has one of its values; `records` are those of that value.
pub fn depends(
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
    let mut at = variations::places(claim, variation);
    at.retain(|(axis, _)| !is_varied(axis));
    ratios(claim, &at, &axes, records)
}

fn ratios(
    claim: &Claim,
    at: &Place,
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
    let mean = |place: &Place, elsewhere_: &[String]| {
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
        let dependences = finding(&range, [2.0, 6.0]).dependences();
        let wanted = "Cost: 2.00 at 0us, 6.00 at 4us; the paper's 3.00 at about 1 us; the paper's 5.00 at about 3 us.";
        assert_eq!(dependences, [wanted]);
        let near = claim(Published::Most(2.4));
        assert_eq!(finding(&near, [9.0, 9.0]).verdict(), "holds");
    }

    #[test]
    fn lower_bound_holds_if_all_ratios_exceed_it() {
        let above = claim(Published::Above(1.9));
        let holds = finding(&above, [1.0, 1.0]);
        assert_eq!((holds.verdict(), holds.factor()), ("holds", None));
        assert_eq!(holds.paper(), "above 1.90");
        let not = claim(Published::Above(2.0));
        assert_eq!(finding(&not, [1.0, 1.5]).verdict(), "differs");
    }
}
