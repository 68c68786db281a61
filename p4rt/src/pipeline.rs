//! Forwarding pipeline configs: verify, save, commit, reconcile, get (P4Runtime § 14, § 15).

use std::{borrow::Cow, collections::BTreeMap, ops::Deref, sync::Arc};

use alfirk_p4runtime::Bytes;
use alfirk_p4runtime::{
    p4::config::v1::P4Info,
    p4::tmp::P4DeviceConfig,
    p4::v1::{
        get_forwarding_pipeline_config_request::ResponseType,
        set_forwarding_pipeline_config_request::Action, update::Type, ForwardingPipelineConfig,
        GetForwardingPipelineConfigResponse, SetForwardingPipelineConfigRequest,
    },
    Code, Message, Status,
};

use super::{
    device::{Device, Pipeline},
    digests::Digests,
    error::{failed_precondition, invalid, not_found},
    metadata::{PreMetadata, ProfileMetadata, TableMetadata},
    programs::Programs,
    read,
    schema::Schema,
    translation, write, Server,
};
use alfirk_bmv2::{LoadedProgram, Switch};

/// A verified pipeline config, with its loaded program.
#[derive(Clone, Debug)]
pub(super) struct VerifiedConfig {
    pub(super) program: Arc<LoadedProgram>,
    pub(super) schema: Arc<Schema>,
    pub(super) config: Arc<ForwardingPipelineConfig>,
}

/// A pipeline config of a request: part of the request, or shared with other servers.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConfigRef<'a> {
    Own(&'a ForwardingPipelineConfig),
    Shared(&'a Arc<ForwardingPipelineConfig>),
}

impl ConfigRef<'_> {
    /// Returns the config for storage. Copies it unless it is shared.
    fn to_shared(self) -> Arc<ForwardingPipelineConfig> {
        match self {
            ConfigRef::Own(config) => Arc::new(config.clone()),
            ConfigRef::Shared(config) => Arc::clone(config),
        }
    }
}

impl Deref for ConfigRef<'_> {
    type Target = ForwardingPipelineConfig;

    fn deref(&self) -> &ForwardingPipelineConfig {
        match self {
            ConfigRef::Own(config) => config,
            ConfigRef::Shared(config) => config,
        }
    }
}

fn verify(config: Option<ConfigRef<'_>>, programs: &Programs) -> Result<VerifiedConfig, Status> {
    let config = config.ok_or_else(|| invalid("the request has no config"))?;
    if let Some(verified) = programs.verified(&config) {
        return verified.with_own_translations();
    }
    let info = config
        .p4info
        .as_ref()
        .ok_or_else(|| invalid("the config has no p4info"))?;
    if config.p4_device_config.is_empty() {
        return Err(invalid(
            "the config has no p4_device_config (the BMv2 JSON)",
        ));
    }
    let program = programs
        .load(&device_text(&config.p4_device_config)?)
        .map_err(|error| invalid(format!("p4_device_config: {error}")))?;
    let verified = VerifiedConfig {
        schema: schema(info, &program)?,
        program,
        config: config.to_shared(),
    };
    programs.remember(&verified);
    Ok(verified)
}

fn schema(info: &P4Info, program: &LoadedProgram) -> Result<Arc<Schema>, Status> {
    let schema = Schema::new(info, program).map_err(|error| invalid(error.to_string()))?;
    Ok(Arc::new(schema))
}

/// Returns the BMv2 JSON in a device config. The config is the JSON text itself, or a `p4.tmp.P4DeviceConfig` that
/// contains it, which p4runtime_lib and others send. Such a message never begins with a brace.
pub(super) fn device_text(config: &[u8]) -> Result<Cow<'_, str>, Status> {
    if config.trim_ascii_start().starts_with(b"{") {
        let text = std::str::from_utf8(config)
            .map_err(|error| invalid(format!("p4_device_config is not JSON text: {error}")))?;
        return Ok(text.into());
    }
    let data = P4DeviceConfig::decode(config).map(|message| message.device_data);
    match data.map(String::from_utf8) {
        Ok(Ok(text)) if !text.is_empty() => Ok(text.into()),
        _ => Err(invalid(
            "p4_device_config is neither BMv2 JSON nor a P4DeviceConfig message with BMv2 JSON in it",
        )),
    }
}

impl VerifiedConfig {
    /// Returns the config of another server for this one, which has translated values of its own. Servers share a
    /// schema in which all translated values map to themselves.
    fn with_own_translations(self) -> Result<VerifiedConfig, Status> {
        let info = self.config.p4info.as_ref();
        let mut translations = self.schema.translations.values();
        let is_shareable = translations.all(|of| of.is_shareable());
        match info.filter(|_| !is_shareable) {
            Some(info) => Ok(VerifiedConfig {
                schema: schema(info, &self.program)?,
                ..self
            }),
            None => Ok(self),
        }
    }

