//! The coordinator: routes events, notices of sessions, and results of tasks to the parts of the controller.

use super::boot::{self, Boot};
use super::change::{Change, Origin};
use super::checkpoint;
use super::command::{Command, Ended};
use super::creation::Creation;
use super::removal::Removal;
use super::session::{InitialState, Notice, TaskId};
use super::switches::Owner;
use super::{adoption, ApiReply, ApiRequest, Controller, Event, GroupError, SwitchError};
use crate::tables::Snapshot;
use crate::topology::SwitchIndex;

impl Controller {
    pub(super) fn process_event(&mut self, now: u64, event: Event) {
        let network = &mut self.network;
        match event {
            Event::SwitchUp { switch } => network.with_session(switch, |s, c| s.up(now, c)),
            Event::SwitchDown { switch, why } => network.with_session(switch, |s, _| s.down(&why)),
            Event::Reply {
                switch,
                request,
                result,
            } => network.with_session(switch, |s, c| s.reply(now, c, request, result)),
            Event::Stream { switch, message } => {
                network.with_session(switch, |s, c| s.stream(now, c, message));
            }
            Event::Link { link, is_up } => {
                if self.health.note_link(link, is_up) {
                    self.reroute_around_failures(now);
                }
            }
            Event::Api(request) => self.process_request(now, request),
            Event::Timeout => self.expire_timers(now),
        }
    }

    fn process_request(&mut self, now: u64, request: ApiRequest) {
        let (network, groups) = (&mut self.network, &mut self.groups);
        match request {
            ApiRequest::Register { tag, group } => {
                let command = groups.register(network, tag, &group);
                self.execute(now, command);
            }
            ApiRequest::Deregister { tag, mcst_id } => {
                self.execute(now, [Command::Deregister(tag, mcst_id)]);
            }
            ApiRequest::Join {
                tag,
                mcst_id,
                member,
            } => {
                let command = groups.request_join(network, tag, mcst_id, member);
                self.execute(now, [command]);
            }
            ApiRequest::Leave {
                tag,
                mcst_id,
                members,
            } => self.execute(now, [Command::Leave(Origin::Api(tag), mcst_id, members)]),
            ApiRequest::Suspect { tag, mcst_id } | ApiRequest::Refresh { tag, mcst_id }
                if !groups.is_ready(mcst_id) =>
            {
                let error = GroupError::NoSuchGroup(mcst_id);
                network.reply(ApiReply::Failed { tag, error });
            }
            ApiRequest::Suspect { tag, mcst_id } => {
                self.leases.renew(now, network, groups, mcst_id);
                network.reply(ApiReply::Probing { tag, mcst_id });
                self.health.watch(now, network, groups, mcst_id);
            }
            ApiRequest::Refresh { tag, mcst_id } => {
                self.leases.renew(now, network, groups, mcst_id);
                network.reply(ApiReply::Refreshed { tag, mcst_id });
            }
            ApiRequest::JoinDatagrams { tag, group, host } => {
                self.datagrams.change(now, network, tag, group, host, true);
            }
            ApiRequest::LeaveDatagrams { tag, group, host } => {
                self.datagrams.change(now, network, tag, group, host, false);
            }
            ApiRequest::Count { tag } => self.counting.count(now, network, self.punts.stats(), tag),
            ApiRequest::Status { tag } => {
                let report = self.status();
                self.network.reply(ApiReply::Status { tag, report });
            }
        }
    }

    fn expire_timers(&mut self, now: u64) {
        self.network.session_timeout(now);
        let refusals = self.mrp.registration_timeout(now);
        self.execute(now, refusals);
        self.mrp.claim_timeout(now, &mut self.network, &self.groups);
        while let Some(command) = {
            let (network, groups) = (&mut self.network, &self.groups);
            self.mrp.invitation_timeout(now, network, groups)
        } {
            self.execute(now, [command]);
        }
        let failures = self.health.timeout(now, &mut self.network, &self.groups);
        self.execute(now, failures);
        while let Some(command) = self.leases.timeout(now, &mut self.network, &self.groups) {
            self.execute(now, [command]);
        }
        let (network, groups) = (&mut self.network, &self.groups);
        self.recoveries.timeout(now, network, groups);
        while let Some(commands) = self.markers.timeout(now, &mut self.network) {
            self.execute(now, commands);
        }
        let (network, groups) = (&mut self.network, &self.groups);
        self.checkpoints
            .timeout(now, network, groups, &self.recoveries);
    }

    /// Processes the notices of all sessions until there are none, and collects the messages to their switches.
    pub(super) fn process_notices(&mut self, now: u64) {
        while let Some(switch) = self.network.switches_mut().pop_with_output() {
            while let Some((from, task)) = self.network.switches_mut().pop_flush() {
                if !self.markers.flush(now, &mut self.network, from, task) {
                    self.end_task(now, task, Ok(0));
                }
            }
            while let Some(notice) = self.network.switches_mut().poll_notice(switch) {
                self.process_notice(now, switch, notice);
            }
            self.network.switches_mut().collect_output(switch);
        }
        let is_ready = self.is_ready();
        if is_ready && !self.was_ready {
            self.network.reply(ApiReply::Ready);
        }
        self.was_ready = is_ready;
        if is_ready {
            let (network, groups) = (&mut self.network, &mut self.groups);
            if let Some(adopted) = self.adoption.adopt(now, network, groups) {
                for mcst_id in adopted {
                    let commands = [
                        Command::LeaderChanged(mcst_id),
                        Command::RenewLease(mcst_id),
                    ];
                    self.execute(now, commands);
                }
                self.process_notices(now);
            }
        }
    }

