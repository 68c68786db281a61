//! The state that one update or one read accesses.

use alfirk_p4runtime::p4::v1::{entity::Entity as Kind, update::Type, Entity};

use super::{
    device::Pipeline,
    error::{invalid, UpdateResult},
};
use alfirk_bmv2::Switch;

/// The state of a device that one update may read and change.
pub struct Scope<'a> {
    pub switch: &'a mut Switch,
    pub pipeline: &'a mut Pipeline,
    pub now: u64,
}

/// The state of a device that one read accesses.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub switch: &'a Switch,
    pub pipeline: &'a Pipeline,
    pub now: u64,
}

/// Callback that receives each entity that a read finds.
pub type EntityVisitor<'a> = &'a mut dyn FnMut(Kind);

/// Returns the kind and contents of an entity. An entity that is not set is an INVALID_ARGUMENT error.
pub fn entity(entity: Option<&Entity>) -> UpdateResult<&Kind> {
    entity
        .and_then(|entity| entity.entity.as_ref())
        .ok_or_else(|| invalid("entity is unset or of an unknown kind"))
}

/// Rejects an INSERT or DELETE of an object that always exists and can only be modified.
pub fn only_modify(kind: Type, what: &str) -> UpdateResult {
    if kind == Type::Modify {
        Ok(())
    } else {
        Err(invalid(format!(
            "{what} always exist: they can only be modified"
        )))
    }
}
