//! Generator of three-layer fat-trees of k-port switches (Al-Fares et al., SIGCOMM 2008), complete or with fewer pods.

use super::{check, GenerateError, GeneratorBuilder};
use crate::topology::{End, Topology};

/// Generates a complete fat-tree: `k` pods of `k/2` edge and `k/2` aggregation switches, `(k/2)^2` core switches, `k^3/4` hosts.
///
/// Pods, edge switches (`p1e1`, ...), aggregation switches (`p1a1`, ...) and core switches (`c1`, ...) count from 1.
/// Edge and aggregation switches have ports 1 to k/2 downwards and k/2 + 1 to k upwards; port `i` of a core
/// switch leads to pod `i`.  Host `j` of edge switch `e` in pod `p` (all from 0) has the address 10.p.e.(j + 1).
pub fn fat_tree(k: u32) -> Result<Topology, GenerateError> {
    FatTreeShape::whole(k).build()
}

/// Size of a fat-tree of k-port switches without oversubscription, which may have fewer pods than the complete one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTreeShape {
    /// Number of ports of each switch, even, 2 to 128.
    pub k: u32,
    /// Number of pods, even, and a divisor of `k`. Each aggregation switch of a pod has its own `pods / 2` core switches, and each
    /// core switch has `k / pods` links to every pod.
    pub pods: u32,
    /// Number of edge switches of a pod, and of its aggregation switches; a divisor of `k / 2`. There are `k / 2 / edges` links
    /// between an edge and an aggregation switch.
    pub edges: u32,
}

impl FatTreeShape {
    /// The complete tree of k-port switches.
    pub fn whole(k: u32) -> FatTreeShape {
        FatTreeShape {
            k,
            pods: k,
            edges: k / 2,
        }
    }

    /// A tree of `k`-port switches with these numbers of pods and edge switches; `None` for those of the complete tree.
    pub fn with(k: u32, pods: Option<u32>, edges: Option<u32>) -> FatTreeShape {
        let whole = FatTreeShape::whole(k);
        FatTreeShape {
            k,
            pods: pods.unwrap_or(whole.pods),
            edges: edges.unwrap_or(whole.edges),
        }
    }

    /// Generates the tree, with `pods * edges * k/2` hosts and `pods * edges / 2` core switches.
    ///
    /// Ports `i * k/pods + 1` to `(i + 1) * k/pods` of a core switch lead to pod `i` (from 0), all to the same aggregation switch.
    /// Parallel links between an edge and an aggregation switch use consecutive ports, too. Names, the remaining ports and
    /// addresses are those of [`fat_tree`].
    pub fn build(self) -> Result<Topology, GenerateError> {
        let FatTreeShape { k, pods, edges } = self;
        let good = (2..=128).contains(&k) && k % 2 == 0;
        check("fat-tree", "k", k, good, "even and 2 to 128")?;
        let good = pods > 0 && pods % 2 == 0 && k % pods == 0;
        check("fat-tree", "pods", pods, good, "even and divide k")?;
        let good = edges > 0 && (k / 2) % edges == 0;
        check("fat-tree", "edges", edges, good, "1 or more and divide k/2")?;
        Ok(self.checked())
    }

    fn checked(self) -> Topology {
        let FatTreeShape { k, pods, edges } = self;
        let half = k / 2;
        let mut name = format!("fat-tree-k{k}");
        if pods != k {
            name += &format!("-pods{pods}");
        }
        if edges != half {
            name += &format!("-edges{edges}");
        }
        let mut builder = GeneratorBuilder::new(name);
        let layer = |builder: &mut GeneratorBuilder, letter: char| -> Vec<Vec<_>> {
            (1..=pods)
                .map(|pod| {
                    (1..=edges)
                        .map(|i| builder.switch(format!("p{pod}{letter}{i}")))
                        .collect()
                })
                .collect()
        };
        let edge_layer = layer(&mut builder, 'e');
        let aggregations = layer(&mut builder, 'a');
        let cores: Vec<_> = (1..=edges * pods / 2)
            .map(|i| builder.switch(format!("c{i}")))
            .collect();

        for (p, pod) in (0u8..).zip(&edge_layer) {
            for (e, edge) in (0u8..).zip(pod) {
                for (j, port) in (1u8..).zip(1..=half) {
                    let host = builder.host([10, p, e, j]);
                    builder.link(End::host(host), End::switch(*edge, port));
                }
            }
        }
        let beside = half / edges;
        for (edge_switches, aggregations) in edge_layer.iter().zip(&aggregations) {
            for (e, edge) in (0..).zip(edge_switches) {
                for (a, aggregation) in (0..).zip(aggregations) {
                    for i in 1..=beside {
                        builder.link(
                            End::switch(*edge, half + a * beside + i),
                            End::switch(*aggregation, e * beside + i),
                        );
                    }
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
        builder.build()
    }
}
