//! Access of other control services (Thrift, STF) to the switch that a P4Runtime server owns.
//!
//! All services change the switch by the functions of [`alfirk_bmv2::Switch`], which record what they change as
//! [`Change`] events. P4Runtime follows the events of others: it discards its own data of a changed object, so that
//! reads show the switch's state.

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use super::{
    device::{Device, Pipeline},
    pipeline, tables, Server,
};
use alfirk_bmv2::{Change, Digest, LoadedProgram, ProfileId, Switch, TableId};

impl Server {
    /// Returns the switch to which reads and writes refer. This is the one with a saved or loaded program that does not
    /// run yet, if there is one, else the one that processes packets.
    pub fn target_switch(&self) -> &Switch {
        &self.target().switch
    }

    /// Returns the switch to which reads and writes refer, so that another control service can change it.
    pub fn target_switch_mut(&mut self) -> SwitchWriter<'_> {
        SwitchWriter::new(self.target_mut())
    }

    /// Returns the switch that processes packets, so that another control service can change it. P4Runtime reads show
    /// entries written this way, but without metadata.
    pub fn switch_mut(&mut self) -> SwitchWriter<'_> {
        SwitchWriter::new(&mut self.active)
    }

    /// Returns the JSON text of the device config that a controller has set for the running program.
    pub fn device_config(&self) -> Option<Cow<'_, str>> {
        let pipeline = self.active.pipeline.as_ref()?;
        pipeline::device_text(&pipeline.config.p4_device_config).ok()
    }

    /// Loads a program without starting it, while the old program continues to run. Multicast groups and clone sessions
    /// are copied. Returns false when another program waits for its start already.
    pub fn load_beside(&mut self, program: Arc<LoadedProgram>) -> bool {
        if self.saved.is_some() {
            return false;
        }
        let mut switch = Switch::new(self.active.switch.options().clone());
        switch.load(program);
        if let (Ok(old), Ok(new)) = (self.active.switch.pre(), switch.pre_mut()) {
            new.clone_from(old);
        }
        self.saved = Some(Device {
            switch,
            pipeline: None,
        });
        true
    }

    /// Starts the program that [`Server::load_beside`] has loaded. Returns false when there is none.
    pub fn swap(&mut self) -> bool {
        let saved = self.saved.take();
        let is_there = saved.is_some();
        if let Some(device) = saved {
            self.commit(device);
        }
        is_there
    }

    /// Discards the program that [`Server::load_beside`] has loaded, if there is one.
    pub fn discard(&mut self) {
        self.saved = None;
    }

    /// Keeps digests of the data plane for [`Server::take_digests`] from now on, in addition to those that P4Runtime sends.
    pub fn observe_digests(&mut self) {
        self.digests = Some(Vec::new());
    }

    /// Returns the digests since the last call, in order.
    pub fn take_digests(&mut self) -> Vec<Digest> {
        self.digests
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Whether the link of a port is down.
    pub fn is_down(&self, port: u32) -> bool {
        self.down.contains(&port)
    }

    /// Handles the acknowledgement of a digest list by a Thrift client: of the messages with the indexes `messages`, or
    /// of all messages.
    pub fn acknowledge_digests(&mut self, list_id: u32, list: u64, messages: Option<&[usize]>) {
        self.with_digest(list_id, |digests, digest| match messages {
            Some(messages) => digests.acknowledge_some(digest, list, messages),
            None => {
                digests.acknowledge(digest, list);
            }
        });
    }

    /// Sets how long messages of a digest wait until they are sent, if a controller has enabled the digest.
    pub fn set_digest_timeout(&mut self, list_id: u32, nanoseconds: i64) {
        self.with_digest(list_id, |digests, digest| {
            if let Some(mut config) = digests.config(digest) {
                config.max_timeout_ns = nanoseconds;
                digests.configure(digest, config);
            }
        });
    }

    /// Sets the maximum number of messages in a digest's lists, if a controller has enabled the digest.
    pub fn set_digest_list_size(&mut self, list_id: u32, messages: i32) {
        self.with_digest(list_id, |digests, digest| {
            if let Some(mut config) = digests.config(digest) {
                config.max_list_size = messages;
                digests.configure(digest, config);
            }
        });
    }

    /// Calls `f` with the digests and the id of the digest that belongs to a learn list of the program, if the P4Info
    /// has such a digest.
    fn with_digest(&mut self, list_id: u32, f: impl FnOnce(&mut super::digests::Digests, u32)) {
        let Some(name) = self.active.switch.learn_list(list_id) else {
            return;
        };
        if let Some(pipeline) = &mut self.active.pipeline {
            if let Some(digest) = pipeline.schema.digest_id(&name) {
                f(&mut pipeline.digests, digest);
            }
        }
    }
}

/// Access of another control service to a switch. When it is dropped, P4Runtime discards its own data of all objects
/// that the service has changed.
#[derive(Debug)]
pub struct SwitchWriter<'a>(&'a mut Device);

impl SwitchWriter<'_> {
    fn new(device: &mut Device) -> SwitchWriter<'_> {
        device.switch.observe_changes();
        SwitchWriter(device)
    }
}

impl Deref for SwitchWriter<'_> {
    type Target = Switch;

    fn deref(&self) -> &Switch {
        &self.0.switch
    }
}

impl DerefMut for SwitchWriter<'_> {
    fn deref_mut(&mut self) -> &mut Switch {
        &mut self.0.switch
    }
}

impl Drop for SwitchWriter<'_> {
    fn drop(&mut self) {
        for change in self.0.switch.take_changes() {
            self.0.follow(&change);
        }
    }
}

impl Device {
    /// Discards the data that P4Runtime holds for an object that another service has changed.
    fn follow(&mut self, change: &Change) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        match change {
            Change::Entry { table, entry } => {
                if let Some(id) = pipeline.table_id(*table) {
                    tables::discard_metadata(&mut self.switch, pipeline, id, *entry);
                }
            }
            // An immediate check determines the time of the next one.
            Change::IdleTimeout => pipeline.idle_check = Some(0),
            Change::Default { table, is_restored } => {
                if let Some(id) = pipeline.table_id(*table) {
                    pipeline.tables.mark_default(id, !is_restored);
                }
            }
            Change::Member {
                profile,
                id: member,
            } => {
                if let Some(id) = pipeline.profile_id(&self.switch, *profile) {
                    pipeline.profiles.discard_member(id, *member);
                }
            }
            Change::Group { profile, id: group } => {
                if let Some(id) = pipeline.profile_id(&self.switch, *profile) {
                    pipeline.profiles.discard_group(id, *group);
                }
            }
            Change::MulticastGroup(group) => pipeline.pre.discard_group(*group),
            Change::CloneSession(session) => pipeline.pre.discard_session(*session),
            Change::ValueSet(name) => {
                let mut sets = pipeline.schema.value_sets.iter();
                if let Some((id, _)) = sets.find(|(_, set)| set.name == *name) {
                    pipeline.value_sets.remove(id);
                }
            }
            Change::Cleared => {
                pipeline.tables = Default::default();
                pipeline.profiles.discard_all();
                pipeline.pre.discard_groups();
            }
        }
    }
}

impl Pipeline {
    fn table_id(&self, core: TableId) -> Option<u32> {
        let mut tables = self.schema.tables.values();
        tables.find(|t| t.core == Some(core)).map(|t| t.id)
    }

    fn profile_id(&self, switch: &Switch, core: ProfileId) -> Option<u32> {
        let name = switch.profile_name(core).ok()?;
        let mut profiles = self.schema.profiles.values();
        profiles.find(|p| p.name == name).map(|p| p.id)
    }
}
