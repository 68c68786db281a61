//! Fields that a table's actions write, by outcome of the table.

use std::collections::BTreeSet;

use super::Location;
use crate::ir::{ActionId, ActionScope, Follow, Stmt, Table};

/// Fields that the actions of each outcome of a table may write, in the order of [`Follow::bodies`]. `written` has the writes by action.
pub fn outcomes(
    table: &Table,
    then: &Follow<Stmt>,
    written: &[(ActionId, BTreeSet<Location>)],
) -> Vec<BTreeSet<Location>> {
    let by = |which: &dyn Fn(ActionId) -> bool| -> BTreeSet<Location> {
        let of = written.iter().filter(|(action, _)| which(*action));
        of.flat_map(|(_, locations)| locations.clone()).collect()
    };
    let scope = |action: ActionId| {
        let mut references = table.actions.iter();
        references
            .find(|reference| reference.action == action)
            .map(|reference| reference.scope)
    };
    let of_entry = |action| scope(action) != Some(ActionScope::DefaultOnly);
    let by_default = |action: ActionId| match table.default.constant {
        true => action == table.default.action,
        false => scope(action) != Some(ActionScope::TableOnly),
    };
    match then {
        Follow::Hit { .. } => vec![by(&of_entry), by(&by_default)],
        Follow::Action { actions, .. } => {
            let named = |action: ActionId| actions.iter().any(|(ids, _)| ids.contains(&action));
            let each = actions
                .iter()
                .map(|(ids, _)| by(&|action| ids.contains(&action)));
            each.chain([by(&|action| !named(action))]).collect()
        }
    }
}
