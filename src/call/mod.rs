// SPDX-License-Identifier: GPL-3.0-or-later
//! The way of a call.

pub mod approvals;
pub mod facts;
pub mod policy;
pub(crate) mod source;
