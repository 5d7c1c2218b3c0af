// SPDX-License-Identifier: GPL-3.0-or-later
//! The way of a call, from what a model or a user sent to its one result: looked up, validated, assessed,
//! decided, run, recorded. `pipeline` has the order; each step has a file of its own.

pub mod approvals;
mod assess;
pub mod batch;
mod decide;
mod dispatch;
mod effects;
mod ending;
pub mod executor;
pub mod facts;
mod following;
pub mod format;
mod libraries;
pub mod metrics;
mod pipeline;
pub mod policy;
pub mod predict;
mod prepared;
mod private_reads;
pub mod reach;
mod renew;
mod source;
