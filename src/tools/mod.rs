// SPDX-License-Identifier: GPL-3.0-or-later
//! The built-in tools, a file per family.

pub mod buffer;
pub mod building;
pub mod debugger;
pub mod execution;
pub mod history;
pub mod introspection;
mod outcome;

use crate::tool::registry::Registry;

/// Registers all built-in tools, in the order in which models are told of them.
pub fn register(registry: &Registry) {
    let families = [
        introspection::tools(),
        execution::tools(),
        building::tools(),
        debugger::tools(),
        history::tools(),
        buffer::tools(),
    ];
    for tool in families.into_iter().flatten() {
        registry.register(tool);
    }
}
