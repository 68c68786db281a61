//! A switch with a pipeline, which requests work on.

use std::{collections::BTreeMap, sync::Arc};

use alfirk_p4runtime::{
    p4::v1::{ForwardingPipelineConfig, ValueSetMember},
    Code, Status,
};

use super::{
    books::{PreBook, ProfileBook, TableBook},
    digests::Digests,
    schema::Schema,
};
use alfirk_bmv2::Switch;

/// A switch together with its pipeline's P4Runtime side.
#[derive(Debug)]
pub struct Device {
    pub switch: Switch,
    /// None until a controller has set a config.
    pub pipeline: Option<Pipeline>,
}

/// What P4Runtime knows of a running or saved program beyond the switch's own state.
#[derive(Debug)]
pub struct Pipeline {
    pub schema: Arc<Schema>,
    pub config: ForwardingPipelineConfig,
    pub tables: TableBook,
    pub profiles: ProfileBook,
    pub pre: PreBook,
    pub value_sets: BTreeMap<u32, Vec<ValueSetMember>>,
    pub digests: Digests,
    /// When entries with an idle timeout are to be looked at.
    pub idle_check: Option<u64>,
}

impl Device {
    /// The pipeline, or the status that every request gets before one is set.
    pub fn configured(&self) -> Result<(&Switch, &Pipeline), Status> {
        let pipeline = self.pipeline.as_ref().ok_or_else(no_pipeline)?;
        Ok((&self.switch, pipeline))
    }
}

/// Before a config is set there is nothing to read or write.
pub fn no_pipeline() -> Status {
    Status::new(
        Code::FailedPrecondition,
        "no forwarding pipeline config has been set",
    )
}
