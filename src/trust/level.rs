// SPDX-License-Identifier: GPL-3.0-or-later
//! How much harm a call can do. Tools are defined with a level, the assessment of a call raises it, and
//! rules go by it.

use std::fmt;

/// How much harm a call can do, and so who decides whether it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SafetyLevel {
    /// Only reads; runs at once.
    Safe,
    /// Changes the state of the image or a buffer; is logged, then runs.
    Cautious,
    /// Changes what lasts; runs only when it was approved.
    Dangerous,
}

impl SafetyLevel {
    /// The level's name as it is written in definitions, events and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Cautious => "cautious",
            Self::Dangerous => "dangerous",
        }
    }
}

impl fmt::Display for SafetyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
