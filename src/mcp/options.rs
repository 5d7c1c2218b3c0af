// SPDX-License-Identifier: GPL-3.0-or-later
//! What the user set for other agents, as Emacs writes it.

use std::time::Duration;

use serde::Deserialize;

use super::profile::Profile;

/// What the user set for clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientOptions {
    pub profile: Profile,
    /// Seconds within which each call is answered.
    pub patience: f64,
    /// Seconds without a call after which a turn is over.
    pub turn_pause: f64,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            patience: 45.0,
            turn_pause: 60.0,
        }
    }
}

impl ClientOptions {
    #[must_use]
    pub fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.patience).unwrap_or(Duration::from_secs(45))
    }

    #[must_use]
    pub fn turn_pause(&self) -> Duration {
        Duration::try_from_secs_f64(self.turn_pause).unwrap_or(Duration::from_secs(60))
    }
}
