//! Thrift requests for the JSON text of the program.

use alfirk_bmv2_json::BmV2Json;
use alfirk_thrift::standard::{BmResourceType, IdLookupErrorCode, InvalidIdLookup};
use md5::{Digest, Md5};

/// Returns the MD5 hash of the JSON text, by which clients identify it.
pub fn md5(text: &str) -> Vec<u8> {
    Md5::digest(text).to_vec()
}

/// Returns the id that an object has in the JSON text, by the object's kind and name.
pub fn id_of(text: &str, kind: BmResourceType, name: &str) -> Result<i32, InvalidIdLookup> {
    let unknown = || InvalidIdLookup::from(IdLookupErrorCode::InvalidResourceName);
    let json = BmV2Json::from_text(text).map_err(|_| unknown())?;
    let id_in = |list: Vec<(String, i64)>| list.into_iter().find(|(n, _)| n == name).map(|n| n.1);
    macro_rules! list {
        ($objects:expr) => {
            id_in(
                $objects
                    .map(|object| (object.name.clone(), i64::from(object.id)))
                    .collect(),
            )
        };
    }
    let id = match kind {
        BmResourceType::MatchTable => list!(json.pipelines.iter().flat_map(|p| &p.tables)),
        BmResourceType::ActionProfile => {
            list!(json.pipelines.iter().flat_map(|p| &p.action_profiles))
        }
        BmResourceType::Counter => list!(json.counter_arrays.iter()),
        BmResourceType::Meter => list!(json.meter_arrays.iter()),
        BmResourceType::Register => list!(json.register_arrays.iter()),
        BmResourceType::LearningList => list!(json.learn_lists.iter()),
    };
    id.and_then(|id| i32::try_from(id).ok()).ok_or_else(unknown)
}
