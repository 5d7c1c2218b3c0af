// SPDX-License-Identifier: GPL-3.0-or-later
//! What a turn may use up before its user is asked whether it goes on: requests, tokens, time, money. Pure;
//! `turn` counts and asks.

use std::time::Duration;

/// What a turn may use before it asks. None: as much as it likes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub requests: u32,
    pub tokens: Option<u64>,
    /// Of the model and of tools; the time in which a call waits for the user doesn't count.
    pub time: Option<Duration>,
    /// US dollars. What requests to models of unknown price cost is not counted.
    pub cost: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 50,
            tokens: None,
            time: None,
            cost: None,
        }
    }
}

/// What a turn has used since its user last let it go on.
#[derive(Debug, Default)]
pub struct Spent {
    since: Since,
    requests: u32,
    tokens: u64,
    time: Duration,
    cost: f64,
}

/// Since when a turn's use is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Since {
    #[default]
    Beginning,
    /// Its user let it go on.
    GoAhead,
}

impl Spent {
    /// Nothing yet, by a turn that its user lets go on.
    #[must_use]
    pub fn since_go_ahead() -> Self {
        Self {
            since: Since::GoAhead,
            ..Self::default()
        }
    }

    /// Takes in a request that took TIME, TOKENS, sent and received, and COST dollars if that is known.
    pub fn request(&mut self, time: Duration, tokens: u64, cost: Option<f64>) {
        self.requests += 1;
        self.cost += cost.unwrap_or(0.0);
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
        let more = match self.since {
            Since::Beginning => "",
            Since::GoAhead => "another ",
        };
        let used = |what: String, option: &str| {
            Some(format!("The turn has used {more}{what} ({option})."))
        };
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
            Limits {
                cost: Some(most), ..
            } if self.cost >= *most => used(dollars(self.cost), "agent-q-max-turn-cost"),
            _ => None,
        }
    }
}

/// DOLLARS as text, to at least two digits that count, as the chat's header has them.
fn dollars(dollars: f64) -> String {
    match dollars < 0.1 {
        true => format!("${dollars:.4}"),
        false => format!("${dollars:.2}"),
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
            cost: Some(0.05),
        };
        let mut spent = Spent::default();
        assert_eq!(spent.exceeds(&limits), None);
        spent.request(Duration::from_secs(1), 99, Some(0.02));
        assert_eq!(spent.exceeds(&limits), None);
        let mut dear = Spent::default();
        dear.request(Duration::ZERO, 0, Some(0.0405));
        dear.request(Duration::ZERO, 0, None);
        assert_eq!(dear.exceeds(&limits), None);
        dear.request(Duration::ZERO, 0, Some(0.01));
        let dear_limits = Limits {
            requests: 50,
            ..limits
        };
        assert_eq!(
            dear.exceeds(&dear_limits).unwrap(),
            "The turn has used $0.0505 (agent-q-max-turn-cost)."
        );
        spent.tools(Duration::from_secs(59));
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used 60 s of work (agent-q-max-turn-seconds)."
        );
        spent.request(Duration::ZERO, 1, None);
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used 100 tokens (agent-q-max-turn-tokens)."
        );
        spent.request(Duration::ZERO, 0, None);
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used 3 requests (agent-q-max-iterations)."
        );
    }

    #[test]
    fn what_is_used_after_the_go_ahead_is_said_to_be_more() {
        let limits = Limits {
            cost: Some(0.5),
            ..Limits::default()
        };
        let mut spent = Spent::since_go_ahead();
        spent.request(Duration::ZERO, 0, Some(0.602));
        assert_eq!(
            spent.exceeds(&limits).unwrap(),
            "The turn has used another $0.60 (agent-q-max-turn-cost)."
        );
    }
}
