//! Lists the points (runs) that claims need beyond the sweep, because they vary a flag.

use super::points::{check, point_id, replace, Point};
use super::setting::Setting;
use super::spec::{Axis, Claim, Experiment, Selection, Side, Variation};
use crate::exit::Failure;

/// The points of one claim while one flag is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariationPoints {
    /// Index of the claim in the experiment, and index of the variation in [`Claim::vary`].
    pub claim_and_variation: (usize, usize),
    /// For each value of the flag, the names of the points that the ratio is computed from. Some may belong to the
    /// sweep.
    pub values: Vec<Vec<String>>,
}

/// Lists the variations of all claims, and the points that they need beyond those of the sweep (`swept`).
///
/// # Errors
/// A varied value is not valid with the other flags of a point; the message has all flags as a command.
pub fn enumerate(
    experiment: &Experiment,
    swept: &[Point],
) -> Result<(Vec<VariationPoints>, Vec<Point>), Failure> {
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
            let claim_and_variation = (number, at);
            all.push(VariationPoints {
                claim_and_variation,
                values,
            });
        }
    }
    Ok((all, new))
}

/// Points from which the ratio of a claim is computed while the varied flag has the value `value`.
fn points(
    experiment: &Experiment,
    claim: &Claim,
    variation: &Variation,
    value: &Setting,
    swept: &[Point],
) -> Result<Vec<Point>, Failure> {
    let at = selected(claim, variation);
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
        let id = point_id(experiment, &settings);
        points.push(Point { id, settings });
    }
    Ok(points)
}

/// Selects the points of a claim while a flag is varied: those of the claim's `at`, except for flags that the variation
/// selects itself and for the varied flag.
pub fn selected(claim: &Claim, variation: &Variation) -> Selection {
    let other = |(axis, _): &&(String, Vec<String>)| {
        let own = variation.at.iter().any(|(own, _)| own == axis);
        !own && *axis != variation.flag
    };
    let claimed = claim.at.iter().filter(other);
    claimed.chain(&variation.at).cloned().collect()
}

/// Flags that claims vary but that are not swept; results have further columns for them.
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
