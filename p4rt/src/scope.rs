//! What one update works on, and what one read looks at.

use alfirk_p4runtime::p4::v1::{entity::Entity as Kind, update::Type, Entity};

use super::{
    device::Pipeline,
    error::{invalid, UpdateResult},
};
use alfirk_bmv2::Switch;

/// What one update works on.
pub struct Scope<'a> {
    pub switch: &'a mut Switch,
    pub pipeline: &'a mut Pipeline,
    pub now: u64,
}

/// What reads look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub switch: &'a Switch,
    pub pipeline: &'a Pipeline,
    pub now: u64,
}

/// Takes the entities that a read finds.
pub type Found<'a> = &'a mut dyn FnMut(Kind);

/// The entity itself; unset ones are wrong everywhere.
pub fn entity(entity: Option<&Entity>) -> UpdateResult<&Kind> {
    entity
        .and_then(|entity| entity.entity.as_ref())
        .ok_or_else(|| invalid("entity is unset or of an unknown kind"))
}

/// Objects that always exist can only be modified.
pub fn only_modify(kind: Type, what: &str) -> UpdateResult {
    if kind == Type::Modify {
        Ok(())
    } else {
        Err(invalid(format!(
            "{what} always exist: they can be modified only"
        )))
    }
}
