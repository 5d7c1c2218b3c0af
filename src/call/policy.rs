// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat's user has settled beforehand about its calls: whether somebody can be asked, and when code
//! runs without asking.

use serde::Deserialize;

use crate::tool::Tool;
use crate::trust::SafetyLevel;

/// Tools that run code for what it returns.
const EVALUATE: &[&str] = &["eval_form", "eval_in_package"];

/// Whether a chat's model only looks and plans, so that calls that change something are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanMode {
    #[default]
    Off,
    /// Safe calls alone may run.
    Look,
    /// And evaluations in which nothing dangerous is found.
    Evaluate,
}

impl PlanMode {
    /// Why a call of TOOL may not run whose LEVEL was assessed; none when it may.
    #[must_use]
    pub fn objection(self, tool: &Tool, level: SafetyLevel) -> Option<String> {
        let evaluates = EVALUATE.contains(&tool.name.as_str()) && level < SafetyLevel::Dangerous;
        let runs = match self {
            Self::Off => true,
            Self::Look => level == SafetyLevel::Safe,
            Self::Evaluate => level == SafetyLevel::Safe || evaluates,
        };
        (!runs).then(|| {
            format!(
                "The user has switched plan mode on, and {} could change something. Go on without it; say in your plan what you would do with it.",
                tool.name
            )
        })
    }
}

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