    fn process_notice(&mut self, now: u64, switch: SwitchIndex, notice: Notice) {
        let (network, groups) = (&mut self.network, &mut self.groups);
        match notice {
            Notice::Open(found) => self.start_boot(now, switch, found),
            Notice::Mrp(port, frame) => {
                let commands = self.mrp.frame(now, network, groups, (switch, port), &frame);
                self.execute(now, commands);
            }
            Notice::Counted(task, result) => {
                network.switches_mut().end_task(task);
                self.counting
                    .counted(network, self.punts.stats(), task, result);
            }
            Notice::PuntedFrame {
                reason,
                port,
                payload,
            } => {
                let command =
                    self.punts
                        .frame(now, network, groups, (switch, port), reason, payload);
                self.execute(now, command);
            }
            Notice::Failed(error) => self.switch_failed(now, switch, error),
            Notice::Done(task, result) => self.end_task(now, task, result),
        }
    }

    fn start_boot(&mut self, now: u64, switch: SwitchIndex, found: InitialState) {
        let (network, groups) = (&mut self.network, &mut self.groups);
        groups.resources_mut().end_quarantine(switch);
        let entries = Snapshot::new(found.entities);
        self.adoption.record(network, groups, switch, &entries);
        boot::prepare(network, groups, switch, found.has_kept_state, entries);
        self.begin::<Boot>(now, switch);
    }

    fn switch_failed(&mut self, now: u64, switch: SwitchIndex, error: SwitchError) {
        let network = &mut self.network;
        if network.is_ready(switch) {
            self.health.note_disconnected(now, network, switch);
        }
        network.switches_mut().enter(switch, boot::SwitchPhase::Off);
        self.punts.discard_switch(network, switch);
        self.recoveries.discard_switch(switch);
        let flushes = self.markers.discard_switch(switch);
        self.execute(now, flushes);
        self.adoption.discard(&mut self.groups, switch);
        let grown = self.groups.switch_failed(switch, &error);
        self.execute(now, grown);
        self.network.reply(ApiReply::SwitchFailed { switch, error });
    }

    /// Passes the result of a task to its owner.
    pub(super) fn end_task(&mut self, now: u64, task: TaskId, result: Result<u64, SwitchError>) {
        let Some(owner) = self.network.switches_mut().end_task(task) else {
            return;
        };
        let (network, groups) = (&mut self.network, &mut self.groups);
        match owner {
            Owner::Boot(switch) => self.advance::<Boot>(now, switch, task, result),
            Owner::Creation(creation) => self.advance::<Creation>(now, creation, task, result),
            Owner::Change(mcst_id) => self.advance::<Change>(now, mcst_id, task, result),
            Owner::Removal(mcst_id) => self.advance::<Removal>(now, mcst_id, task, result),
            Owner::StallMonitor(mcst_id) => {
                let (recoveries, read) = (&mut self.recoveries, (mcst_id, task));
                let commands = self
                    .health
                    .register_read(now, network, groups, recoveries, read, result);
                self.execute(now, commands);
            }
            Owner::Checkpoint(mcst_id) => checkpoint::position_read(groups, mcst_id, result),
            Owner::Recovery(part) => self
                .recoveries
                .register_read(now, network, groups, part, task, result),
            Owner::Lease(mcst_id) => self
                .leases
                .position_read(now, network, groups, mcst_id, &result),
            Owner::Path(part) => self.punts.path_read(network, part, task, result),
            Owner::Adoption(mcst_id) => adoption::position_read(groups, mcst_id, result),
            Owner::Datagrams(tag) => self.datagrams.write_done(network, tag, task, result),
            Owner::Detached => {}
        }
    }

    /// Continues after a procedure that is done or undone.
    pub(super) fn procedure_ended(&mut self, now: u64, ended: Ended) {
        let (network, groups) = (&mut self.network, &mut self.groups);
        match ended {
            Ended::Boot(switch) => {
                if let Some((found, commands)) = boot::finish(network, switch) {
                    self.adoption.keep_entries(switch, found);
                    self.execute(now, commands);
                }
            }
            Ended::Creation(Creation {
                mcst_id,
                agent: None,
            }) => {
                let command = groups.created(network, mcst_id);
                self.execute(now, command);
            }
            Ended::Creation(Creation {
                mcst_id,
                agent: Some(switch),
            }) => {
                let command = self.mrp.part_created(now, network, groups, switch, mcst_id);
                self.execute(now, command);
            }
            Ended::Change(mcst_id) => {
                let commands = groups.changed(network, mcst_id);
                self.execute(now, commands);
            }
            Ended::Removal(mcst_id) => {
                let command = groups.removed(network, mcst_id);
                self.execute(now, command);
            }
        }
    }

    /// Changes routes, datagram groups and the trees of groups after a link or switch has failed or recovered.
    pub(super) fn reroute_around_failures(&mut self, now: u64) {
        self.health.change_routes(now, &mut self.network);
        self.datagrams.reroute(now, &mut self.network);
        let topology = self.network.topology();
        let groups = self.groups.iter().map(|registration| registration.group());
        let broken = groups.filter(|group| self.health.is_broken(topology, group));
        let broken: Vec<_> = broken.map(|group| group.mcst_id).collect();
        for mcst_id in broken {
            let command = self.groups.reroute(&mut self.network, mcst_id);
            self.execute(now, command);
        }
    }
}
