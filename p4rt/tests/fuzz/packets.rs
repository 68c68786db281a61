//! Random packets through valid programs with filled tables.

use alfirk_p4rt::Programs;
use alfirk_p4runtime::p4::v1::{update::Type, Update};

use crate::{
    chance::Chance,
    corpus::{subjects, Subject, MAX_FRAME},
    entities::{entity, PORTS},
    fixture::CPU_PORT,
    requests::Client,
    run::{run, settle},
};

/// Entities written before packets are sent; some of them are rejected.
const ENTITIES: usize = 60;
/// Frames per case.
const FRAMES: usize = 100;

#[test]
fn any_packet_is_processed_by_any_program() {
    run(
        "any_packet_is_processed_by_any_program",
        "frames out",
        Programs::default,
        |programs, chance| {
            let subject = chance.pick(subjects());
            let mut client = filled(subject, programs, chance);
            let mut out = 0;
            for _ in 0..FRAMES {
                receive(&mut client, subject, chance);
                out += settle(&mut client.server, client.now);
                if client
                    .server
                    .poll_timeout()
                    .is_some_and(|at| at <= client.now)
                {
                    client.server.handle_timeout(client.now);
                    settle(&mut client.server, client.now);
                }
            }
            out
        },
    );
}

/// Each case sends frames of one length to one program, so that all lengths are covered over time.
#[test]
fn frames_of_all_lengths_are_processed() {
    run(
        "frames_of_all_lengths_are_processed",
        "frames out",
        Programs::default,
        |programs, chance| {
            let len = chance.seed as usize % (MAX_FRAME + 1);
            let subject = chance.pick(subjects());
            let mut client = filled(subject, programs, chance);
            let mut out = 0;
            for original in &subject.frames {
                let mut frame = original.clone();
                frame.resize(len, 0xa5);
                client
                    .server
                    .frame_in(chance.below(PORTS) as u32, &frame, client.now);
                out += settle(&mut client.server, client.now);
            }
            out
        },
    );
}

fn filled(subject: &Subject, programs: &Programs, chance: &mut Chance) -> Client {
    let mut client = Client::new(programs);
    fill(&mut client, subject, chance);
    client
}

/// Has a frame of the program arrive at any port, a moment later.
pub fn receive(client: &mut Client, subject: &Subject, chance: &mut Chance) {
    client.now += chance.below(100_000) as u64;
    let port = match chance.below(16) {
        0 => CPU_PORT,
        1 => chance.edgy() as u32,
        _ => chance.below(PORTS) as u32,
    };
    let frame = subject.frame(chance);
    client.server.frame_in(port, &frame, client.now);
}

/// Sets the program of a switch, and writes entities to it.
pub fn fill(client: &mut Client, subject: &Subject, chance: &mut Chance) {
    client
        .set_pipeline(subject.config())
        .expect("the program is right");
    for _ in 0..ENTITIES {
        let entity = entity(&subject.info, chance);
        let update = |kind: Type| Update {
            r#type: kind.into(),
            entity: Some(entity.clone()),
        };
        if client.write(vec![update(Type::Insert)]).is_err() {
            // Cells of arrays and default actions can only be modified.
            let _ = client.write(vec![update(Type::Modify)]);
        }
    }
}
