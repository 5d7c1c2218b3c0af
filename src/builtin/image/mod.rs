// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools of the Lisp image: looking into it, and running, compiling and changing what is in it.

pub mod building;
pub mod clos;
mod common;
pub mod compiling;
pub mod debugger;
pub mod drift;
pub mod execution;
pub mod history;
pub mod inspection;
pub mod introspection;
pub mod measuring;
pub(crate) mod outcome;
pub mod systems;
pub mod timeouts;
pub mod verify;
pub mod xref;
