//! The three-layer fat-tree of k-port switches (Al-Fares et al., SIGCOMM 2008), whole or with fewer pods.

use super::{check, GenerateError, RuleBuilder};
use crate::topology::{End, Topology};

/// `k` pods of `k/2` edge and `k/2` aggregation switches, `(k/2)^2` core switches, `k^3/4` hosts.
///
/// Pods, edge switches (`p1e1`, ...), aggregation switches (`p1a1`, ...) and core switches (`c1`, ...) count from 1.
/// Edge and aggregation switches have ports 1 to k/2 downwards and k/2 + 1 to k upwards; port `i` of a core
/// switch leads to pod `i`.  Host `j` of edge switch `e` in pod `p` (all from 0) has the address 10.p.e.(j + 1).
pub fn fat_tree(k: u32) -> Result<Topology, GenerateError> {
    fat_tree_of_pods(k, k)
}

/// The fat-tree of k-port switches with fewer pods, and with as few core switches as keep it 1:1: `pods k^2/4` hosts under `pods k/4`
/// core switches, each of which has `k/pods` links to every pod.
///
/// `pods` is even and divides `k`.  Ports `i k/pods + 1` to `(i + 1) k/pods` of a core switch lead to pod `i` (from 0), all to
/// the same aggregation switch; the rest is as in [`fat_tree`].  Gleam and Cepheus simulate 16,384 hosts under switches of 64
/// ports: 16 pods.
pub fn fat_tree_of_pods(k: u32, pods: u32) -> Result<Topology, GenerateError> {
    let good = (2..=128).contains(&k) && k % 2 == 0;
    check("fat-tree", "k", k, good, "even and 2 to 128")?;
    let good = pods > 0 && pods % 2 == 0 && k % pods == 0;
    check("fat-tree", "pods", pods, good, "even and divide k")?;

    let half = k / 2;
    let name = match pods == k {
        true => format!("fat-tree-k{k}"),
        false => format!("fat-tree-k{k}-pods{pods}"),
    };
    let mut builder = RuleBuilder::new(name);
    let layer = |builder: &mut RuleBuilder, letter: char| -> Vec<Vec<_>> {
        (1..=pods)
            .map(|pod| {
                (1..=half)
                    .map(|i| builder.switch(format!("p{pod}{letter}{i}")))
                    .collect()
            })
            .collect()
    };
    let edges = layer(&mut builder, 'e');
    let aggregations = layer(&mut builder, 'a');
    let cores: Vec<_> = (1..=half * pods / 2)
        .map(|i| builder.switch(format!("c{i}")))
        .collect();

    for (p, pod) in (0u8..).zip(&edges) {
        for (e, edge) in (0u8..).zip(pod) {
            for (j, port) in (1u8..).zip(1..=half) {
                let host = builder.host([10, p, e, j]);
                builder.link(End::host(host), End::switch(*edge, port));
            }
        }
    }
    for (edges, aggregations) in edges.iter().zip(&aggregations) {
        for (e, edge) in (1..).zip(edges) {
            for (a, aggregation) in (1..).zip(aggregations) {
                builder.link(End::switch(*edge, half + a), End::switch(*aggregation, e));
            }
        }
    }
    let parallel = k / pods;
    for (p, aggregations) in (0..).zip(&aggregations) {
        for (aggregation, cores) in aggregations.iter().zip(cores.chunks((pods / 2) as usize)) {
            for (c, core) in (0..).zip(cores) {
                for i in 1..=parallel {
                    builder.link(
                        End::switch(*aggregation, half + c * parallel + i),
                        End::switch(*core, p * parallel + i),
                    );
                }
            }
        }
    }
    Ok(builder.build())
}
