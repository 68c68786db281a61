//! Log lines about effects and events of the controller.

use std::collections::BTreeMap;

use alfirk_p4runtime::p4::v1::{
    stream_message_request, stream_message_response, update, StreamMessageRequest, WriteRequest,
};

use super::event::{ApiReply, Effect, Event, Request};
use super::network::Network;

impl Network {
    /// Describes an effect in one line; `None` for reads and replies.
    pub(super) fn describe_effect(&self, effect: &Effect) -> Option<String> {
        match effect {
            Effect::Request { switch, body, .. } => {
                let what = match body {
                    Request::GetPipeline(_) | Request::Read(_) => return None,
                    Request::SetPipeline(..) => "loads the pipeline".to_owned(),
                    Request::Write(request) => self.describe_write(request),
                };
                Some(format!("{}: {what}", self.name(*switch)))
            }
            Effect::Stream { switch, message } => {
                let what = describe_message(message)?;
                Some(format!("{}: {what}", self.name(*switch)))
            }
            Effect::Api(reply) => self.describe_reply(reply),
        }
    }

    /// Describes an event in one line; `None` for events of normal operation.
    pub(super) fn describe_event(&self, event: &Event) -> Option<String> {
        match event {
            Event::SwitchUp { switch } => Some(format!("{}: connected", self.name(*switch))),
            Event::SwitchDown { switch, why } => {
                Some(format!("{}: connection lost: {why}", self.name(*switch)))
            }
            Event::Reply {
                switch,
                result: Err(status),
                ..
            } => Some(format!("{}: rejected: {status}", self.name(*switch))),
            Event::Stream { switch, message } => match message.update.as_ref()? {
                stream_message_response::Update::Packet(packet) => {
                    let (name, len) = (self.name(*switch), packet.payload.len());
                    Some(format!("{name}: packet in, {len} B"))
                }
                _ => None,
            },
            Event::Link { link, is_up } => {
                let [a, b] = self.topology().link(*link).ends;
                let (a, b) = (self.topology().show_end(a), self.topology().show_end(b));
                let state = if *is_up { "up" } else { "down" };
                Some(format!("link {a} - {b} is {state}"))
            }
            Event::Reply { .. } | Event::Api(_) | Event::Timeout => None,
        }
    }

    /// Describes a Write request: the kinds of updated entities, with the number of updates of each.
    fn describe_write(&self, request: &WriteRequest) -> String {
        let mut counts: Vec<(String, usize)> = Vec::new();
        let mut places = BTreeMap::new();
        for update in &request.updates {
            let kind = match update.r#type() {
                update::Type::Insert => "inserts",
                update::Type::Modify => "modifies",
                update::Type::Delete => "deletes",
                update::Type::Unspecified => "writes",
            };
            let text = format!("{kind} {}", self.program().describe(update));
            let family = without_index(&text).to_owned();
            let place = *places.entry(family).or_insert_with(|| {
                counts.push((text, 0));
                counts.len() - 1
            });
            counts[place].1 += 1;
        }
        let counts = counts.into_iter().map(|(text, count)| match count {
            1 => text,
            count => format!("{} ({count})", without_index(&text)),
        });
        counts.collect::<Vec<_>>().join(", ")
    }

    fn describe_reply(&self, reply: &ApiReply) -> Option<String> {
        let text = match reply {
            ApiReply::SwitchReady { switch } => format!("{}: ready", self.name(*switch)),
            ApiReply::SwitchFailed { switch, error } => {
                format!("{}: cannot be used: {error}", self.name(*switch))
            }
            ApiReply::Ready => "all switches are ready".to_owned(),
            ApiReply::GroupReady { group, .. } | ApiReply::GroupFormed { group } => format!(
                "group {} is ready: {} members, {} switches",
                group.mcst_id, group.members, group.switches
            ),
            ApiReply::GroupDissolved { mcst_id } | ApiReply::GroupRemoved { mcst_id, .. } => {
                format!("group {mcst_id} is removed")
            }
            ApiReply::MemberJoined { mcst_id, ip, .. } => format!("group {mcst_id}: {ip} joined"),
            ApiReply::MembersLeft { mcst_id, .. } => format!("group {mcst_id}: members have left"),
            ApiReply::MembersLost { mcst_id, members } => {
                let members: Vec<String> = members.iter().map(ToString::to_string).collect();
                let members = members.join(", ");
                format!("group {mcst_id}: continues without {members}, lost")
            }
            ApiReply::GroupRerouted { mcst_id } => format!("group {mcst_id}: rerouted"),
            ApiReply::Probing { mcst_id, .. } => {
                format!("group {mcst_id}: no progress; searching for failed members and links")
            }
            ApiReply::GroupExpired { mcst_id } => format!("group {mcst_id} has expired"),
            ApiReply::Failed { error, .. } => format!("request failed: {error}"),
            ApiReply::DatagramGroup { group, members, .. } => {
                format!("datagram group {group}: {members} members")
            }
            ApiReply::Refreshed { .. } | ApiReply::Counted { .. } | ApiReply::Status { .. } => {
                return None;
            }
        };
        Some(text)
    }
}

/// Removes the index from an entity's description: `meter m[7]` becomes `meter m`, `clone session 3` becomes `clone
/// session`.
fn without_index(text: &str) -> &str {
    let text = text.strip_suffix(']').unwrap_or(text);
    let text = text.trim_end_matches(|c: char| c.is_ascii_digit());
    text.strip_suffix(['[', ' ']).unwrap_or(text)
}

fn describe_message(message: &StreamMessageRequest) -> Option<String> {
    match message.update.as_ref()? {
        stream_message_request::Update::Arbitration(_) => Some("asks to be primary".to_owned()),
        stream_message_request::Update::Packet(packet) => {
            Some(format!("packet out, {} B", packet.payload.len()))
        }
        _ => None,
    }
}
