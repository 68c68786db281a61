//! Commands for a running transfer, as one type that every driver forwards.
//!
//! A new command needs a variant here, its effect in [`Transfer::act`], and a caller. Drivers, protocols and fabrics forward commands
//! without a change.

use serde::{Deserialize, Serialize};

use super::error::TransferError;
use super::leg::Leg;
use super::spec::{Endpoint, GroupSpec};
use super::transfer::Transfer;
use crate::verbs::Verbs;

/// A command for the legs of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum LegVerb {
    /// [`Transfer::leave`]. The driver reports the slices held after it has handled all earlier completions.
    Leave,
    /// [`Transfer::resume`]. Reply: [`LegAnswer::Endpoints`].
    Resume { leg: Leg },
    /// [`Transfer::proceed`].
    Proceed,
    /// [`Transfer::pace`].
    Pace { limit: u32 },
    /// [`Transfer::pause`]. Reply: [`LegAnswer::Limit`].
    Pause,
    /// [`Transfer::stand_by`]. Reply: [`LegAnswer::Endpoints`] with one endpoint.
    StandBy { group: GroupSpec },
    /// [`Transfer::stand_down`].
    StandDown,
}

/// The result of a [`LegVerb`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LegAnswer {
    Done,
    Endpoints(Vec<Endpoint>),
    Limit(u32),
}

impl Transfer {
    /// Executes a command.
    pub fn act(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        verb: LegVerb,
    ) -> Result<LegAnswer, TransferError> {
        match verb {
            LegVerb::Leave => self.leave(host),
            LegVerb::Resume { leg } => return self.resume(host, leg).map(LegAnswer::Endpoints),
            LegVerb::Proceed => self.proceed(host, now)?,
            LegVerb::Pace { limit } => self.pace(host, now, limit)?,
            LegVerb::Pause => return self.pause(host, now).map(LegAnswer::Limit),
            LegVerb::StandBy { group } => {
                let endpoint = self.stand_by(host, group)?;
                return Ok(LegAnswer::Endpoints(vec![endpoint]));
            }
            LegVerb::StandDown => self.stand_down(host),
        }
        Ok(LegAnswer::Done)
    }
}
