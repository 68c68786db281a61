//! A switch, and the P4Runtime state of its pipeline.

use std::{collections::BTreeMap, sync::Arc};

use alfirk_p4runtime::{
    p4::v1::{ForwardingPipelineConfig, ValueSetMember},
    Code, Status,
};

use super::{
    digests::Digests,
    metadata::{PreMetadata, ProfileMetadata, TableMetadata},
    schema::Schema,
};
use alfirk_bmv2::Switch;

/// A switch, and the P4Runtime state of its pipeline. A server has one device that processes packets, and at times one
/// that is saved for COMMIT.
#[derive(Debug)]
pub struct Device {
    pub switch: Switch,
    /// State of the pipeline; `None` until a controller has set a pipeline config.
    pub pipeline: Option<Pipeline>,
}

/// P4Runtime state of a program, in addition to the state that the switch core stores.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub schema: Arc<Schema>,
    pub config: Arc<ForwardingPipelineConfig>,
    pub tables: TableMetadata,
    pub profiles: ProfileMetadata,
    pub pre: PreMetadata,
    pub value_sets: BTreeMap<u32, Vec<ValueSetMember>>,
    pub digests: Digests,
    /// Time of the next check for idle entries, in nanoseconds; `None` if none is scheduled.
    pub idle_check: Option<u64>,
}

impl Device {
    /// Returns a copy of the device with its state; see [`Switch::fork`].
    pub fn fork(&self) -> Device {
        Device {
            switch: self.switch.fork(),
            pipeline: self.pipeline.clone(),
        }
    }

    /// Returns the switch and its pipeline. An error if no pipeline config is set.
    pub fn configured(&self) -> Result<(&Switch, &Pipeline), Status> {
        let pipeline = self.pipeline.as_ref().ok_or_else(no_pipeline)?;
        Ok((&self.switch, pipeline))
    }
}

/// Returns the status of reads and writes while no pipeline config is set.
pub fn no_pipeline() -> Status {
    Status::new(
        Code::FailedPrecondition,
        "no forwarding pipeline config has been set",
    )
}
