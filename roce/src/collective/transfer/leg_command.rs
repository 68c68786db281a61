//! Commands that change the legs of a running transfer, as one type that every driver forwards.
//!
//! A new command needs a variant here, its effect in [`Transfer::act`], and a caller. Drivers, protocols and fabrics
//! forward commands unchanged.
//!
//! Terms: a *leg* is the part of a transfer that one algorithm carries. A *slice* is the part of the data in one message. The
//! *root* has rank 0 and the data at the start.

use serde::{Deserialize, Serialize};

use super::leg::Leg;
use super::Transfer;
use crate::collective::error::TransferError;
use crate::collective::spec::{Endpoint, GroupSpec};
use crate::verbs::Verbs;

/// A command for the legs of a transfer. A leg is the part of the transfer that one algorithm carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum LegCommand {
    /// Ends the present leg: [`Transfer::leave`]. The driver reports the slices held after it has handled all earlier
    /// completions.
    Leave,
    /// Creates the queue pairs of the next leg: [`Transfer::resume`]. Reply: [`LegReply::Endpoints`].
    Resume {
        /// The next leg: the algorithm that carries the rest of the data, and what each member lacks.
        leg: Leg,
    },
    /// Starts the next leg: [`Transfer::proceed`].
    Proceed,
    /// Permits the root to post more slices: [`Transfer::pace`].
    Pace {
        /// Number of the first slice (message) that the root must not post.
        limit: u32,
    },
    /// Stops the root from posting more slices: [`Transfer::pause`]. Reply: [`LegReply::Limit`].
    Pause,
    /// Creates a queue pair for a group that the next leg may use: [`Transfer::stand_by`]. Reply:
    /// [`LegReply::Endpoints`] with one endpoint.
    StandBy {
        /// The group to register for the next leg.
        group: GroupSpec,
    },
    /// Destroys the queue pair for a group that the next leg will not use: [`Transfer::stand_down`].
    StandDown,
}

/// Result of a [`LegCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LegReply {
    /// The command was executed and has no other result.
    Done,
    /// Endpoints of the queue pairs that the command has created.
    Endpoints(Vec<Endpoint>),
    /// Number of slices that each member will hold when the paused leg ends.
    Limit(u32),
}

impl Transfer {
    /// Executes a command for the legs of this transfer. `now` is in nanoseconds.
    pub fn act(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        verb: LegCommand,
    ) -> Result<LegReply, TransferError> {
        match verb {
            LegCommand::Leave => self.leave(host),
            LegCommand::Resume { leg } => return self.resume(host, leg).map(LegReply::Endpoints),
            LegCommand::Proceed => self.proceed(host, now)?,
            LegCommand::Pace { limit } => self.pace(host, now, limit)?,
            LegCommand::Pause => return self.pause(host, now).map(LegReply::Limit),
            LegCommand::StandBy { group } => {
                let endpoint = self.stand_by(host, group)?;
                return Ok(LegReply::Endpoints(vec![endpoint]));
            }
            LegCommand::StandDown => self.stand_down(host),
        }
        Ok(LegReply::Done)
    }
}
