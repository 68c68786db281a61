//! Emulation of the delays and rates of a host's NIC, link and application.
//!
//! The delays are those of [`Model`], applied at the same points as in the simulator, so that a run on a slowed clock
//! ([`alfirk_packet_io::Clock`]) can be compared with one in virtual time. This module neither waits nor reads a clock.
//! All times are nanoseconds of the host's clock.
//!
//! The event loop runs late by the wake-up latency of its process. Actions are stamped with the time when they were
//! due, so that the latencies do not accumulate.

use std::collections::VecDeque;

use alfirk_packet_io::link::Link;
use alfirk_packet_io::link::LinkOptions;
use alfirk_roce::host::{Host, HostEvent};
use alfirk_sim::network::Model;

/// Emulated NIC, link and application of a host. It delays frames between the queue pairs and the interface, and the
/// events of queue pairs (completions, received messages) until the application handles them.
pub(super) struct HostEmulation {
    model: Model,
    link: Link,
    /// Earliest time at which the NIC may start to send its next frame.
    next_frame_at: u64,
    /// False if the host has no frame to send until its state changes.
    may_send: bool,
    /// Received frames that the NIC delays, each with the time at which the NIC acts on it.
    arrived: VecDeque<(u64, Vec<u8>)>,
    /// Events that the application has not received yet.
    events: VecDeque<DelayedEvent>,
    /// Time at which the application has handled all previous events, and can handle the next.
    application_free_at: u64,
    /// Current time of the host's queue pairs, which may be earlier than the clock. It never decreases.
    host_time: u64,
}

/// An event of a queue pair on its way to the application.
struct DelayedEvent {
    /// Time at which the application has handled the event.
    seen_at: u64,
    /// Time at which a post in response to the event reaches the NIC.
    due: u64,
    event: HostEvent,
}

impl HostEmulation {
    /// Creates the emulation for a host with the delays of `model`, on a link with the properties `link`.
    pub(super) fn new(model: Model, link: LinkOptions) -> HostEmulation {
        HostEmulation {
            model,
            // Such a link has no random faults, so the seeds are irrelevant.
            link: Link::new(link, 0, 0),
            next_frame_at: 0,
            may_send: false,
            arrived: VecDeque::new(),
            events: VecDeque::new(),
            application_free_at: 0,
            host_time: 0,
        }
    }

    /// Accepts a frame that the interface received at `now`.
    pub(super) fn receive_frame(&mut self, now: u64, frame: &[u8]) {
        let due = now.saturating_add(self.model.nic_delay);
        self.arrived.push_back((due, frame.to_vec()));
    }

    /// Advances the host's time to `now`; called before the application or a timer changes the host.
    pub(super) fn advance_clock(&mut self, now: u64) {
        self.host_time = self.host_time.max(now);
        self.may_send = true;
    }

    /// Performs all actions of NIC and host that are due by `now`: received frames, timeouts and sends.
    pub(super) fn advance(&mut self, host: &mut Host, now: u64) {
        let is_due = |(due, _): &(u64, Vec<u8>)| *due <= now;
        while self.arrived.front().is_some_and(is_due) {
            let (due, frame) = self.arrived.pop_front().expect("checked above");
            self.send(host, due);
            self.advance_clock(due);
            host.handle_frame(self.host_time, &frame);
            self.collect(host);
        }
        if let Some(due) = host.poll_timeout().filter(|due| *due <= now) {
            self.send(host, due);
            self.advance_clock(due);
            host.handle_timeout(self.host_time);
        }
        self.collect(host);
        self.send(host, now);
    }

    /// Moves the host's events to the queue for the application, with the times of their delivery.
    fn collect(&mut self, host: &mut Host) {
        while let Some(event) = host.poll_event() {
            let handling = self.model.handling_ns(event.received_bytes());
            let seen_at = self
                .host_time
                .max(self.application_free_at)
                .saturating_add(handling);
            self.application_free_at = seen_at;
            let due = seen_at.saturating_add(self.model.post_delay);
            self.events.push_back(DelayedEvent {
                seen_at,
                due,
                event,
            });
        }
    }

    /// Puts frames of the host on the link while their transmission can start by `now`.
    fn send(&mut self, host: &mut Host, now: u64) {
        while self.may_send && self.can_send_at() <= now {
            self.host_time = self.can_send_at();
            let Some(frame) = host.poll_transmit(self.host_time) else {
                self.may_send = false;
                return;
            };
            self.next_frame_at = self.host_time.saturating_add(self.model.packet_interval);
            self.link.push(self.host_time, frame);
        }
    }

