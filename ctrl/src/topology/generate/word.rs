//! Words that call a generator where a file may be named, too: `fat-tree:16`, or `fattree,k=16` as on Mininet's command line.

use super::{
    fat_tree::FatTreeShape, leaf_spine, m_port_n_tree, mesh, testbed, GenerateError, Topology,
};

/// How the generators are called.
pub const GENERATED: &str =
    "fat-tree:K, fat-tree:K,pods=N,edges=N, leaf-spine:LEAVES,SPINES,HOSTS, n-tree:PORTS,LEVELS, mesh:HOSTS, testbed";

/// Why a word does not call a generator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// No such generator, or not its sizes.
    #[error("topology {word}: write {GENERATED}")]
    Form {
        /// The word.
        word: String,
    },
    /// A size that is not a number.
    #[error("topology {word}: `{size}` is not a number; write {GENERATED}")]
    Number {
        /// The word.
        word: String,
        /// The size, as it is written.
        size: String,
    },
    /// Sizes that the generator refuses.
    #[error("topology {word}: {error}")]
    Sizes {
        /// The word.
        word: String,
        /// Why.
        error: GenerateError,
    },
}

/// A generator that a word may call.
struct Generator {
    name: &'static str,
    /// The same without a hyphen, as names on Mininet's command line are usually written.
    joined: &'static str,
    /// Names of the sizes, and their defaults. The first ones can be written without a name.
    sizes: &'static [(&'static str, Option<u32>)],
    /// Number of sizes that can be written without a name.
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

/// The generator that a word calls, and the sizes behind its name.
fn generator(word: &str) -> Option<(&'static Generator, &str)> {
    let end = word.find([':', ',']).unwrap_or(word.len());
    let (kind, sizes) = (&word[..end], word.get(end + 1..).unwrap_or(""));
    let mut all = GENERATORS.iter();
    let found = all.find(|generator| [generator.name, generator.joined].contains(&kind))?;
    Some((found, sizes))
}

/// Whether the word calls a generator, with right sizes or not. Such a word never names a file: `./testbed` does.
pub fn is_generated(word: &str) -> bool {
    generator(word).is_some()
}

/// The topology that a word such as `fat-tree:16` calls for.
///
/// # Errors
/// There is no such generator, or it refuses the sizes.
pub fn generate(word: &str) -> Result<Topology, WordError> {
    let form = || WordError::Form {
        word: word.to_owned(),
    };
    let (generator, written) = generator(word).ok_or_else(form)?;
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
        let parsed = number.parse().map_err(|_| WordError::Number {
            word: word.to_owned(),
            size: number.to_owned(),
        })?;
        sizes[place] = Some(parsed);
    }
    // A name alone has all defaults, and sizes with names leave out those that are as usual. Without names, all are written.
    let is_name_only = !word.contains([':', ',']);
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
    topology.map_err(|error| WordError::Sizes {
        word: word.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_call_the_generators() {
        for (word, hosts) in [
            ("testbed", 4),
            ("fat-tree:4", 16),
            ("fat-tree:8,pods=2", 32),
            ("fat-tree:8,pods=2,edges=1", 8),
            ("mesh:6", 6),
            ("leaf-spine:4,2,4", 16),
            ("n-tree:4,2", 8),
            // As Mininet's command line has them.
            ("fattree,k=4", 16),
            ("fattree", 16),
            ("fat-tree:k=4", 16),
            ("fattree,k=8,pods=2", 32),
            ("leafspine,leaves=2,spines=1,hosts=3", 6),
            ("leafspine,hosts=1", 4),
            ("ntree,ports=4,levels=2", 8),
            ("mesh,hosts=6", 6),
        ] {
            assert!(is_generated(word), "{word}");
            let topology = generate(word).map_err(|_| word).unwrap();
            assert_eq!(topology.hosts().len(), hosts, "{word}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        let why = generate("leaf-spine:2x2,3").unwrap_err().to_string();
        let expected =
            format!("topology leaf-spine:2x2,3: `2x2` is not a number; write {GENERATED}");
        assert_eq!(why, expected);
        for word in [
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
            assert!(generate(word).is_err(), "{word}");
        }
        for file in [
            "./testbed",
            "testbed.yaml",
            "labs/fat-tree",
            "topologies/mesh",
        ] {
            assert!(!is_generated(file), "{file}");
        }
    }
}
