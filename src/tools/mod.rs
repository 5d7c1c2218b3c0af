// SPDX-License-Identifier: GPL-3.0-or-later
//! The built-in tools, a file per family.

pub mod buffer;

use crate::tool::registry::Registry;

/// Registers all built-in tools, in the order in which models are told of them.
pub fn register(registry: &Registry) {
    for tool in buffer::tools() {
        registry.register(tool);
    }
}