    /// Earliest time at which the next frame can start: link and NIC are idle.
    fn can_send_at(&self) -> u64 {
        self.link
            .idle_at()
            .max(self.next_frame_at)
            .max(self.host_time)
    }

    /// Returns the next event to which the application's reaction is due by `now`, with the time at which the event was
    /// handled; `None` if there is none.
    pub(super) fn next_event(&mut self, now: u64) -> Option<(u64, HostEvent)> {
        self.events.front().filter(|seen| seen.due <= now)?;
        let seen = self.events.pop_front()?;
        self.advance_clock(seen.due);
        Some((seen.seen_at, seen.event))
    }

    /// Removes and returns the next sent frame that has crossed the emulated link by `now` and is to be put on the real
    /// interface; `None` if there is none.
    pub(super) fn next_sent_frame(&mut self, now: u64) -> Option<Vec<u8>> {
        self.link.pop(now)
    }

    /// Nanoseconds from the application's post of a message of `bytes` bytes until the NIC acts on it.
    pub(super) fn post_delay(&self, bytes: u64) -> u64 {
        self.model.posting_ns(bytes)
    }

    /// Time of the emulation's next action (frame to send, frame that arrives, event to handle); `None` if nothing is
    /// pending. Timers of the host itself are not included.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let sends = self.may_send.then(|| self.can_send_at());
        let arrived = self.arrived.front().map(|(due, _)| *due);
        let event = self.events.front().map(|seen| seen.due);
        let due = [sends, arrived, event, self.link.poll_timeout()];
        due.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use alfirk_packet_io::link::Rate;
    use alfirk_roce::host::HostConfig;
    use alfirk_roce::wire::MacAddr;

    use super::*;

    /// A host that answers ARP requests, on a link of 1 bit per nanosecond with a delay of 100 ns.
    fn host_on_link(model: Model) -> (Host, HostEmulation) {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let config = HostConfig::new("h1", mac, [10, 0, 0, 1].into(), 8, 1500, 1);
        let link = LinkOptions {
            rate: Some(Rate::Bits(1_000_000_000)),
            on_wire: true,
            delay: Duration::from_nanos(100),
            ..LinkOptions::default()
        };
        (Host::new(config).unwrap(), HostEmulation::new(model, link))
    }

    fn model(nic_delay: u64) -> Model {
        Model {
            nic_delay,
            packet_interval: 0,
            ..Model::named_models()[1].model
        }
    }

    /// ARP request by 10.0.0.2 for 10.0.0.1.
    fn arp_request() -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend([2, 0, 0, 0, 0, 2, 10, 0, 0, 2]);
        frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
        frame
    }

    /// Time of a minimum frame, 84 bytes with all that Ethernet adds, in nanoseconds.
    const ON_LINK: u64 = 84 * 8;

    #[test]
    fn replies_leave_after_nic_and_link() {
        let (mut host, mut emulation) = host_on_link(model(250));
        emulation.receive_frame(1_000, &arp_request());
        assert_eq!(emulation.poll_timeout(), Some(1_250));
        emulation.advance(&mut host, 1_249);
        assert_eq!(emulation.next_sent_frame(u64::MAX), None);
        emulation.advance(&mut host, 1_250);
        let arrival = 1_250 + ON_LINK + 100;
        assert_eq!(emulation.next_sent_frame(arrival - 1), None);
        assert!(emulation.next_sent_frame(arrival).is_some());
    }

    #[test]
    fn late_work_is_stamped_with_its_due_time() {
        let arrivals = |late: bool| {
            let (mut host, mut emulation) = host_on_link(model(250));
            for at in [0, 10, 20_000] {
                emulation.receive_frame(at, &arp_request());
            }
            if !late {
                for now in (0..25_000).step_by(10) {
                    emulation.advance(&mut host, now);
                }
            }
            emulation.advance(&mut host, 50_000);
            let mut found = Vec::new();
            while let Some(at) = emulation.link.poll_timeout() {
                found.extend(emulation.next_sent_frame(at).map(|_| at));
            }
            found
        };
        let first = 250 + ON_LINK + 100;
        assert_eq!(arrivals(true), [first, first + ON_LINK, 20_000 + first]);
        assert_eq!(arrivals(false), arrivals(true));
    }
}
