//! Changes that come by another way than P4Runtime (Thrift). The switch is one; what P4Runtime remembers beside it of
//! an object is forgotten when somebody else changes that object, so that reads show what is there.

use std::{borrow::Cow, sync::Arc};

use super::{
    device::{Device, Pipeline},
    pipeline, tables, Server,
};
use alfirk_bmv2::{EntryHandle, LoadedProgram, Switch};

impl Server {
    /// The switch that reads and writes mean: the one that has been loaded beside the running one, if there is one.
    pub fn target_switch(&self) -> &Switch {
        &self.target().switch
    }

    /// The same, to change it.
    pub fn target_switch_mut(&mut self) -> &mut Switch {
        &mut self.target_mut().switch
    }

    /// The JSON text of the device config that a controller has set for the running program.
    pub fn device_config(&self) -> Option<Cow<'_, str>> {
        let pipeline = self.active.pipeline.as_ref()?;
        pipeline::device_text(&pipeline.config.p4_device_config).ok()
    }

    /// Loads a program beside the running one, with the same multicast groups and clone sessions. False when one is
    /// there already.
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

    /// Runs the program that was loaded beside the running one. False when there is none.
    pub fn swap(&mut self) -> bool {
        let saved = self.saved.take();
        let is_there = saved.is_some();
        if let Some(device) = saved {
            self.commit(device);
        }
        is_there
    }

    /// Somebody else has set a table's default action, or has put the program's own back.
    pub fn default_was_set(&mut self, table: &str, is_set: bool) {
        self.target_mut().note(table, |device, table| {
            let pipeline = device.pipeline.as_mut()?;
            pipeline.tables.note_default(table, is_set);
            Some(())
        });
    }

    /// Somebody else has deleted an entry, or has given it another action.
    pub fn forget_entry(&mut self, table: &str, entry: EntryHandle) {
        self.target_mut().note(table, |device, table| {
            tables::forget(&mut device.switch, device.pipeline.as_mut()?, table, entry);
            Some(())
        });
    }

    /// Somebody else has emptied a table.
    pub fn forget_entries(&mut self, table: &str) {
        self.target_mut().note(table, |device, table| {
            let pipeline = device.pipeline.as_mut()?;
            for entry in pipeline.tables.noted(table) {
                tables::forget(&mut device.switch, pipeline, table, entry);
            }
            Some(())
        });
    }

    /// Somebody else has given an entry an idle timeout.
    pub fn check_idle_entries(&mut self, now: u64) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.idle_check = Some(now);
        }
    }

    /// Somebody else has changed a member of an action profile.
    pub fn forget_member(&mut self, profile: &str, member: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            if let Some(id) = pipeline.profile_id(profile) {
                pipeline.profiles.forget_member(id, member);
            }
        }
    }

    /// Somebody else has changed a group of an action profile.
    pub fn forget_group(&mut self, profile: &str, group: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            if let Some(id) = pipeline.profile_id(profile) {
                pipeline.profiles.forget_group(id, group);
            }
        }
    }

    /// Somebody else has changed a multicast group.
    pub fn forget_multicast_group(&mut self, group: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.pre.forget_group(group);
        }
    }

    /// Somebody else has changed a clone session.
    pub fn forget_clone_session(&mut self, session: u32) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.pre.forget_session(session);
        }
    }

    /// Somebody else has changed a parser value set.
    pub fn forget_value_set(&mut self, set: &str) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            let sets = &pipeline.schema.value_sets;
            if let Some((&id, _)) = sets.iter().find(|(_, s)| s.name == set) {
                pipeline.value_sets.remove(&id);
            }
        }
    }

    /// Somebody else has emptied tables, action profiles and multicast groups.
    pub fn forget_all(&mut self) {
        if let Some(pipeline) = &mut self.target_mut().pipeline {
            pipeline.tables = Default::default();
            pipeline.profiles.forget_all();
            pipeline.pre.forget_groups();
        }
    }

    /// Somebody else has seen a list of digests, or these messages of it.
    pub fn acknowledge_digests(&mut self, list_id: u32, list: u64, messages: Option<&[usize]>) {
        self.with_digest(list_id, |digests, digest| match messages {
            Some(messages) => digests.acknowledge_some(digest, list, messages),
            None => {
                digests.acknowledge(digest, list);
            }
        });
    }

    /// Changes how long messages of a digest wait until they are sent, if a controller has asked for it.
    pub fn set_digest_timeout(&mut self, list_id: u32, nanoseconds: i64) {
        self.with_digest(list_id, |digests, digest| {
            if let Some(mut config) = digests.config(digest) {
                config.max_timeout_ns = nanoseconds;
                digests.configure(digest, config);
            }
        });
    }

    /// The same for how many messages are sent at once.
    pub fn set_digest_list_size(&mut self, list_id: u32, messages: i32) {
        self.with_digest(list_id, |digests, digest| {
            if let Some(mut config) = digests.config(digest) {
                config.max_list_size = messages;
                digests.configure(digest, config);
            }
        });
    }

    /// Finds the digest of one of the program's lists of fields.
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
    /// Does something with what P4Runtime remembers of a table.
    fn note(&mut self, table: &str, f: impl FnOnce(&mut Device, u32) -> Option<()>) {
        let Ok(core) = self.switch.table(table) else {
            return;
        };
        let Some(pipeline) = &self.pipeline else {
            return;
        };
        let mut tables = pipeline.schema.tables.values();
        if let Some(id) = tables.find(|t| t.core == Some(core)).map(|t| t.id) {
            // Without a pipeline nothing is remembered.
            let _ = f(self, id);
        }
    }
}
