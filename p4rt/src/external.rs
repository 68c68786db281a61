//! Changes that bypass P4Runtime: those of Thrift. Both servers share one switch core. When Thrift changes an
//! object, P4Runtime discards its own data of that object, so that reads return the core's state.

use std::{borrow::Cow, sync::Arc};

use super::{
    device::{Device, Pipeline},
    pipeline, tables, Server,
};
use alfirk_bmv2::{EntryHandle, LoadedProgram, Switch};

impl Server {
    /// Returns the switch that reads and writes refer to: the saved or loaded one that is not running yet, if there
    /// is one, else the running one.
    pub fn target_switch(&self) -> &Switch {
        &self.target().switch
    }

    /// Mutable form of [`Server::target_switch`].
    pub fn target_switch_mut(&mut self) -> &mut Switch {
        &mut self.target_mut().switch
    }

    /// Returns the JSON text of the device config that a controller has set for the running program.
    pub fn device_config(&self) -> Option<Cow<'_, str>> {
        let pipeline = self.active.pipeline.as_ref()?;
        pipeline::device_text(&pipeline.config.p4_device_config).ok()
    }

    /// Loads a program beside the running one, with the same multicast groups and clone sessions. Returns false when a
    /// program has been loaded already.
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

    /// Starts the program that was loaded beside the running one. Returns false when there is none.
    pub fn swap(&mut self) -> bool {
        let saved = self.saved.take();
        let is_there = saved.is_some();
        if let Some(device) = saved {
            self.commit(device);
        }
        is_there
    }

    /// Records that Thrift has set a table's default action (`is_set`), or has restored the program's own.
    pub fn default_was_set(&mut self, table: &str, is_set: bool) {
        self.target_mut().with_table(table, |device, table| {
            let pipeline = device.pipeline.as_mut()?;
            pipeline.tables.mark_default(table, is_set);
            Some(())
        });
    }

    /// Discards the metadata of an entry that was deleted, or given another action, by Thrift.
    pub fn discard_entry(&mut self, table: &str, entry: EntryHandle) {
        self.target_mut().with_table(table, |device, table| {
            tables::discard_metadata(&mut device.switch, device.pipeline.as_mut()?, table, entry);
            Some(())
        });
    }

    /// Discards the metadata of all entries of a table that Thrift has cleared.
    pub fn discard_entries(&mut self, table: &str) {
        self.target_mut().with_table(table, |device, table| {
            let pipeline = device.pipeline.as_mut()?;
            for entry in pipeline.tables.entries_of(table) {
                tables::discard_metadata(&mut device.switch, pipeline, table, entry);
            }
            Some(())
        });
    }

    /// Schedules a check for idle entries, after Thrift has set an idle timeout.
    pub fn check_idle_entries(&mut self, now: u64) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.idle_check = Some(now);
        }
    }

    /// Discards the message of an action profile member that Thrift has changed.
    pub fn discard_member(&mut self, profile: &str, member: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            if let Some(id) = pipeline.profile_id(profile) {
                pipeline.profiles.discard_member(id, member);
            }
        }
    }

    /// Discards the message of an action profile group that Thrift has changed.
    pub fn discard_group(&mut self, profile: &str, group: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            if let Some(id) = pipeline.profile_id(profile) {
                pipeline.profiles.discard_group(id, group);
            }
        }
    }

    /// Discards the message of a multicast group that Thrift has changed.
    pub fn discard_multicast_group(&mut self, group: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.pre.discard_group(group);
        }
    }

    /// Discards the message of a clone session that Thrift has changed.
    pub fn discard_clone_session(&mut self, session: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.pre.discard_session(session);
        }
    }

    /// Discards the message of a parser value set that Thrift has changed.
    pub fn discard_value_set(&mut self, set: &str) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            let sets = &pipeline.schema.value_sets;
            if let Some((&id, _)) = sets.iter().find(|(_, s)| s.name == set) {
                pipeline.value_sets.remove(&id);
            }
        }
    }

    /// Discards everything, after Thrift has cleared tables, action profiles and multicast groups.
    pub fn discard_all(&mut self) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.tables = Default::default();
            pipeline.profiles.discard_all();
            pipeline.pre.discard_groups();
        }
    }

    /// Handles Thrift's acknowledgement of a digest list, or of the `messages` with these indexes.
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

    /// Sets the maximum length of a digest's lists, if a controller has enabled the digest.
    pub fn set_digest_list_size(&mut self, list_id: u32, messages: i32) {
        self.with_digest(list_id, |digests, digest| {
            if let Some(mut config) = digests.config(digest) {
                config.max_list_size = messages;
                digests.configure(digest, config);
            }
        });
    }

    /// Calls `f` with the digest of one of the program's field lists, if it is enabled.
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

impl Pipeline {
    fn profile_id(&self, name: &str) -> Option<u32> {
        let mut profiles = self.schema.profiles.values();
        profiles.find(|p| p.name == name).map(|p| p.id)
    }
}

impl Device {
    /// Calls `f` with the device and the id of a table.
    fn with_table(&mut self, table: &str, f: impl FnOnce(&mut Device, u32) -> Option<()>) {
        let Ok(core) = self.switch.table(table) else {
            return;
        };
        let Some(pipeline) = &self.pipeline else {
            return;
        };
        let mut tables = pipeline.schema.tables.values();
        if let Some(id) = tables.find(|t| t.core == Some(core)).map(|t| t.id) {
            // Without a pipeline there is no metadata.
            let _ = f(self, id);
        }
    }
}
