// SPDX-License-Identifier: GPL-3.0-or-later
//! Sessions: one actor per chat. It owns the history, runs the turns and tells Emacs what happened.

pub mod settings;

pub use settings::SessionSettings;
