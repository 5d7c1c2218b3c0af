// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools of the user's files and buffers: reading, searching, editing, moving, and putting back.

pub mod balance;
pub mod buffer;
pub mod change;
pub mod definitions;
pub mod edits;
pub mod moves;
pub mod nesting;
pub mod parens;
pub mod reading;
pub mod rewind;
pub mod undo;
