//! Points outside the sweep, for claims that vary a flag.

use super::points::{check, id, replace, Point};
use super::setting::Setting;
use super::spec::{Axis, Claim, Experiment, Place, Side, Variation};
use crate::exit::Failure;

/// The points of one variation of one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varied {
    /// Index of the claim in the experiment, and of the variation in the claim.
    pub of: (usize, usize),
    /// Names of the points of the ratio for each value; some of them may belong to the sweep.
    pub values: Vec<Vec<String>>,
}

/// All variations, and the points that are not in the sweep.
///
/// # Errors
/// A value is not valid at the claim's points; the message names it.
pub fn enumerate(
    experiment: &Experiment,
    swept: &[Point],
) -> Result<(Vec<Varied>, Vec<Point>), Failure> {
    let (mut all, mut new) = (Vec::new(), Vec::<Point>::new());
    for (number, claim) in experiment.claims.iter().enumerate() {
        for (at, variation) in claim.vary.iter().enumerate() {
            let mut values = Vec::new();
            for (_, value) in &variation.values {
                let mut names: Vec<String> = Vec::new();
                for point in points(experiment, claim, variation, value, swept)? {
                    if !names.contains(&point.id) {
                        names.push(point.id.clone());
                    }
                    let known = swept.iter().chain(&new).any(|other| other.id == point.id);
                    if !known {
                        new.push(point);
                    }
                }
                values.push(names);
            }
            let of = (number, at);
            all.push(Varied { of, values });
        }
    }
    Ok((all, new))
}

/// Points of a claim for one value of a variation.
fn points(
    experiment: &Experiment,
    claim: &Claim,
    variation: &Variation,
    value: &Setting,
    swept: &[Point],
) -> Result<Vec<Point>, Failure> {
    let at = places(claim, variation);
    let of = swept.iter().filter(|point| point.is_at(&claim.of));
    let of = of.map(|point| (point, variation.side != Side::To));
    let to = swept.iter().filter(|point| match &claim.to {
        Some(to) => point.is_at(to),
        None => false,
    });
    let to = to.map(|point| (point, variation.side != Side::Of));
    let mut points = Vec::new();
    for (point, is_varied) in of.chain(to).filter(|(point, _)| point.is_at(&at)) {
        if !is_varied {
            points.push(point.clone());
            continue;
        }
        let mut settings = point.settings.clone();
        for setting in variation.with.iter().chain([value]) {
            replace(&mut settings, setting.clone());
        }
        check(&settings)?;
        let id = id(experiment, &settings);
        points.push(Point { id, settings });
    }
    Ok(points)
}

/// Points of a claim while a flag is varied: the claim's own, unless the variation gives others. An axis that is itself varied is reduced to
/// the first value of the sweep, from which the others are derived.
pub fn places(claim: &Claim, variation: &Variation) -> Place {
    let other = |(axis, _): &&(String, Vec<String>)| {
        let own = variation.at.iter().any(|(own, _)| own == axis);
        !own && *axis != variation.flag
    };
    let claimed = claim.at.iter().filter(other);
    claimed.chain(&variation.at).cloned().collect()
}

/// Flags that are varied but not swept: additional columns of results.
pub fn flags<'e>(experiment: &'e Experiment, sweep: &[Axis]) -> Vec<&'e str> {
    let mut flags = Vec::new();
    for variation in experiment.claims.iter().flat_map(|claim| &claim.vary) {
        let with = variation.with.iter().map(|setting| setting.flag.as_str());
        for flag in with.chain([variation.flag.as_str()]) {
            if !flags.contains(&flag) && !sweep.iter().any(|axis| axis.flag == flag) {
                flags.push(flag);
            }
        }
    }
    flags
}
