// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat's user has settled beforehand about its calls: whether somebody can be asked, and when code
//! runs without asking.

use serde::Deserialize;

/// Whether somebody can answer an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// The chat asks its user.
    Ask,
    /// Nobody can answer: calls that need approval fail.
    None,
}

/// When code that the model wants to run in the image is run without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvalPolicy {
    /// Never: the user is asked about all of it.
    AskAlways,
    /// When assessing it finds nothing that reaches outside the program.
    #[default]
    AskIfRisky,
    /// Always.
    NeverAsk,
    /// No code is run at all.
    ReadOnly,
}
