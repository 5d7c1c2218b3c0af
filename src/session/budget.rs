// SPDX-License-Identifier: GPL-3.0-or-later
//! What a turn may use up before its user is asked whether it goes on: requests, tokens, time. Pure;
//! `turn` counts, and `pause` asks.

use std::time::Duration;

/// What a turn may use before it asks. None: as much as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub requests: u32,
    pub tokens: Option<u64>,
    /// Of the model and of tools; the time in which a call waits for the user doesn't count.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 50,
            tokens: None,
            time: None,
        }
    }
}

/// What a turn has used since its user last let it go on.
#[derive(Debug, Default)]
pub struct Spent {
    requests: u32,
    tokens: u64,
    time: Duration,
}

impl Spent {
    /// Takes in a request that took TIME and cost TOKENS, sent and received.
    pub fn request(&mut self, time: Duration, tokens: u64) {
        self.requests += 1;
        self.tokens = self.tokens.saturating_add(tokens);
        self.time += time;
    }

    /// Takes in tools that ran for TIME.
    pub fn tools(&mut self, time: Duration) {
        self.time += time;
    }

    /// What is used up, if the next request would be beyond LIMITS: a sentence.
    #[must_use]
    pub fn exceeds(&self, limits: &Limits) -> Option<String> {
        let used =
            |what: String, option: &str| Some(format!("The turn has used {what} ({option})."));
        match limits {
            Limits { requests, .. } if self.requests >= *requests => {
                let plural = if self.requests == 1 { "" } else { "s" };
                used(
                    format!("{} request{plural}", self.requests),
                    "agent-q-max-iterations",
                )
            }
            Limits {
                tokens: Some(most), ..
            } if self.tokens >= *most => {
                used(format!("{} tokens", self.tokens), "agent-q-max-turn-tokens")
            }
            Limits {
                time: Some(most), ..
            } if self.time >= *most => used(
                format!("{} s of work", self.time.as_secs()),
                "agent-q-max-turn-seconds",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_said_with_its_option() {
        let limits = Limits {
            requests: 3,
            tokens: Some(100),
            time: Some(Duration::from_secs(60)),
        };
        let mut spent = Spent::default();
        assert_eq!(spent.exceeds(&limits), None);
        spent.request(Duration::from_secs(1), 99);
        assert_eq!(spent.exceeds(&limits), None);
        spent.tools(Duration::from_secs(59));
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used 60 s of work (agent-q-max-turn-seconds)."
        );
        spent.request(Duration::ZERO, 1);
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used 100 tokens (agent-q-max-turn-tokens)."
        );
        spent.request(Duration::ZERO, 0);
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used 3 requests (agent-q-max-iterations)."
        );
    }
}
