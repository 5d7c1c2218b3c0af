// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools of the Lisp image: looking into it, and running, compiling and changing what is in it.

pub mod building;
pub mod clos;
mod common;
mod compiler_output;
pub mod compiling;
pub mod debugger;
pub mod execution;
pub mod history;
pub mod inspection;
pub mod introspection;
pub mod journal;
mod outcome;
pub mod packages;
mod sources;
pub mod systems;
pub mod xref;