    /// Creates a device that runs the config. It has only the entries that the program defines.
    fn into_device(self, server: &Server) -> Device {
        let mut switch = Switch::new(server.active.switch.options().clone());
        switch.load(self.program);
        let released = self.schema.tables.values().filter(|t| t.is_released);
        for table in released.filter_map(|table| table.core) {
            // This cannot fail, since the table belongs to the program.
            let _ = switch.release_initial_entries(table);
        }
        for profile in self.schema.profiles.values() {
            if let Some(core) = profile.core {
                let _ = switch.set_group_limits(core, profile.limits);
            }
        }
        let pipeline = Pipeline {
            schema: self.schema,
            config: self.config,
            tables: TableMetadata::default(),
            profiles: ProfileMetadata::new(server.down.clone()),
            pre: PreMetadata::new(server.down.clone()),
            value_sets: BTreeMap::new(),
            digests: Digests::default(),
            idle_check: None,
        };
        let device = Device {
            switch,
            pipeline: Some(pipeline),
        };
        translation::collect::reserve(&device);
        device
    }
}

impl Server {
    pub(super) fn set_pipeline(
        &mut self,
        request: &SetForwardingPipelineConfigRequest,
        config: Option<ConfigRef<'_>>,
        now: u64,
    ) -> Result<(), Status> {
        let verifies = matches!(request.action(), Action::Unspecified | Action::Verify);
        if !verifies && !self.active.switch.options().may_swap {
            return Err(failed_precondition(
                "the program cannot be replaced: the switch was started with --disable-swap",
            ));
        }
        match request.action() {
            Action::Unspecified => {
                return Err(invalid("action is unset or of an unknown kind"));
            }
            Action::Verify => {
                verify(config, &self.programs)?;
            }
            Action::VerifyAndSave => {
                self.saved = Some(verify(config, &self.programs)?.into_device(self));
            }
            Action::VerifyAndCommit => {
                let device = verify(config, &self.programs)?.into_device(self);
                self.commit(device);
            }
            Action::Commit => {
                if config.is_some() {
                    return Err(invalid("COMMIT must have no config: it runs the saved one"));
                }
                let saved = self.saved.take();
                self.commit(saved.ok_or_else(|| not_found("no config has been saved"))?);
            }
            Action::ReconcileAndCommit => {
                let mut device = verify(config, &self.programs)?.into_device(self);
                if self.active.pipeline.is_some() {
                    replay(&self.active, &mut device, now)?;
                }
                self.commit(device);
            }
        }
        Ok(())
    }

    /// Makes a device the one that processes packets. The switch core drops packets that were queued under the old
    /// program.
    pub(super) fn commit(&mut self, device: Device) {
        self.active.switch.adopt(device.switch);
        self.active.pipeline = device.pipeline;
        self.saved = None;
    }

    pub(super) fn get_pipeline(&self, what: ResponseType) -> GetForwardingPipelineConfigResponse {
        let config = self
            .target()
            .pipeline
            .as_ref()
            .map(|pipeline| &pipeline.config);
        let config = config.map(|config| {
            let p4info = matches!(what, ResponseType::All | ResponseType::P4infoAndCookie);
            let device = matches!(
                what,
                ResponseType::All | ResponseType::DeviceConfigAndCookie
            );
            ForwardingPipelineConfig {
                p4info: config.p4info.clone().filter(|_| p4info),
                p4_device_config: if device {
                    config.p4_device_config.clone()
                } else {
                    Bytes::new()
                },
                cookie: config.cookie,
            }
        });
        GetForwardingPipelineConfigResponse { config }
    }
}

/// Writes everything that controllers have written to the old device to the new one.
fn replay(old: &Device, new: &mut Device, now: u64) -> Result<(), Status> {
    // Registers and queued packets may hold translated values, so the new device takes over the old mappings.
    if let (Some(old), Some(new)) = (&old.pipeline, &new.pipeline) {
        for (name, translation) in &new.schema.translations {
            if let Some(old) = old.schema.translations.get(name) {
                translation.adopt(old);
            }
        }
    }
    for update in read::deletions(old, now)? {
        // The new program may lack this entry, or declare it const.
        let _ = write::apply_update(new, &update, now);
    }
    for mut update in read::snapshot(old, now)? {
        let mut result = write::apply_update(new, &update, now);
        if result
            .as_ref()
            .is_err_and(|s| s.canonical_code() == Code::AlreadyExists)
        {
            // The entry is an initial entry of the program, which exists already in the new device.
            update.r#type = Type::Modify.into();
            result = write::apply_update(new, &update, now);
        }
        result.map_err(|status| Status {
            code: Code::InvalidArgument.into(),
            message: format!(
                "the forwarding state does not fit the new config: {}",
                status.message
            ),
            details: Vec::new(),
        })?;
    }
    Ok(())
}
