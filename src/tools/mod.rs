// SPDX-License-Identifier: GPL-3.0-or-later
//! The built-in tools, a file per family.

pub mod buffer;
pub mod clos;
mod common;
pub mod execution;
pub mod inspection;
pub mod introspection;
mod outcome;
pub mod packages;
pub mod xref;

use crate::tool::registry::Registry;

/// Registers all built-in tools, in the order in which models are told of them.
pub fn register(registry: &Registry) {
    let families = [
        introspection::tools(),
        xref::tools(),
        clos::tools(),
        packages::tools(),
        inspection::tools(),
        execution::tools(),
        buffer::tools(),
    ];
    for tool in families.into_iter().flatten() {
        registry.register(tool);
    }
}
