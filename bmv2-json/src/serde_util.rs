//! Serde helpers shared by the types of this crate.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use std::fmt;

/// Serde functions for `next_tables`: a JSON object is stored as a list of pairs, which keeps the order of its
/// keys.
pub mod pairs {
    use super::*;

    pub fn serialize<S: Serializer>(
        pairs: &[(String, Option<String>)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(pairs.len()))?;
        for (key, value) in pairs {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, Option<String>)>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, Option<String>)>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object that maps actions to node names")
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Vec::new())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// Deserializes `null` as the type's default, like a missing key.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Shortens a JSON value for an error message.
pub fn excerpt(value: &serde_json::Value) -> String {
    let mut text = value.to_string();
    if text.len() > 80 {
        let end = (0..=77)
            .rev()
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
