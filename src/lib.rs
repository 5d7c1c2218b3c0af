// SPDX-License-Identifier: GPL-3.0-or-later
//! agent-q's core: a dynamic module that Emacs loads. This file is the table of its Lisp entry
//! points and nothing else; see `bridge` for how they meet Emacs and `session` for what they drive.

#![deny(unsafe_code)]

pub mod gram;
pub mod image;
pub mod protocol;
pub mod provider;
pub mod session;
pub mod tool;
