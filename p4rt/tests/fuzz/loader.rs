//! Mutated programs: each is rejected, or runs.

use std::sync::Arc;

use alfirk_bmv2::{CloneSession, LoadedProgram, Replica, Switch, SwitchOptions};
use alfirk_p4rt::Server;

use crate::{
    chance::Chance,
    corpus::{parsed, subjects, Subject},
    entities::{PORTS, QUEUED_PORTS},
    json,
    run::{run, settle},
};

/// Frames sent to each program that loads.
const FRAMES: usize = 5;

#[test]
fn any_program_runs_or_is_rejected_without_a_panic() {
    run(
        "any_program_runs_or_is_rejected_without_a_panic",
        "programs that load",
        parsed,
        |programs, chance| {
            let at = chance.below(programs.len());
            let subject = &subjects()[at];
            let text = if chance.one_in(10) {
                let mut bytes = subject.json.clone().into_bytes();
                chance.damage(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            } else {
                let donor = chance.below(programs.len());
                let mut program = programs[at].clone();
                json::damage(&mut program, &programs[donor], chance);
                program.to_string()
            };
            match LoadedProgram::from_json(&text) {
                Ok(program) => {
                    forward(program, subject, chance);
                    1
                }
                Err(_) => 0,
            }
        },
    );
}

fn forward(program: LoadedProgram, subject: &Subject, chance: &mut Chance) {
    let mut switch = switch_with_groups(Arc::new(program), SwitchOptions::default());
    switch.set_trace(chance.one_in(4));
    let mut server = Server::new(switch);
    for now in 0..FRAMES {
        let now = now as u64 * 1_000;
        let frame = subject.frame(chance);
        server.frame_in(chance.below(PORTS) as u32, &frame, now);
        settle(&mut server, now);
        server.take_trace();
    }
}

/// Creates a switch with multicast groups and clone sessions 1 to 3, each with ports 0 to 2.
pub fn switch_with_groups(program: Arc<LoadedProgram>, options: SwitchOptions) -> Switch {
    let mut switch = Switch::new(options);
    switch.set_queued_ports(QUEUED_PORTS);
    switch.load(program);
    let replicas: Vec<Replica> = (0..3).map(|port| Replica { port, rid: 1 }).collect();
    let pre = switch.pre_mut().expect("a program is loaded");
    for id in 1..4 {
        pre.set_group(id, &replicas).expect("the group is right");
        let session = CloneSession {
            group: Some(id),
            ..CloneSession::default()
        };
        pre.set_session(id, session).expect("the session is right");
    }
    switch
}
