//! Generator specifications, accepted wherever a topology file is: `fat-tree:16`, or `fattree,k=16` in Mininet's style.

use super::{
    fat_tree::FatTreeShape, leaf_spine, m_port_n_tree, mesh, testbed, GenerateError, Topology,
};

/// Syntax of all generator specifications, for messages.
pub const GENERATOR_FORMS: &str =
    "fat-tree:K, fat-tree:K,pods=N,edges=N, leaf-spine:LEAVES,SPINES,HOSTS, n-tree:PORTS,LEVELS, mesh:HOSTS, testbed";

/// Error: the text is not a valid generator specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorSpecError {
    /// The generator is unknown, or its sizes have another form.
    #[error("topology {spec}: write {GENERATOR_FORMS}")]
    Form {
        /// The text of the specification, such as `fat-tree:8`.
        spec: String,
    },
    /// A size is not a number.
    #[error("topology {spec}: `{size}` is not a number; write {GENERATOR_FORMS}")]
    Number {
        /// The text of the specification, such as `fat-tree:8`.
        spec: String,
        /// The text of the invalid size.
        size: String,
    },
    /// The sizes are out of the generator's range.
    #[error("topology {spec}: {error}")]
    Sizes {
        /// The text of the specification, such as `fat-tree:8`.
        spec: String,
        /// Cause of the error.
        error: GenerateError,
    },
}

/// A generator that can be specified by name.
struct Generator {
    name: &'static str,
    /// The name without a hyphen, in the style of Mininet's command line.
    joined: &'static str,
    /// Names of the sizes, and their defaults.
    sizes: &'static [(&'static str, Option<u32>)],
    /// Number of sizes, from the first, that can be written without a name.
    positional: usize,
}

const GENERATORS: [Generator; 5] = [
    Generator {
        name: "fat-tree",
        joined: "fattree",
        sizes: &[("k", Some(4)), ("pods", None), ("edges", None)],
        positional: 1,
    },
    Generator {
        name: "leaf-spine",
        joined: "leafspine",
        sizes: &[("leaves", Some(4)), ("spines", Some(2)), ("hosts", Some(4))],
        positional: 3,
    },
    Generator {
        name: "n-tree",
        joined: "ntree",
        sizes: &[("ports", None), ("levels", None)],
        positional: 2,
    },
    Generator {
        name: "mesh",
        joined: "mesh",
        sizes: &[("hosts", Some(8))],
        positional: 1,
    },
    Generator {
        name: "testbed",
        joined: "testbed",
        sizes: &[],
        positional: 0,
    },
];

/// Splits a specification into the generator and the text of its sizes; `None` for an unknown generator.
fn generator(spec: &str) -> Option<(&'static Generator, &str)> {
    let end = spec.find([':', ',']).unwrap_or(spec.len());
    let (kind, sizes) = (&spec[..end], spec.get(end + 1..).unwrap_or(""));
    let mut all = GENERATORS.iter();
    let found = all.find(|generator| [generator.name, generator.joined].contains(&kind))?;
    Some((found, sizes))
}

/// Whether a text names a generator, with valid sizes or not. Such a text never names a file; a file of that name is written
/// as `./testbed`.
pub fn is_generator_spec(spec: &str) -> bool {
    generator(spec).is_some()
}

/// Generates the topology of a specification such as `fat-tree:16`.
///
/// # Errors
/// The generator is unknown, or the sizes are malformed or out of range.
pub fn generate(spec: &str) -> Result<Topology, GeneratorSpecError> {
    let form = || GeneratorSpecError::Form {
        spec: spec.to_owned(),
    };
    let (generator, written) = generator(spec).ok_or_else(form)?;
    let mut sizes: Vec<Option<u32>> = vec![None; generator.sizes.len()];
    let mut positional = 0..generator.positional;
    for size in written.split(',').filter(|size| !size.is_empty()) {
        let (place, number) = match size.split_once('=') {
            Some((name, number)) => {
                let mut names = generator.sizes.iter();
                (names.position(|(known, _)| *known == name), number)
            }
            None => (positional.next(), size),
        };
        let place = place.filter(|place| sizes[*place].is_none());
        let place = place.ok_or_else(form)?;
        let parsed = number.parse().map_err(|_| GeneratorSpecError::Number {
            spec: spec.to_owned(),
            size: number.to_owned(),
        })?;
        sizes[place] = Some(parsed);
    }
    // Defaults apply to a generator name alone, and if any size is named. Otherwise all sizes must be written.
    let is_name_only = !spec.contains([':', ',']);
    let has_names = written.contains('=') && positional.start == 0;
    for (size, (_, default)) in sizes.iter_mut().zip(generator.sizes) {
        *size = size.or(default.filter(|_| is_name_only || has_names));
    }
    let topology = match (generator.name, &sizes[..]) {
        ("testbed", []) if is_name_only => return Ok(testbed()),
        ("fat-tree", &[Some(k), pods, edges]) => FatTreeShape::with(k, pods, edges).build(),
        ("leaf-spine", &[Some(leaves), Some(spines), Some(hosts)]) => {
            leaf_spine(leaves, spines, hosts)
        }
        ("n-tree", &[Some(ports), Some(levels)]) => m_port_n_tree(ports, levels),
        ("mesh", &[Some(hosts)]) => mesh(hosts),
        _ => return Err(form()),
    };
    topology.map_err(|error| GeneratorSpecError::Sizes {
        spec: spec.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_create_topologies() {
        for (spec, hosts) in [
            ("testbed", 4),
            ("fat-tree:4", 16),
            ("fat-tree:8,pods=2", 32),
            ("fat-tree:8,pods=2,edges=1", 8),
            ("mesh:6", 6),
            ("leaf-spine:4,2,4", 16),
            ("n-tree:4,2", 8),
            // In the form of Mininet's command line.
            ("fattree,k=4", 16),
            ("fattree", 16),
            ("fat-tree:k=4", 16),
            ("fattree,k=8,pods=2", 32),
            ("leafspine,leaves=2,spines=1,hosts=3", 6),
            ("leafspine,hosts=1", 4),
            ("ntree,ports=4,levels=2", 8),
            ("mesh,hosts=6", 6),
        ] {
            assert!(is_generator_spec(spec), "{spec}");
            let topology = generate(spec).map_err(|_| spec).unwrap();
            assert_eq!(topology.hosts().len(), hosts, "{spec}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        let why = generate("leaf-spine:2x2,3").unwrap_err().to_string();
        let expected =
            format!("topology leaf-spine:2x2,3: `2x2` is not a number; write {GENERATOR_FORMS}");
        assert_eq!(why, expected);
        for spec in [
            "fat-tree:",
            "fat-tree:8,2",
            "fat-tree:8,pods=3",
            "fat-tree:8,pods=x",
            "fat-tree:8,pods=2,pods=4",
            "fat-tree:8,k=8",
            "fat-tree:8,edges=3",
            "mesh:4,edges=2",
            "leaf-spine:4,2,4,pods=2",
            "leaf-spine:4",
            "leaf-spine:4,hosts=4",
            "n-tree",
            "testbed:4",
            "testbed,k=4",
        ] {
            assert!(generate(spec).is_err(), "{spec}");
        }
        for file in [
            "./testbed",
            "testbed.yaml",
            "labs/fat-tree",
            "topologies/mesh",
        ] {
            assert!(!is_generator_spec(file), "{file}");
        }
    }
}
