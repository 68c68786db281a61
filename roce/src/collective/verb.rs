//! What may be asked of a member's transfer on its way, as one type that every driver passes on.
//!
//! A new verb is a variant here, what it does in [`Transfer::act`], and a line in whoever asks; no driver, protocol or fabric that
//! carries verbs need know it.

use serde::{Deserialize, Serialize};

use super::error::TransferError;
use super::leg::Leg;
use super::spec::{Endpoint, GroupSpec};
use super::transfer::Transfer;
use crate::verbs::Verbs;

/// Something to do with the legs of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum LegVerb {
    /// [`Transfer::leave`]. The driver reports what is held when it has handled what was delivered before.
    Leave,
    /// [`Transfer::resume`]. Answer: [`LegAnswer::Endpoints`].
    Resume { leg: Leg },
    /// [`Transfer::proceed`].
    Proceed,
    /// [`Transfer::pace`].
    Pace { limit: u32 },
    /// [`Transfer::pause`]. Answer: [`LegAnswer::Limit`].
    Pause,
    /// [`Transfer::stand_by`]. Answer: [`LegAnswer::Endpoints`] with one.
    StandBy { group: GroupSpec },
    /// [`Transfer::stand_down`].
    StandDown,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LegAnswer {
    Done,
    Endpoints(Vec<Endpoint>),
    Limit(u32),
}

impl Transfer {
    /// Does what a verb says.
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
