//! Benchmark: events per second of the engine alone, without switches and hosts.

use alfirk_sim::engine::{Context, Engine, FaultProbabilities, LinkConfig, Node, NodeId};
use divan::counter::ItemsCount;
use divan::Bencher;

/// A node that forwards every frame through its other port.
struct Relay;

impl Node for Relay {
    type Message = ();
    type Frame = Vec<u8>;

    fn on_frame(&mut self, port: u32, frame: Vec<u8>, ctx: &mut Context<'_, ()>) {
        let out = 1 - port;
        if ctx.can_transmit(out) {
            ctx.transmit(out, frame);
        }
    }

    fn on_idle(&mut self, _: u32, _: &mut Context<'_, ()>) {}
    fn on_wake(&mut self, _: &mut Context<'_, ()>) {}
    fn on_message(&mut self, _: NodeId, (): (), _: &mut Context<'_, ()>) {}
}

const EVENTS: u64 = 200_000;

/// A ring of relays in which `nodes` frames of 1 KiB circulate.
fn ring(nodes: usize, faults: FaultProbabilities) -> Engine<Relay> {
    let mut engine = Engine::new(1);
    let ids: Vec<NodeId> = (0..nodes)
        .map(|i| engine.add_node(&format!("n{i}"), Relay))
        .collect();
    let config = LinkConfig {
        rate: 100_000_000_000,
        delay: 500,
        mtu: 4_200,
        faults,
    };
    for i in 0..nodes {
        let next = ids[(i + 1) % nodes];
        engine
            .connect((ids[i], 1), (next, 0), config.clone())
            .expect("a ring has free ports");
    }
    for &id in &ids {
        engine.with_node(id, |_, ctx| ctx.transmit(1, vec![0; 1_024]));
    }
    engine
}

fn measure(bencher: Bencher<'_, '_>, nodes: usize, faults: FaultProbabilities) {
    bencher
        .counter(ItemsCount::new(EVENTS))
        .with_inputs(|| ring(nodes, faults))
        .bench_values(|mut engine| {
            while engine.events() < EVENTS {
                engine.step(u64::MAX);
            }
        });
}

#[divan::bench(args = [4, 64, 1024], sample_count = 10)]
fn engine_events(bencher: Bencher<'_, '_>, nodes: usize) {
    measure(bencher, nodes, FaultProbabilities::default());
}

#[divan::bench(args = [64], sample_count = 10)]
fn engine_events_on_links_that_may_reorder(bencher: Bencher<'_, '_>, nodes: usize) {
    let faults = FaultProbabilities {
        reorder: 0.1,
        reorder_window: 1_000,
        ..FaultProbabilities::default()
    };
    measure(bencher, nodes, faults);
}

fn main() {
    divan::main();
}
