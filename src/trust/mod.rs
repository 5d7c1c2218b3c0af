// SPDX-License-Identifier: GPL-3.0-or-later
//! What is trusted how far: the level of a call, where a text comes from, and the fence around text
//! that nobody said to the model. The ground floor: everything above may use it, it uses nothing.

pub mod fence;
mod level;
mod provenance;
mod source;

pub use level::SafetyLevel;
pub use provenance::Provenance;
pub use source::Source;
