// SPDX-License-Identifier: GPL-3.0-or-later
//! What outlives an Emacs: files of the user's own, readable, private, append-only or atomic.

pub mod audit;
