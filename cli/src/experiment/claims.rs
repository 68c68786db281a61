//! Published ratios beside the measured ones.

use super::points::Point;
use super::quantity::{self, Reached};
use super::rows::{measured, Stats};
use super::spec::{Claim, Place, Published, Variation};
use super::store::Record;
use super::variations;

/// How far a measured ratio may be from the published one, as a share of it.
pub const TOLERANCE: f64 = 0.25;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding<'c> {
    pub claim: &'c Claim,
    /// Of the ratios at all places that the claim is about; `None` if nothing was measured there.
    pub ratios: Option<Stats>,
    /// What it depends on.
    pub dependences: Vec<Dependence<'c>>,
}

/// The ratio of a claim as a function of a flag.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependence<'c> {
    pub variation: &'c Variation,
    /// For each of its values, in their order.
    pub ratios: Vec<Option<Stats>>,
}

/// Which end of a range of ratios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Least,
    Most,
}

impl Bound {
    fn of(self, ratios: Stats) -> f64 {
        match self {
            Bound::Least => ratios.least,
            Bound::Most => ratios.most,
        }
    }
}

impl Finding<'_> {
    /// Whether what was published lies within [`TOLERANCE`] of what was measured, at both ends.
    pub fn holds(&self) -> bool {
        let mut ends = published(self.claim);
        ends.all(|(bound, paper)| self.is_near(bound, paper))
    }

    /// Whether each published end that is not near what was measured comes out at a value of what is varied.
    fn is_explained(&self) -> bool {
        let mut ends = published(self.claim);
        ends.all(|(bound, paper)| {
            let mut dependences = self.dependences.iter();
            self.is_near(bound, paper)
                || dependences.any(|dependence| dependence.reaches(bound, paper).is_some())
        })
    }

    fn is_near(&self, bound: Bound, paper: f64) -> bool {
        let above = matches!(self.claim.paper, Published::Above(_));
        self.ratios.is_some_and(|ratios| match above {
            true => bound.of(ratios) > paper,
            false => (bound.of(ratios) / paper - 1.0).abs() <= TOLERANCE,
        })
    }

    /// One or two words for that.
    pub fn verdict(&self) -> &'static str {
        match (self.ratios, self.holds()) {
            (None, _) => "not measured",
            (_, true) => "holds",
            (_, false) if self.is_explained() => "explained",
            (_, false) => "differs",
        }
    }

    /// The published ratio.
    pub fn paper(&self) -> String {
        match self.claim.paper {
            Published::Most(most) => ratio(most),
            Published::Range(least, most) => range(least, most),
            Published::Above(least) => format!("above {}", ratio(least)),
        }
    }

    /// The measured one.
    pub fn ours(&self) -> String {
        match self.ratios {
            None => "-".to_owned(),
            Some(ratios) => self.claim.paper.show(ratios),
        }
    }

    /// The measured ratio divided by the published one, of the largest; `None` if no number was published.
    pub fn factor(&self) -> Option<f64> {
        match self.claim.paper {
            Published::Most(most) | Published::Range(_, most) => {
                self.ratios.map(|ratios| ratios.most / most)
            }
            Published::Above(_) => None,
        }
    }

    /// A sentence for each flag that is varied: how the ratio depends on it, and where the published one comes out.
    pub fn dependences(&self) -> Vec<String> {
        let told = self.dependences.iter().map(|dependence| {
            let claim = self.claim;
            dependence.sentence(claim)
        });
        told.collect()
    }
}

fn published(claim: &Claim) -> impl Iterator<Item = (Bound, f64)> {
    let (least, most) = match claim.paper {
        Published::Most(most) => (None, Some(most)),
        Published::Range(least, most) => (Some(least), Some(most)),
        Published::Above(least) => (Some(least), None),
    };
    let least = least.map(|least| (Bound::Least, least));
    least
        .into_iter()
        .chain(most.map(|most| (Bound::Most, most)))
}

impl Published {
    /// The numbers.
    pub fn ends(self) -> Vec<f64> {
        match self {
            Published::Most(one) | Published::Above(one) => vec![one],
            Published::Range(least, most) if least == most => vec![most],
            Published::Range(least, most) => vec![least, most],
        }
    }

    /// Measured ratios, as far as they are to be compared with it.
    fn show(self, ratios: Stats) -> String {
        match self {
            Published::Most(_) => ratio(ratios.most),
            Published::Range(..) | Published::Above(_) => range(ratios.least, ratios.most),
        }
    }
}

impl Dependence<'_> {
    /// The values that were measured, with their ratios.
    pub fn measured(&self) -> impl Iterator<Item = (&str, Stats)> {
        let names = self.variation.values.iter().map(|(name, _)| name.as_str());
        let both = names.zip(&self.ratios);
        both.filter_map(|(name, ratios)| Some((name, (*ratios)?)))
    }

    /// At which value a published end comes out; `None` if at none that was tried or lies between.
    fn reaches(&self, bound: Bound, paper: f64) -> Option<Reached> {
        let points: Vec<(&str, f64)> = self
            .measured()
            .map(|(name, ratios)| (name, bound.of(ratios)))
            .collect();
        quantity::reached(&points, paper)
    }

    /// Each published end, and the value at which it comes out.
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

/// A ratio for people.
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

/// Looks at a claim: the ratio wherever the other axes are the same, repeats taken together.
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

/// The same while a flag has one of its values; `records` are those of that value.
pub fn depends(
    claim: &Claim,
    variation: &Variation,
    axes: &[&str],
    records: &[(&Point, &Record)],
) -> Option<Stats> {
    // What the variation gives a value is no place any more.
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

    /// Measured 2 at the usual value, and so much at the two others.
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
    fn a_difference_is_explained_where_something_varied_gives_each_published_end() {
        let range = claim(Published::Range(3.0, 5.0));
        assert_eq!(finding(&range, [2.0, 6.0]).verdict(), "explained");
        assert_eq!(finding(&range, [2.0, 4.0]).verdict(), "differs");
        let told = finding(&range, [2.0, 6.0]).dependences();
        let wanted = "Cost: 2.00 at 0us, 6.00 at 4us; the paper's 3.00 at about 1 us; the paper's 5.00 at about 3 us.";
        assert_eq!(told, [wanted]);
        let near = claim(Published::Most(2.4));
        assert_eq!(finding(&near, [9.0, 9.0]).verdict(), "holds");
    }

    #[test]
    fn what_is_only_said_to_be_more_holds_when_all_is_more() {
        let above = claim(Published::Above(1.9));
        let holds = finding(&above, [1.0, 1.0]);
        assert_eq!((holds.verdict(), holds.factor()), ("holds", None));
        assert_eq!(holds.paper(), "above 1.90");
        let not = claim(Published::Above(2.0));
        assert_eq!(finding(&not, [1.0, 1.5]).verdict(), "differs");
    }
}
